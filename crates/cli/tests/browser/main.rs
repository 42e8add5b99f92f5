//! The report in a real browser. `cargo xtask test browser` runs these where Chromium is installed;
//! `SCREENSHOTS=dir` stores pictures to look at.

#[path = "../integration/common/mod.rs"]
mod common;
mod devtools;
mod network;

use common::{Place, text};
use devtools::Browser;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Small, with everything that a report can show of runs. Its description would be trouble if it
/// ever became HTML.
const SCENARIO: &str = r#"
name = "small"
description = "</script><img src=x onerror='window.trouble=1'> & more"
transports = ["tcp", "rcpdc", "ndp"]
[network]
topology = "leaf-spine"
racks = 2
hosts_per_rack = 4
spines = 2
rate = "10Gbps"
delay = "1us"
[[traffic]]
name = "queries"
pattern = "incast"
workers = 7
arrivals = { periodic = "250us" }
sizes = { uniform = ["2KB", "50KB"] }
deadlines = { exponential = { mean = "300us", floor = "100us" } }
[[traffic]]
pattern = "random"
arrivals = { poisson-load = 0.3 }
sizes = "web-search"
background = true
[run]
duration = "5ms"
repetitions = 2
sample = "20us"
"#;

/// 128 hosts and some thousand flows.
const LARGE: &str = r#"
name = "large"
transports = ["dctcp", "ndp"]
[network]
topology = "fat-tree"
k = 8
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "random"
arrivals = { poisson-load = 0.5 }
sizes = { uniform = ["2KB", "50KB"] }
deadlines = { exponential = { mean = "500us", floor = "100us" } }
[run]
duration = "3ms"
sample = "20us"
sample_at = ["host-up", "rack-up", "pod-up", "core-down", "pod-down", "host-down"]
"#;

/// Runs the program, and returns where its report is.
fn report(place: &Place, args: &[&str]) -> PathBuf {
    let output = place.punctual(&[args, &["--out", "out", "-q"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    place.path().join("out/report.html")
}

/// How many curves, bars or clouds of points each visible plot has, by its section.
const DRAWN: &str = "Object.fromEntries([...document.querySelectorAll('section[data-kind=chart]')]
    .filter(s => !s.hidden)
    .map(s => [s.id, s.querySelectorAll('svg.canvas .series').length]))";

fn store(browser: &mut Browser, name: &str, whole: bool) {
    let Some(dir) = std::env::var_os("SCREENSHOTS") else { return };
    let picture = decoded(&browser.screenshot(whole));
    std::fs::write(Path::new(&dir).join(name).with_extension("png"), picture).expect("written");
}

/// Base 64 as bytes.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.bytes().filter_map(|c| DIGITS.iter().position(|d| *d == c)) {
        bits = (bits << 6) | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn a_report_is_drawn_without_errors_or_requests_and_can_be_used() {
    let place = Place::new(SCENARIO);
    let page = report(&place, &["compare", "s.toml"]);
    let mut browser = Browser::desktop();
    browser.open(&page);
    assert_eq!(browser.complaints(), [""; 0]);
    let drawn = browser.eval(DRAWN);
    let count = |id: &str| drawn[id].as_u64().unwrap_or(0);
    for id in ["met", "fct", "deadlines", "queues", "rates"] {
        assert_eq!(count(id), 3, "{id}: {drawn}");
    }
    assert!(count("gauges") > 0, "{drawn}");
    // What is drawn is more than nothing, and the axes say what they are of.
    let longest = "Math.max(...[...document.querySelectorAll('#fct svg.canvas .series path')]
        .map(p => p.getAttribute('d').length))";
    assert!(browser.eval(longest).as_u64() > Some(200));
    let texts = "[...document.querySelectorAll('#queues svg.canvas text')].map(t => t.textContent)";
    let texts = browser.eval(texts).to_string();
    assert!(texts.contains("Time (ms)") && texts.contains("Queue (KB)"), "{texts}");
    // A plot a transport, each with the line of the deadline.
    let diagonal = "document.querySelectorAll('#deadlines [data-kind=diagonal]').length";
    assert_eq!(browser.eval(diagonal), 3);
    let line = "document.querySelector('#met svg.canvas .reference') !== null";
    assert_eq!(browser.eval(line), true);
    reads_its_head(&mut browser);
    // Texts of the scenario are text.
    let about = browser.eval("document.getElementById('about').textContent");
    assert!(about.as_str().is_some_and(|t| t.starts_with("</script><img")), "{about}");
    assert_eq!(browser.eval("window.trouble === undefined"), true);
    store(&mut browser, "desktop", true);

    hides_and_shows(&mut browser);
    tells_and_zooms(&mut browser);
    downloads(&mut browser, place.path());
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn explained_flows_are_drawn_part_by_part() {
    let place = Place::new(SCENARIO);
    report(&place, &["compare", "s.toml"]);
    for args in [&["explain", "out", "--sample", "4", "-q"][..], &["report", "out"]] {
        let output = place.punctual(args);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let mut browser = Browser::desktop();
    browser.open(&place.path().join("out/report.html"));
    assert_eq!(browser.complaints(), [""; 0]);
    let parts = "document.querySelectorAll('#time svg.canvas .series').length";
    let all = browser.eval(parts).as_u64().unwrap_or(0);
    assert!(all > 9, "three transports, of more than three parts each: {all}");
    let texts = "[...document.querySelectorAll('#time svg.canvas text')].map(t => t.textContent)";
    let texts = browser.eval(texts).to_string();
    assert!(texts.contains("in a queue behind others") && texts.contains("Time ("), "{texts}");
    browser.click("#legend .chip:nth-child(2)");
    let fewer = browser.eval(parts).as_u64().unwrap_or(0);
    assert!(fewer > 0 && fewer < all, "{fewer} of {all}");
    browser.click("#legend .chip:nth-child(2)");
    // The flows of the first run, one bar each.
    browser.eval(
        "(s => { s.value = 1; s.dispatchEvent(new Event('change')); })(document.querySelector('#time select'))",
    );
    let names = "[...document.querySelectorAll('#time svg.canvas > text')]
        .filter(t => t.textContent.startsWith('flow ')).length";
    assert_eq!(browser.eval(names), 4);
    browser.eval("document.getElementById('time').scrollIntoView()");
    store(&mut browser, "explained", false);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The verdict, the facts of network and load, and each transport's queue are on the page.
fn reads_its_head(browser: &mut Browser) {
    let verdict = browser.eval("document.getElementById('verdict').innerText").to_string();
    assert!(verdict.contains("deadlines"), "{verdict}");
    let facts = browser.eval("document.getElementById('facts').innerText").to_string();
    for part in ["8 hosts, 4 switches, 12 links of 10Gbps", "queries", "2 repetitions each"] {
        assert!(facts.contains(part), "{facts}");
    }
    let queues = "[...document.querySelectorAll('#summary tr.note')].map(r => r.textContent)";
    let queues = browser.eval(queues);
    assert_eq!(queues.as_array().map(Vec::len), Some(3), "{queues}");
    assert!(queues.to_string().contains("switch queue: trim"), "{queues}");
}

/// A click hides a transport in every plot and table, another shows it again.
fn hides_and_shows(browser: &mut Browser) {
    browser.eval("scrollTo(0, 0)");
    browser.click("#legend .chip:nth-child(2)");
    let drawn = browser.eval(DRAWN);
    for id in ["met", "fct", "deadlines", "queues", "rates"] {
        assert_eq!(drawn[id], 2, "{id}: {drawn}");
    }
    let names = "[...document.querySelectorAll('#fct .series')].map(s => s.dataset.name).sort()";
    assert_eq!(browser.eval(names), json!(["ndp", "tcp"]));
    let off = "document.querySelectorAll('#summary tr.off').length";
    assert_eq!(browser.eval(off), 1);
    browser.click("#legend .chip:nth-child(2)");
    assert_eq!(browser.eval(DRAWN)["fct"], 3);
    assert_eq!(browser.eval(off), 0);
}

/// Values appear under the mouse; dragging zooms, a double click goes back.
fn tells_and_zooms(browser: &mut Browser) {
    let (x, y) = browser.place_of("#fct svg.canvas");
    browser.mouse("mouseMoved", (x, y), 0);
    let tip = browser.eval("document.querySelector('#fct .tip').innerText");
    let tip = tip.as_str().expect("a text");
    assert!(tip.contains("ndp") && tip.contains('%') && tip.contains("s\n"), "{tip}");
    assert_eq!(browser.eval("document.querySelector('#fct .tip').hidden"), false);
    // Names are beside their values, not over them.
    let overlaps = "[...document.querySelectorAll('#fct .tip div:not(.head)')].filter(row => {
        const [name, value] = row.children;
        const svg = name.querySelector('svg').getBoundingClientRect();
        return name.getBoundingClientRect().right > value.getBoundingClientRect().left
            || svg.width > 30 || name.scrollWidth > name.clientWidth + 1;
    }).length";
    assert_eq!(browser.eval(overlaps), 0);
    store(browser, "hover", false);
    let ticks = "[...document.querySelectorAll('#fct svg.canvas text')].map(t => t.textContent)";
    let before = browser.eval(ticks);
    browser.mouse("mousePressed", (x - 100.0, y - 60.0), 1);
    browser.mouse("mouseMoved", (x, y), 1);
    browser.mouse("mouseMoved", (x + 100.0, y + 60.0), 1);
    browser.mouse("mouseReleased", (x + 100.0, y + 60.0), 1);
    assert_ne!(browser.eval(ticks), before);
    assert_eq!(browser.eval("document.querySelector('#fct .tools button').hidden"), false);
    store(browser, "zoomed", false);
    for clicks in [1, 2] {
        browser.mouse("mousePressed", (x, y), clicks);
        browser.mouse("mouseReleased", (x, y), clicks);
    }
    assert_eq!(browser.eval(ticks), before);
    let (x, y) = browser.place_of("#deadlines svg.canvas");
    // The nearest flow, wherever there is one: at the first dot of the first transport.
    let dot = "(() => { const svg = document.querySelector('#deadlines svg.canvas');
        const path = svg.querySelector('.series path').getAttribute('d');
        const [, px, py] = path.match(/^M([0-9.]+) ([0-9.]+)/).map(Number);
        const box = svg.getBoundingClientRect(); return [box.left + px, box.top + py]; })()";
    let at = browser.eval(dot);
    let at = (at[0].as_f64().unwrap_or(x), at[1].as_f64().unwrap_or(y));
    browser.mouse("mouseMoved", at, 0);
    let tip = browser.eval("document.querySelector('#deadlines .tip').innerText").to_string();
    for part in ["allowed", "taken", "seed ", "flow "] {
        assert!(tip.contains(part), "{tip}");
    }
    store(browser, "hover-flow", false);
    // Other views of the same plot: the tail, then slowdowns.
    let choose = |view: u32| {
        format!(
            "(() => {{ const s = document.querySelector('#fct select'); s.value = {view}; \
             s.dispatchEvent(new Event('change')); }})()"
        )
    };
    browser.eval(&choose(1));
    let texts = browser.eval(ticks).to_string();
    assert!(texts.contains("Flows not completed") && texts.contains("\"10 %\""), "{texts}");
    store(browser, "tail", false);
    browser.eval(&choose(2));
    assert!(browser.eval(ticks).to_string().contains("Slowdown"));
}

/// Each button leaves a file of its kind.
fn downloads(browser: &mut Browser, dir: &Path) {
    let dir = dir.join("downloads");
    std::fs::create_dir(&dir).expect("it can be made");
    let params = json!({ "behavior": "allow", "downloadPath": dir });
    browser.call("Browser.setDownloadBehavior", params);
    for (button, name, begins) in [
        (2, "small-deadlines.svg", &b"<svg xmlns=\"http://www.w3.org/2000/svg\""[..]),
        (3, "small-deadlines.png", b"\x89PNG\r\n"),
        (4, "small-deadlines.csv", b"transport,allowed_deadline_start_us,"),
    ] {
        browser.click(&format!("#deadlines .tools button:nth-child({button})"));
        let begun = Instant::now();
        let bytes = loop {
            match std::fs::read(dir.join(name)) {
                Ok(bytes) if !bytes.is_empty() => break bytes,
                _ => assert!(begun.elapsed() < Duration::from_secs(20), "no {name}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(bytes.starts_with(begins), "{name}: {:?}", String::from_utf8_lossy(&bytes));
        if let Some(keep) = std::env::var_os("SCREENSHOTS") {
            std::fs::write(Path::new(&keep).join(name), bytes).expect("written");
        }
    }
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn a_report_fits_a_phone_and_follows_dark_mode() {
    let place = Place::new(SCENARIO);
    let page = report(&place, &["compare", "s.toml"]);
    let mut browser = Browser::phone();
    browser.open(&page);
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 390);
    assert_eq!(browser.eval(DRAWN)["fct"], 3);
    // No table, picture or other part is wider than the page, and none has to be scrolled.
    let wider = "[...document.querySelectorAll('main *, header *, dl *')].filter(e =>
        e.closest('pre') === null && (e.getBoundingClientRect().right > 391
        || (['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1)))
        .map(e => e.tagName + '.' + e.className)";
    assert_eq!(browser.eval(wider), json!([]));
    // No text of a plot is cut off at its edges.
    let outside = "[...document.querySelectorAll('svg.canvas')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(t => {
            const own = t.getBoundingClientRect();
            return own.left < box.left - 1 || own.right > box.right + 1;
        }).map(t => t.textContent);
    })";
    assert_eq!(browser.eval(outside), json!([]));
    store(&mut browser, "phone", true);
    browser.prefer("dark");
    let dark = "document.documentElement.dataset.theme === 'dark'
        && getComputedStyle(document.body).backgroundColor === 'rgb(16, 19, 23)'";
    assert_eq!(browser.eval(dark), true);
    // Colours are those of the dark page.
    let strokes = "[...document.querySelectorAll('#fct .series')].every(s => {
        const look = looks.find(l => l.name === s.dataset.name);
        return s.querySelector('path').getAttribute('stroke') === look.dark;
    })";
    assert_eq!(browser.eval(strokes), true);
    store(&mut browser, "phone-dark", true);
    browser.click("#theme");
    assert_eq!(browser.eval("document.documentElement.dataset.theme"), "light");
    browser.resize(1240, 900, false);
    browser.click("#theme");
    store(&mut browser, "desktop-dark", true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn sweeps_and_capacities_are_drawn() {
    let place = Place::new(SCENARIO);
    let sweep = ["compare", "s.toml", "--set", "sweep.traffic.workers=[3, 7]"];
    let page = report(&place, &sweep);
    let mut browser = Browser::desktop();
    browser.open(&page);
    assert_eq!(browser.eval(DRAWN)["sweep"], 3);
    let shown = "[...document.querySelectorAll('section')].filter(s => !s.hidden).map(s => s.id)";
    assert!(browser.eval(shown).to_string().contains("\"fct\""));
    let choose = "(() => { const s = document.querySelector('#points select'); s.value = 1; \
                  s.dispatchEvent(new Event('change')); })()";
    browser.eval(choose);
    browser.settle();
    let sections = browser.eval(shown).to_string();
    assert!(sections.contains("\"fct-1\"") && !sections.contains("\"fct\""), "{sections}");
    assert_eq!(browser.eval(DRAWN)["fct-1"], 3);
    store(&mut browser, "sweep", true);
    let capacity = ["capacity", "s.toml", "--vary", "traffic.workers", "--to", "40"];
    let until = ["--until", "deadlines_met >= 60%", "--set", "transports=[\"tcp\", \"ndp\"]"];
    let place = Place::new(SCENARIO);
    let page = report(&place, &[&capacity[..], &until].concat());
    browser.open(&page);
    assert_eq!(browser.eval(DRAWN)["probes"], 2);
    let rows = "document.querySelectorAll('#capacity tbody tr:not(.note)').length";
    assert_eq!(browser.eval(rows), 2);
    let queues = browser.eval("document.querySelectorAll('#capacity tbody tr.note').length");
    assert_eq!(queues, 2, "each transport has its queue below it");
    let tried = browser.eval("document.getElementById('tried').textContent").to_string();
    assert!(tried.contains("host-down 0."), "the offered load: {tried}");
    let overrides = browser.eval("document.getElementById('overrides').textContent").to_string();
    assert!(overrides.contains("--set transports="), "{overrides}");
    store(&mut browser, "capacity", true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn a_report_of_128_hosts_is_small_and_opens_at_once() {
    let place = Place::new(LARGE);
    let page = report(&place, &["compare", "s.toml"]);
    let bytes = std::fs::metadata(&page).expect("it is there").len();
    assert!(bytes < 5_000_000, "{bytes} bytes");
    let mut browser = Browser::desktop();
    // Once to have the browser itself in memory.
    browser.open(&page);
    browser.open(&page);
    let millis =
        browser.eval("performance.timing.loadEventEnd - performance.timing.navigationStart");
    println!("{bytes} bytes, loaded in {millis} ms");
    assert!(millis.as_f64() < Some(2000.0), "{millis} ms");
    assert!(browser.eval(DRAWN)["deadlines"].as_u64() == Some(2));
    store(&mut browser, "large", true);
    assert_eq!(browser.complaints(), [""; 0]);
}
