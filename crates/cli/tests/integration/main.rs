//! The `punctual` command as a user runs it.
#![allow(non_snake_case)]

mod captures;
mod common;
mod differences;
mod errors;
mod explain;
mod levels;
mod runs;
mod safety;
mod tools;
mod unfinished;
