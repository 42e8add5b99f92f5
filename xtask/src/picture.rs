//! The picture of the report that the README and docs/report.md show.

use crate::figures::programs;
use crate::setup::BROWSER;
use crate::steps::Outcome;
use crate::tools::{is_installed, root, run};
use std::process::Command;

/// The scenario of the README.
const SCENARIO: &str = "scenarios/search.toml";
/// The picture, below the root.
const PICTURE: &str = "docs/images/search-report.png";
/// Width and height in pixels.
const SIZE: (u32, u32) = (1240, 1344);

/// Runs the README's comparison and takes a picture of the top of its report.
pub(crate) fn picture(dev: bool) -> anyhow::Result<Outcome> {
    if !is_installed(BROWSER) {
        return Ok(Outcome::Skipped(format!("{BROWSER} is not installed")));
    }
    let programs = programs(dev)?;
    let results = programs.join("picture");
    let mut compare = Command::new(programs.join("punctual"));
    compare.current_dir(root()).args(["compare", SCENARIO, "--quiet", "--out"]).arg(&results);
    run(&mut compare)?;
    let mut browser = Command::new(BROWSER);
    browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    browser.args(["--virtual-time-budget=3000", &format!("--window-size={},{}", SIZE.0, SIZE.1)]);
    browser.arg(format!("--screenshot={}", root().join(PICTURE).display()));
    browser.arg(format!("file://{}", results.join("report.html").display()));
    run(&mut browser)?;
    println!("{PICTURE} is written");
    Ok(Outcome::Passed)
}
