//! Just enough of the browser's DevTools protocol, over its pipe: JSON that ends in a zero byte.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long the browser may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs that will do, the first that is there.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A headless browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    /// What happened in the page and was not yet asked about.
    events: Vec<Value>,
    session: String,
    last_id: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Browser {
        let profile = tempfile::tempdir().expect("a directory for its profile");
        let program = BROWSERS.iter().find(|name| installed(name));
        let program = program.expect("no browser is installed: apt-get install chromium");
        // The protocol is on file descriptors 3 and 4, which the shell makes of our pipes.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("--remote-debugging-pipe")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let commands = child.stdin.take().expect("piped");
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            child,
            commands,
            answers,
            events: Vec::new(),
            session: String::new(),
            last_id: 0,
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.commands.write_all(message.to_string().as_bytes()).expect("the browser listens");
        self.commands.write_all(&[0]).expect("the browser listens");
        let asked = Instant::now();
        loop {
            match self.answers.recv_timeout(PATIENCE.saturating_sub(asked.elapsed())) {
                Ok(answer) if answer["id"] == self.last_id => {
                    assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                    return answer["result"].clone();
                }
                Ok(event) => self.events.push(event),
                Err(RecvTimeoutError::Timeout) => panic!("{method}: no answer"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser has ended"),
            }
        }
    }

    /// Waits until something has happened, and says what.
    fn wait_for(&mut self, method: &str) -> Value {
        let asked = Instant::now();
        loop {
            if let Some(at) = self.events.iter().position(|event| event["method"] == method) {
                return self.events.remove(at)["params"].clone();
            }
            let left = PATIENCE.saturating_sub(asked.elapsed());
            let event = self.answers.recv_timeout(left);
            self.events.push(event.unwrap_or_else(|_| panic!("{method} does not happen")));
        }
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        self.wait_for("Page.loadEventFired");
        self.settle();
    }

    /// Waits until the page has seen what changed and has drawn it.
    pub(crate) fn settle(&mut self) {
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let answer = self.call("Runtime.evaluate", params);
        let thrown = answer.get("exceptionDetails");
        assert!(thrown.is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Errors that the page met, and addresses it asked for beyond itself.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let params = &event["params"];
            let bad = match event["method"].as_str()? {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => params["type"] == "error",
                "Log.entryAdded" => params["entry"]["level"] == "error",
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or("");
                    let own = params["type"] == "Document" && url.starts_with("file:");
                    !own && !url.starts_with("data:") && !url.starts_with("blob:")
                }
                _ => false,
            };
            bad.then(|| event.to_string())
        };
        self.events.iter().filter_map(complaint).collect()
    }

    /// The middle of an element that is scrolled into view, in pixels.
    pub(crate) fn place_of(&mut self, selector: &str) -> (f64, f64) {
        let found = self.eval(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{ block: 'center' }}); const b = e.getBoundingClientRect(); \
             return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ));
        let number = |i: usize| found[i].as_f64().unwrap_or_else(|| panic!("no {selector}"));
        (number(0), number(1))
    }

    /// What a person's mouse does.
    pub(crate) fn mouse(&mut self, kind: &str, (x, y): (f64, f64), clicks: u32) {
        let buttons = u32::from(kind != "mouseReleased" && clicks > 0);
        let button = if clicks > 0 { "left" } else { "none" };
        let params = json!({
            "type": kind, "x": x, "y": y, "button": button, "buttons": buttons,
            "clickCount": clicks,
        });
        self.call("Input.dispatchMouseEvent", params);
    }

    pub(crate) fn click(&mut self, selector: &str) {
        let at = self.place_of(selector);
        self.mouse("mouseMoved", at, 0);
        self.mouse("mousePressed", at, 1);
        self.mouse("mouseReleased", at, 1);
    }

    /// One with the window of a desktop.
    pub(crate) fn desktop() -> Browser {
        let mut browser = Browser::start();
        browser.resize(1240, 900, false);
        browser
    }

    /// One with the screen of a phone.
    pub(crate) fn phone() -> Browser {
        let mut browser = Browser::start();
        browser.resize(390, 844, true);
        browser
    }

    /// The width and height of the screen.
    pub(crate) fn resize(&mut self, width: u32, height: u32, phone: bool) {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 },
            "mobile": phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", params);
        self.settle();
    }

    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        self.settle();
    }

    /// The whole page as PNG, in base 64.
    pub(crate) fn screenshot(&mut self, whole: bool) -> String {
        let params = json!({ "format": "png", "captureBeyondViewport": whole });
        let answer = self.call("Page.captureScreenshot", params);
        answer["data"].as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closing the pipe ends it; where it does not, it is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
