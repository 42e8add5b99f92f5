//! How many deadlines each transport met.

use crate::Draw;
use crate::canvas::{Canvas, Stroke};
use crate::cdf::{bold, draw_titles, plain, shortened};
use crate::font::Align;
use crate::palette::{Colour, line_styles};
use punctual_results::{Metric, Summary};

/// The share of deadlines that each transport met, with 95 % intervals: a bar a transport.
#[derive(Debug, Clone, Default)]
pub struct DeadlineBars {
    /// What is shown.
    pub title: String,
    /// Under which circumstances.
    pub subtitle: String,
    bars: Vec<Bar>,
}

#[derive(Debug, Clone)]
struct Bar {
    transport: String,
    met: Option<f64>,
    half_width: Option<f64>,
}

impl DeadlineBars {
    /// From one summary a transport, in the order of the bars.
    pub fn new(title: &str, subtitle: &str, summaries: &[Summary]) -> DeadlineBars {
        let bar = |summary: &Summary| Bar {
            transport: summary.title(),
            met: summary[Metric::DeadlinesMet].value,
            half_width: summary[Metric::DeadlinesMet].half_width,
        };
        DeadlineBars {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            bars: summaries.iter().map(bar).collect(),
        }
    }

    /// Whether any transport had deadlines to meet; without, there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.bars.iter().all(|bar| bar.met.is_none())
    }
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 180.0;
const RIGHT: f64 = 800.0;
const TOP: f64 = 92.0;
const ROW: f64 = 44.0;
const THICK: f64 = 24.0;

fn x_of(share: f64) -> f64 {
    LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
}

/// As in `97.3 % ± 0.4`.
fn percent(met: f64, half_width: Option<f64>) -> String {
    let value = format!("{:.1} %", met * 100.0);
    half_width.map_or(value.clone(), |half| format!("{value} ± {:.1}", half * 100.0))
}

impl Draw for DeadlineBars {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (TOP + ROW * self.bars.len() as f64 + 74.0) as u32)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        draw_titles(canvas, &self.title, &self.subtitle);
        let bottom = TOP + ROW * self.bars.len() as f64;
        for quarter in 0..=4 {
            let share = f64::from(quarter) / 4.0;
            let x = x_of(share);
            let colour = if quarter == 0 { Colour::AXIS } else { Colour::GRID };
            canvas.path(&[(x, TOP), (x, bottom + 6.0)], Stroke::solid(colour, 1.0));
            let label = format!("{} %", quarter * 25);
            canvas.text(&label, (x, bottom + 23.0), plain(13.0, Colour::MUTED, Align::Centre));
        }
        let middle = ((LEFT + RIGHT) / 2.0, bottom + 48.0);
        let name = plain(13.0, Colour::INK, Align::Centre);
        canvas.text("Deadlines met (share of deadline flows, 95 % interval)", middle, name);
        let styles = line_styles(self.bars.iter().map(|bar| bar.transport.as_str()));
        for (i, (bar, style)) in self.bars.iter().zip(styles).enumerate() {
            draw_bar(canvas, TOP + ROW * (i as f64 + 0.5), bar, style.colour);
        }
    }
}

fn draw_bar(canvas: &mut Canvas<'_>, middle: f64, bar: &Bar, colour: Colour) {
    let name = bold(14.0, Colour::INK, Align::Right);
    let text = shortened(&bar.transport, name, LEFT - 40.0);
    canvas.text(&text, (LEFT - 14.0, middle + 5.0), name);
    let number = plain(14.0, Colour::INK, Align::Left);
    let Some(met) = bar.met else {
        canvas.text("no deadlines", (LEFT + 10.0, middle + 5.0), number);
        return;
    };
    let (top, bottom) = (middle - THICK / 2.0, middle + THICK / 2.0);
    canvas.fill((LEFT, top), (x_of(met), bottom), colour);
    let mut end = x_of(met);
    if let Some(half) = bar.half_width {
        let (from, to) = (x_of(met - half), x_of(met + half));
        // One too narrow to see would only look like a flaw of the bar.
        if to - from >= 2.0 {
            whisker(canvas, middle, [from, to, x_of(met)]);
            end = end.max(to);
        }
    }
    let text = percent(met, bar.half_width);
    // No grid line through the number.
    let behind = (end + 6.0, middle - 10.0);
    canvas.fill(behind, (end + 14.0 + number.width(&text), middle + 10.0), Colour::WHITE);
    canvas.text(&text, (end + 10.0, middle + 5.0), number);
}

/// An interval's line and its ends: light on the bar, which ends at `bar`, and dark beyond.
fn whisker(canvas: &mut Canvas<'_>, middle: f64, [from, to, bar]: [f64; 3]) {
    let light = Stroke::solid(Colour::WHITE, 2.0);
    let dark = Stroke::solid(Colour::INK, 2.0);
    canvas.path(&[(from, middle), (bar, middle)], light);
    canvas.path(&[(bar, middle), (to, middle)], dark);
    for (x, stroke) in [(from, light), (to, if to > bar { dark } else { light })] {
        canvas.path(&[(x, middle - 6.0), (x, middle + 6.0)], stroke);
    }
}
