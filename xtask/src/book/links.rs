//! Checks relative links between pages and adapts them to the book.
//!
//! The book includes pages of the root (README.md and others) as `docs/about/NAME.md`. Links are
//! relative to the file that contains them, so that they work on code hosts.

use super::markdown::{anchors, links};
use crate::sources::find;
use crate::tools::root;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Pages of the root that are in the book.
pub(crate) const ROOT_PAGES: [&str; 4] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// All pages by path, relative to the root of the workspace.
pub(crate) fn read_pages() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut paths: Vec<PathBuf> = ROOT_PAGES.iter().map(PathBuf::from).collect();
    find(&root(), Path::new("docs"), "md", &mut paths)?;
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path));
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path, text))
    };
    paths.into_iter().map(read).collect()
}

/// Returns the broken links, and the pages that are not in SUMMARY.md.
pub(crate) fn check(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in pages {
        for link in links(text) {
            if let Err(why) = follow(pages, path, &link.target) {
                complaints.push(format!(
                    "{}:{}: {}: {why}",
                    path.display(),
                    link.line,
                    link.target
                ));
            }
        }
    }
    let summary = Path::new("docs/SUMMARY.md");
    let listed = pages.get(summary).map(|text| links(text)).unwrap_or_default();
    let listed: Vec<PathBuf> = listed.iter().map(|link| resolved(summary, &link.target)).collect();
    for path in pages.keys().filter(|path| path.starts_with("docs") && *path != summary) {
        if !listed.contains(path) {
            complaints.push(format!("{}: not in docs/SUMMARY.md", path.display()));
        }
    }
    complaints
}

/// Checks that a link leads to a page, an anchor of a page, or a file of the book.
fn follow(
    pages: &BTreeMap<PathBuf, String>,
    page: &Path,
    target: &str,
) -> Result<(), &'static str> {
    if is_external(target) {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    let path = if file.is_empty() { page.to_owned() } else { resolved(page, file) };
    match (pages.get(&path), anchor) {
        (Some(text), Some(anchor)) if !anchors(text).contains(anchor) => Err("no such heading"),
        (Some(_), _) => Ok(()),
        (None, None) if path.starts_with("docs") && root().join(&path).is_file() => Ok(()),
        (None, _) if root().join(&path).exists() => {
            Err("not a page of the book; name the file without a link")
        }
        (None, _) => Err("no such page"),
    }
}

fn is_external(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The target of a link on a page, relative to the root of the workspace.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// The source file of a chapter, relative to the root. Chapters are relative to docs/.
fn source_of(chapter: &Path) -> PathBuf {
    let name = chapter.strip_prefix("about").ok();
    let is_page = |page: &&&str| name.is_some_and(|name| name == Path::new(&page.to_lowercase()));
    match ROOT_PAGES.iter().find(is_page) {
        Some(page) => PathBuf::from(page),
        None => Path::new("docs").join(chapter),
    }
}

/// Adapts the links of a chapter to its place in the book.
pub(crate) fn in_book(chapter: &Path, text: &str) -> String {
    let source = source_of(chapter);
    let mut adapted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("](").map(|at| at + 2) {
        let (before, link) = rest.split_at(start);
        adapted.push_str(before);
        let end = link.find(')').unwrap_or(0);
        adapted.push_str(&link_in_book(chapter, &source, &link[..end]));
        rest = &link[end..];
    }
    adapted + rest
}

fn link_in_book(chapter: &Path, source: &Path, target: &str) -> String {
    let (file, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
    if is_external(target) || file.is_empty() {
        return target.to_owned();
    }
    let path = resolved(source, file);
    let in_book = match ROOT_PAGES.iter().find(|page| path == Path::new(page)) {
        Some(page) => Path::new("about").join(page.to_lowercase()),
        None => match path.strip_prefix("docs") {
            Ok(path) => path.to_owned(),
            Err(_) => return target.to_owned(),
        },
    };
    let ups = chapter.parent().map_or(0, |parent| parent.components().count());
    format!("{}{}{anchor}", "../".repeat(ups), in_book.display())
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn pages(pages: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn check__files_headings_and_summary() {
        let pages = pages(&[
            ("README.md", "[a](docs/a.md#there) [b](docs/b.md) [c](crates)"),
            ("docs/SUMMARY.md", "[a](a.md)"),
            ("docs/a.md", "# There\n[r](../README.md#none) [self](#there) [x](https://x.org)"),
            ("docs/d/e.md", "[a](../a.md)"),
        ]);
        let complaints = check(&pages);
        assert_eq!(
            complaints,
            [
                "README.md:1: docs/b.md: no such page",
                "README.md:1: crates: not a page of the book; name the file without a link",
                "docs/a.md:2: ../README.md#none: no such heading",
                "docs/d/e.md: not in docs/SUMMARY.md",
            ]
        );
    }

    #[test]
    fn in_book__links_of_root_pages_and_to_them() {
        let readme = "see [r](docs/report.md#x), [c](CONTRIBUTING.md) and [s](https://a.b/c)";
        assert_eq!(
            in_book(Path::new("about/readme.md"), readme),
            "see [r](../report.md#x), [c](../about/contributing.md) and [s](https://a.b/c)"
        );
        let page = "[a](../../ARCHITECTURE.md#events) [t](tcp.md) [i](../images/a.png) [h](#here)";
        assert_eq!(
            in_book(Path::new("transports/d3.md"), page),
            "[a](../about/architecture.md#events) [t](../transports/tcp.md) \
             [i](../images/a.png) [h](#here)"
        );
    }
}
