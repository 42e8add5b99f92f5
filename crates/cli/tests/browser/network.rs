//! The network in time.

use super::common::Place;
use super::devtools::Browser;
use super::{LARGE, SCENARIO, report, store};
use serde_json::{Value, json};

/// A frame as it is drawn: colours of links, bars, marks.
const FRAME: &str = "(() => { const svg = document.querySelector('#network svg.network'); return {
    links: [...svg.querySelectorAll('.link')].map(l => l.getAttribute('stroke')),
    queues: svg.querySelector('.queues').getAttribute('d'),
    marks: [...svg.querySelectorAll('.happening')].map(p => p.getAttribute('d')),
    time: document.querySelector('#network output').textContent,
    at: Number(document.querySelector('#network input[type=range]').value) }; })()";

/// Moves the slider as a person would.
fn slide(browser: &mut Browser, to: u32) -> Value {
    browser.eval(&format!(
        "(() => {{ const s = document.querySelector('#network input[type=range]'); s.value = {to};
        s.dispatchEvent(new Event('input')); }})()"
    ));
    browser.eval(FRAME)
}

fn choose(browser: &mut Browser, run: u32) {
    browser.eval(&format!(
        "(() => {{ const s = document.querySelector('#network select.run'); s.value = {run};
        s.dispatchEvent(new Event('change')); }})()"
    ));
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn the_network_is_drawn_and_plays() {
    let place = Place::new(SCENARIO);
    let page = report(&place, &["compare", "s.toml"]);
    let mut browser = Browser::desktop();
    browser.open(&page);
    assert_eq!(browser.complaints(), [""; 0]);
    // Eight hosts, two racks and two spines: twelve links in both directions.
    let count = |what: &str| format!("document.querySelectorAll('#network {what}').length");
    // Of two transports side by side.
    assert_eq!(browser.eval(&count(".net-pane svg.network")), 2);
    assert_eq!(browser.eval(&count("svg.network .link")), 48);
    assert_eq!(browser.eval(&count("svg.network .nodes rect")), 24);
    let names = "[...document.querySelectorAll('#network .net-pane h3')].map(h => h.textContent)";
    assert_eq!(browser.eval(names), json!(["tcp", "ndp"]));
    // The slider changes the picture, and what it says of the time.
    let first = slide(&mut browser, 0);
    let later = slide(&mut browser, 40);
    assert_eq!((&first["at"], &later["at"]), (&json!(0), &json!(40)));
    assert_ne!(first["links"], later["links"]);
    assert_ne!(first["time"], later["time"]);
    assert!(later["time"].as_str().is_some_and(|t| t.ends_with(" ms")), "{later}");
    // TCP drops and NDP trims: somewhere in each run there are such marks, and queues.
    for (run, mark) in [(0, 0), (2, 2)] {
        choose(&mut browser, run);
        let frames = browser.eval("document.querySelector('#network input[type=range]').max");
        let frames: u32 = frames.as_str().and_then(|n| n.parse().ok()).expect("a number");
        assert!((50..200).contains(&frames), "{frames}");
        let seen: Vec<Value> = (0..=frames).map(|f| slide(&mut browser, f)).collect();
        let some = |is: &dyn Fn(&Value) -> bool| seen.iter().filter(|frame| is(frame)).count();
        assert!(some(&|frame| frame["marks"][mark] != "") > 0, "run {run}");
        assert!(some(&|frame| frame["marks"][mark] == "") > 0, "run {run}");
        assert!(some(&|frame| frame["queues"] != "") > 0, "run {run}");
    }
    store(&mut browser, "network", true);
    keys_and_play(&mut browser);
    tells(&mut browser);
    // Dark mode has colours of its own.
    let light = slide(&mut browser, 40);
    browser.prefer("dark");
    let dark = browser.eval(FRAME);
    assert_eq!(light["at"], dark["at"]);
    assert_ne!(light["links"], dark["links"]);
    store(&mut browser, "network-dark", true);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Play goes on by itself and stops at a click; arrow keys step, space plays.
fn keys_and_play(browser: &mut Browser) {
    let at = |browser: &mut Browser| browser.eval(FRAME)["at"].as_u64().expect("a frame");
    slide(browser, 3);
    browser.click("#network .play");
    let begun = std::time::Instant::now();
    while at(browser) < 6 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "it does not play");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    browser.click("#network .play");
    let stopped = at(browser);
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(at(browser), stopped);
    let key = |key: &str| {
        format!(
            "document.querySelector('#network .net-view').dispatchEvent(new KeyboardEvent(\
             'keydown', {{ key: '{key}', bubbles: true, cancelable: true }}))"
        )
    };
    slide(browser, 10);
    browser.eval(&key("ArrowRight"));
    assert_eq!(at(browser), 11);
    browser.eval(&key("ArrowLeft"));
    browser.eval(&key("ArrowLeft"));
    assert_eq!(at(browser), 9);
    let says = "document.querySelector('#network .play').textContent";
    browser.eval(&key(" "));
    assert!(browser.eval(says).as_str().is_some_and(|text| text.contains("Pause")));
    browser.eval(&key(" "));
    assert!(browser.eval(says).as_str().is_some_and(|text| text.contains("Play")));
}

/// The mouse over a link tells its name and numbers; a click in the strip goes there.
fn tells(browser: &mut Browser) {
    slide(browser, 40);
    browser.eval("document.querySelector('#network').scrollIntoView({ block: 'start' })");
    let middle = "(() => { const l = document.querySelector('#network .link');
        const box = l.ownerSVGElement.getBoundingClientRect();
        const half = (a, b) => (Number(l.getAttribute(a)) + Number(l.getAttribute(b))) / 2;
        return [box.left + half('x1', 'x2'), box.top + half('y1', 'y2')]; })()";
    let at = browser.eval(middle);
    let at = (at[0].as_f64().expect("a place"), at[1].as_f64().expect("a place"));
    browser.mouse("mouseMoved", at, 0);
    let tip = browser.eval("document.querySelector('#network .tip').innerText").to_string();
    for part in ["host 0 → rack 0", "sending", "of 10 Gb/s", "longest queue"] {
        assert!(tip.contains(part), "{tip}");
    }
    store(browser, "network-hover", false);
    let before = browser.eval(FRAME)["at"].clone();
    let (x, y) = browser.place_of("#network svg.strip");
    browser.mouse("mousePressed", (x + 200.0, y), 1);
    browser.mouse("mouseReleased", (x + 200.0, y), 1);
    assert_ne!(browser.eval(FRAME)["at"], before);
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn the_network_fits_a_phone() {
    let place = Place::new(SCENARIO);
    let page = report(&place, &["compare", "s.toml"]);
    let mut browser = Browser::phone();
    browser.open(&page);
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 390);
    let drawn = "document.querySelectorAll('#network svg.network .link').length";
    assert_eq!(browser.eval(drawn), 24);
    browser.eval("document.querySelector('#network').scrollIntoView({ block: 'start' })");
    slide(&mut browser, 40);
    store(&mut browser, "network-phone", false);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn a_large_network_is_drawn_when_asked_for() {
    let place = Place::new(LARGE);
    let page = report(&place, &["compare", "s.toml", "--set", "transports=[\"ndp\"]"]);
    let mut browser = Browser::desktop();
    browser.open(&page);
    let said = "document.querySelector('#network .lead').textContent";
    assert!(
        browser.eval(said).as_str().is_some_and(|text| text.contains("run.network_trace=true"))
    );
    assert_eq!(browser.eval("document.querySelectorAll('#network svg').length"), 0);
    let asked = ["compare", "s.toml", "--set", "transports=[\"ndp\"]"];
    let page = report(&place, &[&asked[..], &["--set", "run.network_trace=true"]].concat());
    browser.open(&page);
    // 128 hosts, and as many links between each two tiers.
    assert_eq!(browser.eval("document.querySelectorAll('#network .link').length"), 768);
    store(&mut browser, "network-large", true);
    assert_eq!(browser.complaints(), [""; 0]);
}
