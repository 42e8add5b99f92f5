//! The documentation of results against the code.

mod docs;
