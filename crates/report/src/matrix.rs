//! A picture of a table: one coloured cell per row and column.

use crate::html::escaped;
use std::fmt::Write as _;

/// A cell of a [`matrix_svg`].
#[derive(Debug, Clone, Default)]
pub struct MatrixCell {
    /// Its text.
    pub text: String,
    /// How good it is, from 0 to 1, the best of its column; none for a cell without a value.
    pub score: Option<f64>,
}

const CELL: (f64, f64) = (116.0, 30.0);
const LEFT: f64 = 140.0;
const TOP: f64 = 150.0;

/// A table as an SVG picture. Cells are darker the better they are.
pub fn matrix_svg(
    title: &str,
    subtitle: &str,
    columns: &[String],
    rows: &[(String, Vec<MatrixCell>)],
) -> String {
    let width = LEFT + CELL.0 * columns.len() as f64 + 24.0;
    let height = TOP + CELL.1 * rows.len() as f64 + 24.0;
    let mut body = String::new();
    let mut text = |x: f64, y: f64, anchor: &str, size: f64, colour: &str, text: &str| {
        let text = escaped(text);
        let _ = writeln!(
            body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             fill=\"{colour}\">{text}</text>"
        );
    };
    text(24.0, 36.0, "start", 20.0, "#1b1f24", title);
    text(24.0, 60.0, "start", 13.0, "#5b6470", subtitle);
    for (c, column) in columns.iter().enumerate() {
        let x = LEFT + CELL.0 * (c as f64 + 0.5);
        for (i, line) in lines(column).iter().enumerate() {
            text(x, TOP - 56.0 + 16.0 * i as f64, "middle", 12.5, "#1b1f24", line);
        }
    }
    let mut cells = String::new();
    for (r, (name, row)) in rows.iter().enumerate() {
        let y = TOP + CELL.1 * r as f64;
        text(LEFT - 12.0, y + 20.0, "end", 13.0, "#1b1f24", name);
        for (c, cell) in row.iter().enumerate() {
            let x = LEFT + CELL.0 * c as f64;
            let (fill, ink) = colours(cell.score);
            let (w, h) = (CELL.0 - 2.0, CELL.1 - 2.0);
            let _ = writeln!(
                cells,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w}\" height=\"{h}\" rx=\"3\" \
                 fill=\"{fill}\"/>"
            );
            text(x + CELL.0 / 2.0 - 1.0, y + 19.0, "middle", 12.5, ink, &cell.text);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, sans-serif\">\n<rect \
         width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{cells}{body}</svg>\n"
    )
}

/// A heading in lines of at most 16 characters where words allow it.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 16 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Fill and ink of a cell: from white at 0 to a dark blue at 1.
fn colours(score: Option<f64>) -> (String, &'static str) {
    let Some(score) = score.filter(|score| score.is_finite()) else {
        return ("#f3f4f6".into(), "#5b6470");
    };
    let score = score.clamp(0.0, 1.0);
    let mix = |from: f64, to: f64| (from + (to - from) * score).round() as u8;
    let fill =
        format!("#{:02x}{:02x}{:02x}", mix(244.0, 16.0), mix(247.0, 78.0), mix(251.0, 139.0));
    (fill, if score > 0.55 { "#ffffff" } else { "#1b1f24" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_drawn_and_texts_escaped() {
        let cell = |text: &str, score| MatrixCell { text: text.into(), score };
        let rows = [("<tcp>".to_owned(), vec![cell("54 %", Some(0.0)), cell("–", None)])];
        let svg = matrix_svg("t", "s", &["D3 burst (%)".into(), "b".into()], &rows);
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("&lt;tcp&gt;") && svg.contains("#f4f7fb") && svg.contains("#f3f4f6"));
    }
}
