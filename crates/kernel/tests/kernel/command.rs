//! `punctual kernel`, if PUNCTUAL_PROGRAM names a `punctual` with the feature `kernel`.

use crate::Test;
use crate::support::{Flow, Namespace, Plan, Sandbox, ensure, program, receive};
use libtest_mimic::Failed;
use punctual_kernel::set_deadline;
use std::net::Ipv4Addr;
use std::process::{Command, Output};
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[("command__load_status_unload_doctor", command__round)];

fn command__round(sandbox: &Sandbox) -> Result<(), Failed> {
    let Some(program) = program()? else { return Ok(()) };
    let options = sandbox.other("lc");
    let (pins, state) = (&options.paths.pins, &options.paths.state);
    let run = |words: &str| {
        let mut command = Command::new(&program);
        command.arg("kernel").args(words.split_whitespace());
        command.arg("--pins").arg(pins).arg("--state").arg(state).output()
    };
    let expect = |output: std::io::Result<Output>, code: i32, text: &str| {
        let output = output?;
        let all = [&output.stdout[..], &output.stderr].concat();
        let all = String::from_utf8_lossy(&all).into_owned();
        ensure!(output.status.code() == Some(code) && all.contains(text), "{text}: {all}");
        Ok(all)
    };
    expect(run("doctor"), 0, "ok       kernel: Linux")?;
    expect(run("status"), 0, "nothing is loaded")?;
    expect(run("unload"), 0, "nothing was loaded")?;
    let load = format!(
        "load --d2tcp {} --dctcp {} --cgroup {}",
        options.d2tcp,
        options.dctcp,
        sandbox.cgroup.display()
    );
    expect(run(&load), 0, "loaded lc_")?;
    expect(run(&load), 1, "loaded already")?;
    let namespace = Namespace::new();
    let to = receive(&namespace, Ipv4Addr::LOCALHOST.into(), &options.d2tcp);
    let flow = Flow::new(&options.d2tcp, to, Plan::Bytes(0));
    let stream = namespace.run(|| flow.connect())?;
    let _ = set_deadline(&stream, 1_000, Duration::from_secs(1));
    let text = expect(run("status"), 0, &format!("{} -> {to}", stream.local_addr()?))?;
    ensure!(text.contains(&options.d2tcp), "{text}");
    expect(run("status --json"), 0, "\"is_active\":true")?;
    expect(run("unload"), 0, "unloaded")?;
    expect(run("load --mark no-such-device"), 2, "no such device")?;
    expect(run("load --mark-only"), 2, "--mark")?;
    ensure!(!pins.exists() && !state.exists(), "files are left");
    Ok(())
}
