//! Commands on pages: all must parse, and those marked `<!-- run -->` are run.
//!
//! The marked fences of a page run in order in a temporary directory. A fence marked
//! `<!-- file: NAME -->` is written to that file. One marked `<!-- output -->` shows the output of
//! the fence before it. A fence marked `<!-- run: fails -->` must fail, and its output is its error
//! message.

use super::markdown::{Fence, fences};
use crate::tools::root;
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Checks that `program` accepts the commands of a page. Returns the errors.
pub(crate) fn parse(path: &Path, text: &str, program: &Path) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for fence in fences(text) {
        if !["", "sh"].contains(&fence.info.as_str()) {
            continue;
        }
        for (number, line) in fence.body.lines().enumerate() {
            for words in commands(line) {
                if let Err(why) = accepts(program, &words) {
                    let line = fence.line + 1 + number;
                    complaints.push(format!("{}:{line}: {why:#}", path.display()));
                }
            }
        }
    }
    Ok(complaints)
}

/// The arguments of each `punctual` command on a shell line.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    for word in words(line) {
        match word.as_str() {
            "&&" | "|" | ";" | "&" => commands.push(Vec::new()),
            _ => commands.last_mut().expect("a command").push(word),
        }
    }
    let is_ours = |words: &Vec<String>| words.first().is_some_and(|word| word == "punctual");
    let until_redirection =
        |words: Vec<String>| words.into_iter().skip(1).take_while(|w| w != ">").collect();
    commands.into_iter().filter(is_ours).map(until_redirection).collect()
}

/// The words of a shell line, without quotes and comments.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Checks that the program accepts the options of a command, and that its scenario is valid.
fn accepts(program: &Path, words: &[String]) -> anyhow::Result<()> {
    let quiet = |args: Vec<&str>| -> anyhow::Result<()> {
        let mut command = Command::new(program);
        let output = command.args(&args).current_dir(root()).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("`punctual {}`: {}", args.join(" "), why.trim());
        }
        Ok(())
    };
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    // The words after `exec SCENARIO HOST` are a command of their own, `--help` would be too.
    let own = match args[..] {
        ["testbed", "exec", ..] => &args[..args.len().min(4)],
        _ => &args[..],
    };
    quiet([own, &["--help"]].concat())?;
    let scenario = args.iter().find(|arg| arg.starts_with("scenarios/"));
    let (Some(scenario), Some(&("run" | "compare" | "capacity"))) = (scenario, args.first()) else {
        return Ok(());
    };
    let is_set = |at: &usize| args[*at] == "--set";
    let sets = (0..args.len()).filter(is_set).flat_map(|at| args[at..].iter().take(2));
    quiet(["check", scenario].iter().chain(sets).copied().collect())
}

/// Runs the marked fences of a page. Returns the page with their current output.
pub(crate) fn run(path: &Path, text: &str, program: &Path) -> anyhow::Result<String> {
    let fences = fences(text);
    let is_run = |fence: &Fence| fence.marker.as_ref().is_some_and(|m| m.starts_with("run"));
    if !fences.iter().any(is_run) {
        return Ok(text.to_owned());
    }
    let programs = program.parent().context("the program's directory")?;
    let dir = programs.parent().context("the target directory")?.join("book-examples");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    #[cfg(unix)]
    std::os::unix::fs::symlink(root().join("scenarios"), dir.join("scenarios"))?;
    let mut printed = String::new();
    let mut outputs: Vec<(&Fence, String)> = Vec::new();
    for fence in &fences {
        let place = || format!("{}:{}", path.display(), fence.line);
        match fence.marker.as_deref() {
            Some(marker @ ("run" | "run: fails")) => {
                let succeeds = marker == "run";
                printed = shell(&fence.body, &dir, programs, succeeds).with_context(place)?;
            }
            Some("output") => outputs.push((fence, std::mem::take(&mut printed))),
            Some(marker) => {
                if let Some(name) = marker.strip_prefix("file: ") {
                    std::fs::write(dir.join(name), &fence.body).with_context(place)?;
                }
            }
            None => {}
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(with_outputs(text, &outputs))
}

/// The output of a script in a terminal of 80 columns: stderr if it must fail, otherwise stdout.
fn shell(script: &str, dir: &Path, programs: &Path, succeeds: bool) -> anyhow::Result<String> {
    println!("$ {}", script.trim_end());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(dir);
    command.env("PATH", std::env::join_paths(path)?).env("COLUMNS", "80");
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() != succeeds {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`{}`: {}: {}", script.trim_end(), output.status, why.trim());
    }
    let text = String::from_utf8(if succeeds { output.stdout } else { output.stderr })?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n").trim_matches('\n').to_owned() + "\n")
}

fn with_outputs(text: &str, outputs: &[(&Fence, String)]) -> String {
    let mut replaced = String::new();
    let mut lines = text.split_inclusive('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        replaced.push_str(line);
        if let Some((fence, body)) = outputs.iter().find(|(fence, _)| fence.line == number + 1) {
            replaced.push_str(body);
            fence.body.lines().for_each(|_| _ = lines.next());
        }
    }
    replaced
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn commands__as_a_shell_reads_them() {
        let of = |line| commands(line).iter().map(|c| c.join("|")).collect::<Vec<_>>();
        assert_eq!(of("punctual list   # all of them"), ["list"]);
        assert_eq!(
            of("punctual run a --set 'b=[\"c\", 1]' --until \"d >= 1\" > x"),
            ["run|a|--set|b=[\"c\", 1]|--until|d >= 1"]
        );
        assert_eq!(of("punctual init a && punctual check a &"), ["init|a", "check|a"]);
        assert_eq!(of("cargo install punctual"), [""; 0]);
    }

    #[test]
    fn with_outputs__only_the_marked_fence_changes() {
        let text = "<!-- run -->\n```sh\na\n```\n<!-- output -->\n```\nold\nlines\n```\nend\n";
        let fences = fences(text);
        let outputs = [(&fences[1], "new\n".to_owned())];
        assert_eq!(with_outputs(text, &outputs), text.replace("old\nlines\n", "new\n"));
    }
}
