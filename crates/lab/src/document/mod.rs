//! A scenario as a tree of values that know where they were written, before it means anything.

mod decode;
mod node;
mod path;

pub(crate) use decode::{decode, fields_of, unknown};
pub(crate) use node::{Kind, Node, Table, parse};
pub(crate) use path::{set, set_path, span_of};
