//! Charts as SVG files: the charts of the page, drawn without a browser.
//!
//! Labels are text in a font of the viewer's system. Their widths are estimates, which decide where
//! labels go and where they are truncated.

use crate::html::model::{Axis, Chart, Look, Mark, Reference, Series, Unit, View};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const RIGHT: f64 = 760.0;
const INK: &str = "#1b1f24";
const MUTED: &str = "#5b6470";
const AXIS: &str = "#8a939e";
const GRID: &str = "#dde1e6";
const FINE: &str = "#eff1f4";

/// Draws the first view of a chart on white, under a title.
pub(crate) fn drawn(chart: &Chart, looks: &[Look], title: &str, subtitle: &str) -> String {
    let Some(view) = chart.views.first() else { return String::new() };
    let mut picture = Picture(String::new());
    picture.title(&shortened(title, 22.5, WIDTH - 48.0));
    picture.text((24.0, 64.0), "start", &shortened(subtitle, 14.0, WIDTH - 48.0), 14.0, MUTED);
    let height = match chart.mark {
        Mark::Bars => bars(&mut picture, chart, view, looks),
        _ => plane(&mut picture, chart, view, looks),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, -apple-system, &quot;Segoe \
         UI&quot;, Roboto, &quot;Noto Sans&quot;, sans-serif\">\n<rect width=\"100%\" \
         height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
        picture.0
    )
}

type Point = (f64, f64);

struct Picture(String);

impl Picture {
    fn text(&mut self, (x, y): Point, anchor: &str, text: &str, size: f64, colour: &str) {
        let text = crate::html::escaped(text);
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             fill=\"{colour}\">{text}</text>"
        );
    }

    fn title(&mut self, text: &str) {
        let text = crate::html::escaped(text);
        let _ = writeln!(
            self.0,
            "<text x=\"24\" y=\"40\" font-size=\"21\" font-weight=\"700\" fill=\"{INK}\">{text}</text>"
        );
    }

    fn path(&mut self, d: &str, colour: &str, width: f64, dash: &str) {
        let dash = match dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let _ = writeln!(
            self.0,
            "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>"
        );
    }

    fn line(&mut self, (x1, y1): Point, (x2, y2): Point, colour: &str) {
        self.path(&format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"), colour, 1.0, "");
    }

    /// A reference line and its name.
    fn reference(&mut self, (x, y): Point, (x2, y2): Point) {
        self.path(&format!("M{x:.1} {y:.1}L{x2:.1} {y2:.1}"), MUTED, 1.25, "6 4");
    }
}

/// The estimated width of a text.
fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.33,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.9,
        c if c.is_uppercase() => 0.7,
        _ => 0.58,
    };
    size * text.chars().map(of).sum::<f64>()
}

/// A text truncated to a width.
fn shortened(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while short.pop().is_some() && width(&short, size) + size > most {}
    format!("{}…", short.trim_end())
}

/// Maps values to positions between 0 and 1.
struct Scale {
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale with round ends that covers some values.
    fn around(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let (log, mut from, mut to) = (axis.log, f64::INFINITY, f64::NEG_INFINITY);
        if let Some([from, to]) = axis.range {
            return Scale { log, from, to };
        }
        for value in values.filter(|value| value.is_finite() && !(log && *value <= 0.0)) {
            (from, to) = (from.min(value), to.max(value));
        }
        if from > to {
            (from, to) = (1.0, 10.0);
        }
        let step = if log { 0.0 } else { step((to - from).max(1e-9), 5.0) };
        (from, to) = match log {
            true => (round(from, false), round(to * 1.000_001, true)),
            false => ((from / step).floor() * step, (to / step).ceil() * step),
        };
        Scale { log, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.log { libm::log10(value.max(1e-300)) } else { value };
        (of(value) - of(self.from)) / (of(self.to) - of(self.from))
    }

    /// Values with a label, and those with a fine grid line.
    fn ticks(&self, most: usize) -> (Vec<f64>, Vec<f64>) {
        if !self.log {
            let step = step(self.to - self.from, most as f64);
            let first = (self.from / step - 1e-9).ceil() as i64;
            let last = (self.to / step + 1e-9).floor() as i64;
            return ((first..=last).map(|i| i as f64 * step).collect(), Vec::new());
        }
        let fine = self.multiples(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let choices: [&[f64]; 4] =
            [&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        // A label needs room beside its neighbour.
        let apart = |ticks: &[f64]| {
            ticks.windows(2).all(|p| self.place(p[1]) - self.place(p[0]) >= 0.9 / most as f64)
        };
        let all = choices.map(|factors| self.multiples(factors));
        let chosen = all.iter().find(|ticks| apart(ticks)).unwrap_or(&all[3]);
        (chosen.clone(), fine)
    }

    fn multiples(&self, factors: &[f64]) -> Vec<f64> {
        let first = libm::log10(self.from).floor() as i32;
        let last = libm::log10(self.to).ceil() as i32;
        let within = |v: &f64| (self.from * 0.9999..=self.to * 1.0001).contains(v);
        let all = (first..=last).flat_map(|power| {
            factors.iter().map(move |factor| factor * libm::pow(10.0, f64::from(power)))
        });
        all.filter(within).collect()
    }
}

/// The next of 1, 2, 5, 10, 20 … below or above a value.
fn round(value: f64, up: bool) -> f64 {
    let power = libm::pow(10.0, libm::log10(value).floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    match up {
        true => steps.into_iter().find(|step| *step >= value).unwrap_or(10.0 * power),
        false => steps.into_iter().rev().find(|step| *step <= value * 1.000_001).unwrap_or(power),
    }
}

/// A round distance between ticks, for at most `most` ticks.
fn step(span: f64, most: f64) -> f64 {
    round(span / most.max(1.0), true)
}

/// A value with its unit, in three significant digits: `1.25 ms`, `87.9 %`.
pub(crate) fn formatted(value: f64, unit: &Unit) -> String {
    let of = |units: &[(f64, &'static str)]| {
        let fits = |(size, _): &&(f64, &str)| value.abs() >= *size * 0.9995;
        units.iter().rev().find(fits).or(units.first()).copied().unwrap_or((1.0, ""))
    };
    let (size, name) = match unit {
        Unit::Time => of(&[(1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s")]),
        Unit::Bytes => of(&[(1.0, "B"), (1e3, "KB"), (1e6, "MB"), (1e9, "GB")]),
        Unit::BitsPerSecond => of(&[(1.0, "b/s"), (1e3, "Kb/s"), (1e6, "Mb/s"), (1e9, "Gb/s")]),
        Unit::Share => (0.01, "%"),
        Unit::Factor => (1.0, "×"),
        Unit::Number => (1.0, ""),
        Unit::Other(own) => return format!("{} {own}", digits(value)),
    };
    format!("{} {name}", digits(value / size)).trim_end().to_owned()
}

fn digits(value: f64) -> String {
    let decimals = if value.abs() >= 99.95 {
        0
    } else if value.abs() >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Draws horizontal bars with intervals, one per series. Returns the height of the picture.
fn bars(picture: &mut Picture, chart: &Chart, view: &View, looks: &[Look]) -> f64 {
    const TOP: f64 = 92.0;
    const ROW: f64 = 44.0;
    const THICK: f64 = 24.0;
    let name = |series: &Series| looks.get(series.transport).map_or("", |look| look.name.as_str());
    let widest = view.series.iter().map(|series| width(name(series), 15.0)).fold(60.0, f64::max);
    let left = (widest + 44.0).min(320.0);
    let axis = view.y.as_ref().unwrap_or(&chart.y);
    let scale = Scale::around(axis, view.series.iter().flat_map(|series| series.y.iter().copied()));
    let x = |value: f64| left + scale.place(value).clamp(0.0, 1.0) * (800.0 - left);
    let bottom = TOP + ROW * view.series.len() as f64;
    for tick in scale.ticks(5).0 {
        picture.line((x(tick), TOP), (x(tick), bottom + 5.0), GRID);
        picture.text((x(tick), bottom + 22.0), "middle", &formatted(tick, &axis.unit), 13.0, MUTED);
    }
    picture.line((left, TOP), (left, bottom), AXIS);
    for (i, series) in view.series.iter().enumerate() {
        let (Some(value), Some(look)) = (series.y.first(), looks.get(series.transport)) else {
            continue;
        };
        let middle = TOP + ROW * (i as f64 + 0.5);
        let label = shortened(&look.name, 15.0, left - 40.0);
        picture.text((left - 12.0, middle + 5.0), "end", &label, 15.0, INK);
        let _ = writeln!(
            picture.0,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{THICK}\" rx=\"2\" \
             fill=\"{}\"/>",
            middle - THICK / 2.0,
            (x(*value) - left).max(1.0),
            look.colour,
        );
        let half = series.half.first().copied().filter(|half| half.is_finite());
        if let Some(half) = half.filter(|half| x(value + half) - x(value - half) >= 2.0) {
            let (low, high) = (x(value - half), x(value + half));
            let (from, to) = (middle - 5.0, middle + 5.0);
            let d = format!(
                "M{low:.1} {from:.1}V{to:.1}M{low:.1} {middle:.1}H{high:.1}M{high:.1} {from:.1}V{to:.1}"
            );
            picture.path(&d, "#ffffff", 4.0, "");
            picture.path(&d, INK, 1.5, "");
        }
        // One decimal for every bar, so that they compare.
        let plus_minus = half.map_or_else(String::new, |half| format!(" ± {:.1}", half * 100.0));
        let text = match axis.unit {
            Unit::Share => format!("{:.1}{plus_minus} %", value * 100.0),
            _ => formatted(*value, &axis.unit),
        };
        picture.text((812.0, middle + 5.0), "start", &text, 14.0, INK);
    }
    for line in &view.lines {
        let Reference::Horizontal { at, label } = line else { continue };
        picture.reference((x(*at), TOP - 4.0), (x(*at), bottom));
        picture.text((x(*at), TOP - 9.0), "middle", label, 13.0, MUTED);
    }
    let middle = (left + 800.0) / 2.0;
    picture.text((middle, bottom + 46.0), "middle", &axis.label, 13.0, INK);
    bottom + 66.0
}

/// Draws lines with a legend on the right. Returns the height of the picture.
fn plane(picture: &mut Picture, chart: &Chart, view: &View, looks: &[Look]) -> f64 {
    const LEFT: f64 = 76.0;
    const TOP: f64 = 112.0;
    const BOTTOM: f64 = 452.0;
    const ENTRY: f64 = 26.0;
    let (x_axis, y_axis) =
        (view.x.as_ref().unwrap_or(&chart.x), view.y.as_ref().unwrap_or(&chart.y));
    let vertical = view.lines.iter().filter_map(|line| match line {
        Reference::Vertical { at, .. } => Some(*at),
        _ => None,
    });
    let along =
        |of: fn(&Series) -> &[f64]| view.series.iter().flat_map(move |s| of(s).iter().copied());
    let x_scale = Scale::around(x_axis, along(|series| &series.x).chain(vertical));
    let y_scale = Scale::around(y_axis, along(|series| &series.y));
    let x = |value: f64| LEFT + x_scale.place(value).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - y_scale.place(value).clamp(0.0, 1.0) * (BOTTOM - TOP);
    let (x_ticks, x_fine) = x_scale.ticks(9);
    for value in x_fine {
        picture.line((x(value), TOP), (x(value), BOTTOM), FINE);
    }
    for value in y_scale.ticks(5).0 {
        picture.line((LEFT, y(value)), (RIGHT, y(value)), GRID);
        let label = formatted(value, &y_axis.unit);
        picture.text((LEFT - 10.0, y(value) + 4.5), "end", &label, 13.0, MUTED);
    }
    for value in x_ticks {
        picture.line((x(value), TOP), (x(value), BOTTOM + 5.0), GRID);
        let label = formatted(value, &x_axis.unit);
        picture.text((x(value), BOTTOM + 22.0), "middle", &label, 13.0, MUTED);
    }
    picture.line((LEFT, BOTTOM), (RIGHT, BOTTOM), AXIS);
    picture.text((24.0, TOP - 16.0), "start", &y_axis.label, 13.0, INK);
    picture.text(((LEFT + RIGHT) / 2.0, BOTTOM + 47.0), "middle", &x_axis.label, 13.0, INK);
    for line in &view.lines {
        let Reference::Vertical { at, label } = line else { continue };
        picture.reference((x(*at), TOP), (x(*at), BOTTOM));
        let text = format!("{label} {}", formatted(*at, &x_axis.unit));
        // Neither beyond the right end nor over the name of the axis on the left.
        let half = width(&text, 13.0) / 2.0;
        let middle = x(*at).min(RIGHT - half).max(40.0 + width(&y_axis.label, 13.0) + half);
        picture.text((middle, TOP - 16.0), "middle", &text, 13.0, MUTED);
    }
    // The first of the legend is drawn last, on top.
    for series in view.series.iter().rev() {
        let Some(look) = looks.get(series.transport) else { continue };
        let mut d = String::new();
        for (i, (px, py)) in series.x.iter().zip(&series.y).enumerate() {
            let (px, py) = (x(*px), y(*py));
            let _ = match (i, chart.mark, view.before) {
                (0, Mark::Step, Some(before)) => write!(d, "M{px:.1} {:.1}V{py:.1}", y(before)),
                (0, ..) => write!(d, "M{px:.1} {py:.1}"),
                (_, Mark::Step, _) => write!(d, "H{px:.1}V{py:.1}"),
                _ => write!(d, "L{px:.1} {py:.1}"),
            };
        }
        if view.before.is_some() && !d.is_empty() {
            let _ = write!(d, "H{RIGHT}");
        }
        picture.path(&d, &look.colour, 2.5, look.dash_pattern);
    }
    let mut entry = TOP + 10.0;
    for series in &view.series {
        let Some(look) = looks.get(series.transport) else { continue };
        let d = format!("M{} {:.1}h34", RIGHT + 20.0, entry - 4.5);
        picture.path(&d, &look.colour, 3.0, look.dash_pattern);
        let name = shortened(&look.name, 14.0, WIDTH - RIGHT - 70.0);
        picture.text((RIGHT + 62.0, entry), "start", &name, 14.0, INK);
        entry += ENTRY;
    }
    if view.series.iter().all(|series| series.x.is_empty()) {
        let middle = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        picture.text(middle, "middle", "no flow completed", 16.0, MUTED);
    }
    (BOTTOM + 68.0).max(entry + 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ends_and_labels_with_units() {
        let axis = Axis::log("FCT", Unit::Time);
        let scale = Scale::around(&axis, [7.3, 91_000.0].into_iter());
        assert_eq!((scale.from, scale.to), (5.0, 100_000.0));
        let texts: Vec<String> =
            scale.ticks(5).0.iter().map(|tick| formatted(*tick, &Unit::Time)).collect();
        assert_eq!(texts, ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        // One value, or none, still makes an axis.
        for values in [vec![3.0], vec![], vec![0.0]] {
            let scale = Scale::around(&axis, values.into_iter());
            assert!(scale.from < scale.to && !scale.ticks(9).0.is_empty());
        }
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(formatted(1254.0, &Unit::Time), "1.25 ms");
        assert_eq!(formatted(999.6, &Unit::Time), "1 ms");
        assert_eq!(formatted(0.879, &Unit::Share), "87.9 %");
        assert_eq!(formatted(0.0, &Unit::Share), "0 %");
        assert_eq!(formatted(20.0, &Unit::Other("ms".into())), "20 ms");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shortened("short", 10.0, 100.0), "short");
        let cut = shortened(&"long ".repeat(50), 10.0, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 10.0) < 110.0, "{cut}");
    }
}
