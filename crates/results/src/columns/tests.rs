use super::*;
use crate::network::FrameRow;
use crate::{FlowRow, GaugeRow, PauseRow, PortRow};
use punctual_record::PortSample;
use punctual_testkit::print_figure;

const DOCS: &str = include_str!("../../../../docs/results.md");

/// The columns of a table as the docs show them.
fn table<R: Table>() -> String {
    let mut text = "| column | type | unit | meaning |\n|---|---|---|---|\n".to_owned();
    for column in R::COLUMNS {
        let Column { name, unit, about, kind, is_nullable, .. } = column;
        let kind = format!("{kind:?}").to_lowercase();
        let null = if *is_nullable { ", nullable" } else { "" };
        let unit = if unit.is_empty() { String::new() } else { format!("{unit} ") };
        text += &format!("| `{name}` | {kind}{null} | {unit}| {about} |\n");
    }
    text
}

/// `cargo xtask figures columns` writes the tables to the page.
#[test]
fn docs_have_the_columns_of_every_file() {
    print_figure("columns-flows", &table::<FlowRow>());
    print_figure("columns-queues", &table::<PortSample>());
    print_figure("columns-gauges", &table::<GaugeRow>());
    print_figure("columns-pauses", &table::<PauseRow>());
    print_figure("columns-ports", &table::<PortRow>());
    print_figure("columns-network", &table::<FrameRow>());
    let tables = [
        ("flows", table::<FlowRow>()),
        ("queues", table::<PortSample>()),
        ("gauges", table::<GaugeRow>()),
        ("pauses", table::<PauseRow>()),
        ("ports", table::<PortRow>()),
        ("network", table::<FrameRow>()),
    ];
    for (name, table) in tables {
        let block = format!("<!-- figure: columns-{name} -->\n{table}<!-- /figure -->");
        assert!(DOCS.contains(&block), "docs/results.md: run `cargo xtask figures columns-{name}`");
    }
}

#[test]
fn names_of_columns_differ() {
    fn check<R: Table>() {
        let mut names: Vec<_> = R::COLUMNS.iter().map(|column| column.name).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
    check::<FlowRow>();
    check::<PortSample>();
    check::<GaugeRow>();
    check::<PauseRow>();
    check::<PortRow>();
    check::<FrameRow>();
}

#[test]
fn values_that_do_not_fit_are_refused() {
    assert_eq!(u16::from_cell(Cell::Int(65_535)), Ok(65_535));
    let error = u16::from_cell(Cell::Int(65_536)).unwrap_err();
    assert_eq!(error, "holds 65536, which is too large");
    assert_eq!(bool::from_cell(Cell::Null), Err("has empty places".to_owned()));
    assert_eq!(Option::<bool>::from_cell(Cell::Null), Ok(None));
    assert!(f64::from_cell(Cell::Text("1")).is_err());
}
