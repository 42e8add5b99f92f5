//! A scenario as a tree of TOML values with their places in the text.

mod decode;
mod node;
mod path;

pub(crate) use decode::{decode, fields_of, unknown};
pub(crate) use node::{Entry, Kind, Node, Table, parse, parse_value};
pub(crate) use path::{leaves, resolve, set, set_path, span_of};
