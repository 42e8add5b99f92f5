//! The page without scripts: its tables and texts.

use super::escaped;
use super::model::{Body, Page, Section, Stack, TableBody};
use std::fmt::Write as _;

/// The page's warnings, tables and files as HTML.
pub(crate) fn text(page: &Page) -> String {
    let mut html = String::new();
    if !page.about.is_empty() {
        let _ = writeln!(html, "<p class=\"lead\">{}</p>", escaped(&page.about));
    }
    if !page.overrides.is_empty() {
        let set: Vec<String> = page.overrides.iter().map(|set| format!("--set {set}")).collect();
        let _ = writeln!(html, "<p class=\"lead\">Overrides: {}</p>", escaped(&set.join(" ")));
    }
    for (i, head) in page.heads.iter().enumerate() {
        let point = page.points.get(i).map_or_else(String::new, |point| format!("{point}: "));
        let verdict = format!("{point}{}", head.verdict.join(" "));
        let _ = writeln!(html, "<p class=\"verdict\">{}</p>", escaped(&verdict));
        let queues = head.queues.iter().filter_map(|(transport, queue)| {
            Some((format!("Switch queue of {}", page.transports.get(*transport)?.name), queue))
        });
        let facts = head.facts.iter().map(|(name, text)| (name.clone(), text));
        for (name, text) in facts.chain(queues) {
            let fact = format!("{name}: {text}");
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escaped(&fact));
        }
    }
    for warning in &page.warnings {
        let _ = writeln!(html, "<p class=\"warning\">{}</p>", escaped(warning));
    }
    for section in &page.sections {
        let body = match &section.body {
            Body::Table(rows) => table(rows),
            Body::Text { text, .. } => format!("<pre>{}</pre>\n", escaped(text)),
            Body::Stack(stack) => list(stack),
            Body::Chart(_) | Body::Network(_) => continue,
        };
        let Section { title, lead, .. } = section;
        let point = section.point.and_then(|point| page.points.get(point));
        let point = point.map_or_else(String::new, |point| format!(", {point}"));
        let _ = write!(
            html,
            "<section class=\"card\">\n<h2>{}</h2>\n<p class=\"lead\">{}</p>\n{body}</section>\n",
            escaped(&format!("{title}{point}")),
            escaped(lead),
        );
    }
    html
}

/// The text of each bar.
fn list(stack: &Stack) -> String {
    let rows = stack.views.iter().flat_map(|view| &view.rows);
    let items =
        rows.map(|row| format!("<li>{}: {}</li>\n", escaped(&row.label), escaped(&row.about)));
    format!("<ul>\n{}</ul>\n", items.collect::<String>())
}

fn table(table: &TableBody) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for cell in &table.header {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(cell));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        html += "<tr>";
        for (i, cell) in row.cells.iter().enumerate() {
            let class = if row.best.contains(&i) { " class=\"best\"" } else { "" };
            let _ = write!(html, "<td{class}>{}</td>", escaped(cell));
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}
