//! The `punctual` command with the transports of this repository.

fn main() -> std::process::ExitCode {
    punctual_cli::main::<punctual_transports::AnyTransport>()
}
