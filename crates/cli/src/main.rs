//! The `punctual` command with the built-in transports.

fn main() -> std::process::ExitCode {
    punctual_cli::main::<punctual_transports::AnyTransport>()
}
