//! The `punctual` command with one more transport: every command knows `fixed-window`.

// The set of transports of this program: those of punctual and ours.
punctual_transports::register! {
    include punctual;
    FixedWindow(my_transport::fixed_window::FixedWindow), fixed_window;
}

// Compiles the simulator for that set.
punctual_sim::simulate!(AnyTransport);

fn main() -> std::process::ExitCode {
    punctual_cli::main::<AnyTransport>()
}
