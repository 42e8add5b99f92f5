//! The `punctual` command: arguments, progress, messages and exit codes. The `punctual-lab` crate
//! does the work.
//!
//! It is a library, so that a crate with its own transports can build a `punctual` with them:
//! [`main`] is generic over the set of transports.

mod args;
mod commands;
mod exit;
mod help;
pub mod library;
mod progress;

use anyhow::Context as _;
use args::{Cli, Command};
use clap::Parser as _;
use punctual_sim::Simulate;
use std::any::TypeId;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command of the command line, with the transports of a set.
pub fn main<S: Simulate>() -> ExitCode {
    ExitCode::from(command::<S>(std::env::args_os()))
}

/// Runs the command of some arguments, of which the first is the name of the program, and returns
/// its exit code.
pub fn command<S: Simulate>(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and versions are no mistakes.
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE } else { 0 };
        }
    };
    punctual_lab::set_commit(env!("PUNCTUAL_COMMIT"));
    if let Err(error) = identify::<S>() {
        return exit::report(&error);
    }
    let result = match &cli.command {
        Command::Run(study) => commands::run::run::<S>(study),
        Command::Compare(study) => commands::compare::compare::<S>(study),
        Command::Capacity { study, question } => commands::capacity::capacity::<S>(study, question),
        Command::Report { dir, open, out, json } => {
            commands::report::report::<S>(dir, *open, out.as_deref(), json.json)
        }
        Command::Explain(args) => commands::explain::explain::<S>(args),
        Command::Reproduce(args) => commands::reproduce::reproduce::<S>(args),
        Command::Init { file, json } => commands::init::init(file, json.json),
        Command::Sweep { command } => commands::sweep::sweep::<S>(command),
        Command::Replay(replay) => commands::replay::replay::<S>(replay),
        Command::Capture(capture) => commands::capture::capture::<S>(capture),
        Command::Convert(convert) => commands::convert::convert::<S>(convert),
        Command::Completions { shell } => commands::shell::completions(*shell),
        Command::Man { dir } => commands::shell::man(dir),
        Command::Check { file, changes, json } => {
            commands::check::check::<S>(file, changes, json.json)
        }
        Command::List { json } => commands::list::list::<S>(json.json),
        Command::Send(args) => commands::transfer::send(args),
        Command::Receive(args) => commands::transfer::receive(args),
        #[cfg(target_os = "linux")]
        Command::Hostd(args) => commands::hostd::hostd(args),
        #[cfg(target_os = "linux")]
        Command::Switch(args) => commands::switch::switch(args),
        #[cfg(target_os = "linux")]
        Command::Testbed { command } => commands::testbed::testbed(command),
        Command::Kernel { command } => commands::kernel::kernel(command),
        Command::Perf {
            address,
            listen,
            size,
            count,
            bulk,
            placement,
            spin,
            secret,
            link,
            printing,
        } => {
            let perf = commands::perf::Perf {
                address: address.as_deref(),
                listen: listen.as_deref(),
                size: size.get() as usize,
                count: *count,
                bulk: bulk.get() as usize,
                placement: *placement,
                spins: *spin,
                key: secret.key.as_deref(),
            };
            commands::perf::perf(&perf, link, printing)
        }
        Command::Ping { address, count, interval, printing } => {
            commands::perf::ping(address, *count, *interval, printing)
        }
        Command::Bench { names, here, threads, printing } => {
            let how = commands::bench::How { here: *here, threads: usize::from(*threads) };
            commands::bench::bench::<S>(names, how, printing)
        }
    };
    match result {
        Ok(()) => 0,
        Err(error) => exit::report(&error),
    }
}

/// The message of an error as the command prints it, without colours.
pub fn message(error: &anyhow::Error) -> String {
    exit::message(error, false).1
}

/// Makes the build id cover transports that are not built in.
fn identify<S: Simulate>() -> anyhow::Result<()> {
    if TypeId::of::<S>() != TypeId::of::<punctual_transports::AnyTransport>() {
        let program = std::env::current_exe().context("cannot find this program")?;
        punctual_lab::set_program(&program)
            .with_context(|| format!("cannot read {}", program.display()))?;
    }
    Ok(())
}
