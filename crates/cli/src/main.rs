//! The `punctual` command: arguments, progress, messages and exit codes. What it does is done by
//! the lab.

mod args;
mod commands;
mod exit;
mod help;
mod progress;

use args::{Cli, Command};
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    punctual_lab::set_commit(env!("PUNCTUAL_COMMIT"));
    let global = &cli.global;
    let result = match &cli.command {
        Command::Run(study) => commands::run::run(study, global),
        Command::Compare(study) => commands::compare::compare(study, global),
        Command::Capacity { study, question } => {
            commands::capacity::capacity(study, question, global)
        }
        Command::Report { dir, open } => commands::report::report(dir, *open, global),
        Command::Explain(args) => commands::explain::explain(args, global),
        Command::Init { file } => commands::init::init(file, global),
        Command::Replay(replay) => commands::replay::replay(replay, global),
        Command::Completions { shell } => commands::shell::completions(*shell),
        Command::Man { dir } => commands::shell::man(dir),
        Command::Check { file } => commands::check::check(file, global),
        Command::List => commands::list::list(global),
        Command::Send { file, address, deadline, link } => {
            commands::transfer::send(file, address, *deadline, link, global)
        }
        Command::Receive { listen, overwrite, wait, link } => {
            commands::transfer::receive(listen, *overwrite, *wait, link, global)
        }
        Command::Bench { names, here } => commands::bench::bench(names, *here, global),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}
