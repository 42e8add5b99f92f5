//! Figures and tables of results.
//!
//! * [`FctCdf`]: how completion times are distributed, a curve a transport.
//! * [`DeadlineBars`]: how many deadlines each transport met, with intervals.
//! * [`Results`]: the runs of a directory, in order; [`html()`]: a directory of results as one page, to look at in a browser.
//! * [`table`], [`markdown`]: the comparison in numbers; [`group_table`]: by traffic class or flow size; [`sweep_tables`]: over a sweep; [`plain_table`]: of any texts.
//!
//! A figure is drawn to SVG or PNG in memory. It carries its own font, needs nothing of the
//! system, and comes out as the same bytes wherever it is drawn. A transport has the same colour
//! in every figure.

mod bars;
mod canvas;
mod cdf;
mod collect;
mod explain;
mod font;
mod html;
mod misses;
mod palette;
mod scale;
mod sweep;
mod table;

pub use bars::DeadlineBars;
pub use cdf::{Curve, FctCdf};
pub use collect::{PointRuns, ReportError, Results, Row};
pub use explain::{explained_flow, explained_flows, explained_totals, time_line};
pub use html::{Report, html, report};
pub use misses::{baseline_of, fewer_misses};
pub use palette::{Colour, Dash, LineStyle, line_style};
pub use sweep::{SweepPoint, sweep_tables};
pub use table::{GroupedBy, Style, Width, group_table, markdown, notes, plain_table, table};

use canvas::Canvas;

/// How a figure is drawn.
pub(crate) trait Draw {
    /// Width and height in units.
    fn size(&self) -> (u32, u32);
    /// Draws it.
    fn draw(&self, canvas: &mut Canvas<'_>);
}

/// Gives a figure its two outputs.
macro_rules! figure {
    ($figure:ty) => {
        impl $figure {
            /// As SVG text. Its letters are text, so a viewer may use a font of its own.
            pub fn svg(&self) -> String {
                canvas::svg(self.size(), |canvas| self.draw(canvas))
            }

            /// As the bytes of a PNG file, 1920 pixels wide.
            pub fn png(&self) -> Vec<u8> {
                canvas::png(self.size(), |canvas| self.draw(canvas))
            }
        }
    };
}

figure!(FctCdf);
figure!(DeadlineBars);
