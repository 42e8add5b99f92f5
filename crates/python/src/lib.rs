//! The native part of the `punctual` package for Python.
//!
//! The package's Python code gives scenarios as text, and gets JSON and directories of results
//! back; tables are read by pyarrow from the Parquet files there. Every function releases the GIL
//! while it works and looks for Ctrl-C several times a second.

// Functions that Python calls are generated with unsafe code.
#![allow(unsafe_code, unreachable_pub)]

mod call;
mod scenario;
mod study;
mod sweep;

use pyo3::prelude::*;

pyo3::create_exception!(
    punctual,
    PunctualError,
    pyo3::exceptions::PyException,
    "A command failed. The message says what is wrong, where, and what to do."
);
pyo3::create_exception!(
    punctual,
    ScenarioError,
    PunctualError,
    "A scenario is wrong. The message points at the line."
);
pyo3::create_exception!(
    punctual,
    IncompleteError,
    PunctualError,
    "Parts of a sweep are missing, damaged, foreign or of another build."
);

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("PunctualError", py.get_type::<PunctualError>())?;
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("IncompleteError", py.get_type::<IncompleteError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("build_id", punctual_lab::build_id())?;
    module.add_function(wrap_pyfunction!(scenario::to_toml, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::check, module)?)?;
    module.add_function(wrap_pyfunction!(study::study, module)?)?;
    module.add_function(wrap_pyfunction!(study::capacity, module)?)?;
    module.add_function(wrap_pyfunction!(study::explain, module)?)?;
    module.add_function(wrap_pyfunction!(study::report, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep_plan, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep_run, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep_status, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep_merge, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    Ok(())
}

/// Runs the `punctual` command with these arguments, the name of the program first, and returns its
/// exit code.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| punctual_cli::command::<punctual_transports::AnyTransport>(args))
}
