//! Pairs of endpoints over a faulty link, and namespaces that are not left behind.
#![allow(non_snake_case, reason = "subject__what_holds")]

mod namespaces;
mod pair;
