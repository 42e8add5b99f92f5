//! Figures and tables of results.
//!
//! * [`Results`]: the runs of a directory, in order; [`html()`]: a directory of results as one page, to look at in a browser;
//!   [`report_of_both`]: a scenario run in two ways.
//! * [`reproduction_html`]: reproduced experiments of papers as one page.
//! * [`matrix_svg`]: a table as a picture.
//! * [`figures`]: charts of that page as SVG files.
//! * [`table`], [`markdown`]: the comparison in numbers; [`group_table`]: by traffic class or flow size; [`sweep_tables`]: over a sweep; [`plain_table`]: of any texts.
//! * [`Palette`]: the colour and dash of each transport, the same in every plot.
//!
//! Page and files are drawn from one chart model (`html/model.rs`): by the page's script where a
//! reader can zoom and choose, and by `svg.rs` for files. Both come out as the same bytes wherever
//! they are made.

mod collect;
mod explain;
mod figures;
mod html;
mod matrix;
mod misses;
mod palette;
mod svg;
mod sweep;
mod table;

pub use collect::{PointRuns, ReportError, Results, Row};
pub use explain::{explained_flow, explained_flows, explained_totals, time_line, wrapped};
pub use figures::{Curve, figures};
pub use html::reproduction::{
    ReproducedChart, ReproducedCurve, ReproducedFigure, Reproduction, reproduction_html,
    reproduction_svg,
};
pub use html::{Report, html, report, report_of_both};
pub use matrix::{MatrixCell, matrix_svg};
pub use misses::{baseline_of, fewer_misses};
pub use palette::{Colour, Dash, LineStyle, Palette, Rgb};
pub use sweep::{SweepPoint, sweep_tables};
pub use table::{GroupedBy, Style, Width, group_table, markdown, notes, plain_table, table};
