//! How completion times are distributed.

use crate::Draw;
use crate::canvas::{Canvas, Stroke};
use crate::font::{Align, TextStyle};
use crate::palette::{Colour, Dash, LineStyle, line_styles};
use crate::scale::{TimeAxis, time_text};
use punctual_core::Duration;
use punctual_results::{FlowRow, Statistic, Time, Times};

/// The distribution of flow completion times, a curve a transport.
///
/// A curve's height is the share of all measured flows that had completed after that time, so a
/// transport that never finishes some of them does not reach 1.
#[derive(Debug, Clone, Default)]
pub struct FctCdf {
    /// What is shown.
    pub title: String,
    /// Under which circumstances.
    pub subtitle: String,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// The deadline that all flows have, if they have the same.
    pub deadline: Option<Duration>,
}

/// One transport's completion times.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    transport: String,
    /// In ascending order.
    completed: Vec<Duration>,
    /// All flows, completed or not, in picoseconds.
    times: Times,
}

impl Curve {
    /// From completion times, in any order, and what is known of flows that did not complete, in
    /// picoseconds.
    pub fn new(transport: &str, completed: Vec<Duration>, open: Vec<Time>) -> Curve {
        let mut completed = completed;
        completed.sort_unstable();
        let known = completed.iter().map(|time| Time::Completed(time.as_picos() as f64));
        let times = Times::new(known.chain(open));
        Curve { transport: transport.to_owned(), completed, times }
    }

    /// From the flows of a run or of several repetitions; those that are not measured are left
    /// out.
    pub fn of<'a>(transport: &str, flows: impl IntoIterator<Item = &'a FlowRow>) -> Curve {
        let (mut completed, mut open) = (Vec::new(), Vec::new());
        for flow in flows.into_iter().filter(|flow| flow.measured) {
            match (flow.fct, flow.censored) {
                (Some(fct), _) => completed.push(fct),
                (None, Some(bound)) => open.push(Time::Censored(bound.as_picos() as f64)),
                (None, None) => open.push(Time::Never(0.0)),
            }
        }
        Curve::new(transport, completed, open)
    }

    /// The time by which that share of all flows, in thousandths, had completed: in words, as it
    /// may be open.
    fn quantile(&self, per_mille: u32) -> String {
        let text = |picos: f64| time_text(Duration::from_picos(picos as u64));
        match self.times.percentile(per_mille) {
            Statistic::Nothing => "–".to_owned(),
            Statistic::Exactly(time) => text(time),
            Statistic::AtLeast(0.0) => "never".to_owned(),
            Statistic::AtLeast(time) => format!("> {}", text(time)),
        }
    }
}

impl FctCdf {
    /// The deadline that all measured flows share, counted from the start of each; none when they
    /// differ or some flow has none.
    pub fn common_deadline<'a>(flows: impl IntoIterator<Item = &'a FlowRow>) -> Option<Duration> {
        let mut flows = flows.into_iter().filter(|flow| flow.measured);
        let allowed = |flow: &FlowRow| Some(flow.deadline?.saturating_since(flow.start));
        let first = allowed(flows.next()?)?;
        flows.all(|flow| allowed(flow) == Some(first)).then_some(first)
    }
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 750.0;
const TOP: f64 = 112.0;
const BOTTOM: f64 = 452.0;
const HEIGHT: f64 = 520.0;
/// Height of an entry of the legend.
const ENTRY: f64 = 42.0;

pub(crate) fn plain(size: f64, colour: Colour, align: Align) -> TextStyle {
    TextStyle { size, bold: false, colour: colour.rgb(), align }
}

pub(crate) fn bold(size: f64, colour: Colour, align: Align) -> TextStyle {
    TextStyle { bold: true, ..plain(size, colour, align) }
}

/// The head that all figures share.
pub(crate) fn draw_titles(canvas: &mut Canvas<'_>, title: &str, subtitle: &str) {
    let lines = [
        (title, 40.0, bold(21.0, Colour::INK, Align::Left)),
        (subtitle, 64.0, plain(14.0, Colour::MUTED, Align::Left)),
    ];
    for (text, y, style) in lines {
        canvas.text(&shortened(text, style, WIDTH - 48.0), (24.0, y), style);
    }
}

impl Draw for FctCdf {
    fn size(&self) -> (u32, u32) {
        let legend = TOP + ENTRY * self.curves.len() as f64 + 24.0;
        (WIDTH as u32, HEIGHT.max(legend) as u32)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        let times = self.curves.iter().flat_map(|curve| {
            [curve.completed.first(), curve.completed.last()].into_iter().flatten().copied()
        });
        let axis = TimeAxis::around(times.chain(self.deadline));
        draw_titles(canvas, &self.title, &self.subtitle);
        draw_grid(canvas, &axis);
        if let Some(deadline) = self.deadline {
            draw_deadline(canvas, &axis, deadline);
        }
        let styles = line_styles(self.curves.iter().map(|curve| curve.transport.as_str()));
        // The first of the legend is drawn last, on top.
        for (curve, style) in self.curves.iter().zip(&styles).rev() {
            draw_curve(canvas, &axis, curve, *style);
        }
        for (i, (curve, style)) in self.curves.iter().zip(&styles).enumerate() {
            draw_legend(canvas, TOP + 12.0 + ENTRY * i as f64, curve, *style);
        }
        if self.curves.iter().all(|curve| curve.completed.is_empty()) {
            let middle = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
            canvas.text("no flow completed", middle, plain(16.0, Colour::MUTED, Align::Centre));
        }
    }
}

fn x_of(axis: &TimeAxis, time: Duration) -> f64 {
    LEFT + axis.place(time).clamp(0.0, 1.0) * (RIGHT - LEFT)
}

fn y_of(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

fn draw_grid(canvas: &mut Canvas<'_>, axis: &TimeAxis) {
    let line = |canvas: &mut Canvas<'_>, from, to, colour| {
        canvas.path(&[from, to], Stroke::solid(colour, 1.0));
    };
    for time in axis.fine() {
        let x = x_of(axis, time);
        line(canvas, (x, TOP), (x, BOTTOM), Colour::FINE_GRID);
        line(canvas, (x, BOTTOM), (x, BOTTOM + 3.0), Colour::AXIS);
    }
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = y_of(share);
        line(canvas, (LEFT, y), (RIGHT, y), Colour::GRID);
        let label = crate::scale::three_digits(share);
        canvas.text(&label, (LEFT - 10.0, y + 4.5), plain(13.0, Colour::MUTED, Align::Right));
    }
    for time in axis.labels() {
        let x = x_of(axis, time);
        line(canvas, (x, TOP), (x, BOTTOM), Colour::GRID);
        line(canvas, (x, BOTTOM), (x, BOTTOM + 6.0), Colour::AXIS);
        let label = time_text(time);
        canvas.text(&label, (x, BOTTOM + 23.0), plain(13.0, Colour::MUTED, Align::Centre));
    }
    line(canvas, (LEFT, BOTTOM), (RIGHT, BOTTOM), Colour::AXIS);
    let name = plain(13.0, Colour::INK, Align::Left);
    canvas.text("Share of flows completed", (24.0, TOP - 16.0), name);
    let name = TextStyle { align: Align::Centre, ..name };
    let middle = (LEFT + RIGHT) / 2.0;
    canvas.text("Flow completion time, flows of all runs pooled", (middle, BOTTOM + 48.0), name);
}

fn draw_deadline(canvas: &mut Canvas<'_>, axis: &TimeAxis, deadline: Duration) {
    let x = x_of(axis, deadline);
    let stroke = Stroke { colour: Colour::MUTED, width: 1.25, dash: Dash::Dashed };
    canvas.path(&[(x, BOTTOM), (x, TOP)], stroke);
    let text = format!("deadline {}", time_text(deadline));
    let style = plain(13.0, Colour::MUTED, Align::Centre);
    // Not beyond the right end of the axis, nor over its name on the left.
    let half = style.width(&text) / 2.0;
    let named = 24.0 + style.width("Share of flows completed") + 16.0;
    let middle = x.min(RIGHT - half).max(named + half);
    canvas.text(&text, (middle, TOP - 16.0), style);
}

fn draw_curve(canvas: &mut Canvas<'_>, axis: &TimeAxis, curve: &Curve, style: LineStyle) {
    let Some(&first) = curve.completed.first() else {
        return;
    };
    let mut points = vec![(x_of(axis, first), y_of(0.0))];
    let mut y = y_of(0.0);
    for (i, &time) in curve.completed.iter().enumerate() {
        let x = x_of(axis, time);
        points.push((x, y));
        y = y_of((i + 1) as f64 / curve.times.len() as f64);
        points.push((x, y));
    }
    if curve.completed.len() < curve.times.len() {
        // No more are known to have completed.
        points.push((RIGHT, y));
    }
    canvas.path(&points, Stroke { colour: style.colour, width: 2.5, dash: style.dash });
}

fn draw_legend(canvas: &mut Canvas<'_>, y: f64, curve: &Curve, style: LineStyle) {
    const X: f64 = RIGHT + 24.0;
    let stroke = Stroke { colour: style.colour, width: 3.0, dash: style.dash };
    canvas.path(&[(X, y - 4.5), (X + 28.0, y - 4.5)], stroke);
    let name = bold(14.0, Colour::INK, Align::Left);
    canvas.text(&shortened(&curve.transport, name, 130.0), (X + 38.0, y), name);
    let numbers = format!("p50 {}, p99 {}", curve.quantile(500), curve.quantile(990));
    canvas.text(&numbers, (X + 38.0, y + 17.0), plain(11.5, Colour::MUTED, Align::Left));
}

/// A text cut to a width.
pub(crate) fn shortened(text: &str, style: TextStyle, width: f64) -> String {
    if style.width(text) <= width {
        return text.to_owned();
    }
    let mut short: String = text.to_owned();
    while short.pop().is_some() {
        let cut = format!("{}…", short.trim_end());
        if style.width(&cut) <= width {
            return cut;
        }
    }
    String::new()
}

#[cfg(test)]
#[path = "figure_tests.rs"]
mod tests;
