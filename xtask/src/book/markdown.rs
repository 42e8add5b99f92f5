//! Parses the Markdown that the book's checks need: fences, links and anchors.

use std::collections::BTreeSet;

/// A fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Line of the opening fence, from 1.
    pub(crate) line: usize,
    /// The HTML comment on the line before, without its brackets.
    pub(crate) marker: Option<String>,
    /// The text after the opening fence, such as `toml`.
    pub(crate) info: String,
    pub(crate) body: String,
}

/// A link or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Line number, from 1.
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// All fenced code blocks of a page.
pub(crate) fn fences(text: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut open: Option<Fence> = None;
    let mut previous = "";
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (Some(_), Some(_)) => fences.extend(open.take()),
            (Some(fence), None) => {
                fence.body.push_str(line);
                fence.body.push('\n');
            }
            (None, Some(info)) => {
                let marker = previous.strip_prefix("<!-- ").and_then(|m| m.strip_suffix(" -->"));
                open = Some(Fence {
                    line: number + 1,
                    marker: marker.map(str::to_owned),
                    info: info.trim().to_owned(),
                    body: String::new(),
                });
            }
            (None, None) => {}
        }
        previous = line;
    }
    fences
}

/// The lines of a page that are not in a fence, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((number + 1, line))
    })
}

/// All links and images of a page, outside code.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        // Every second piece between backquotes is code, which contains no links.
        let text: String = text.split('`').step_by(2).collect();
        for part in text.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                links.push(Link { line, target: target.to_owned() });
            }
        }
    }
    links
}

/// The anchors of a page: those of its headings, as in mdBook and code hosts, and `<a id="…">`.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        if line.starts_with('#') {
            let slug = slug(line.trim_start_matches('#').trim());
            let numbered = |n: usize| if n == 0 { slug.clone() } else { format!("{slug}-{n}") };
            let free = (0..).map(numbered).find(|anchor| !anchors.contains(anchor));
            anchors.extend(free);
        }
        for part in line.split("<a id=\"").skip(1) {
            anchors.extend(part.split('"').next().map(str::to_owned));
        }
    }
    anchors
}

/// The anchor of a heading: lower case, hyphens for spaces, no punctuation.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n\n## NDP's `pull` queue (R16)\n## Title\n<a id=\"old-name\"></a>\n\
                        A [link](a.md#b), `[not](one)` and [`code`](c.md).\n\n<!-- run -->\n```sh\n\
                        # [nor](this)\npunctual list\n```\n![image](d.png)\n";

    #[test]
    fn fences__with_marker_info_and_body() {
        let fence = Fence {
            line: 9,
            marker: Some("run".into()),
            info: "sh".into(),
            body: "# [nor](this)\npunctual list\n".into(),
        };
        assert_eq!(fences(PAGE), [fence]);
    }

    #[test]
    fn links__outside_code() {
        let links: Vec<_> = links(PAGE).into_iter().map(|l| (l.line, l.target)).collect();
        let expected = [(6, "a.md#b"), (6, "c.md"), (13, "d.png")];
        assert_eq!(links, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn anchors__as_code_hosts_write_them() {
        let anchors = anchors(PAGE);
        let expected = ["ndps-pull-queue-r16", "old-name", "title", "title-1"];
        assert_eq!(anchors.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }
}
