//! `punctual completions` and `punctual man`, generated from the definition of the command line.

use crate::args::Cli;
use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::Path;

pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "punctual", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Writes a manual page for the program and one for each command.
pub(crate) fn man(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut program = Cli::command();
    program.build();
    let mut pages = vec![("punctual".to_owned(), program.clone())];
    for command in program.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("punctual-{}", command.get_name());
        // clap needs a `'static` name; the leak is small.
        let command = command.clone().name(name.clone().leak() as &'static str);
        pages.push((name, command));
    }
    for (name, command) in pages {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).context("cannot render a manual page")?;
        punctual_results::save(dir, &format!("{name}.1"), &page)?;
    }
    writeln!(std::io::stdout().lock(), "manual pages in {}; man -l FILE shows one", dir.display())?;
    Ok(())
}
