//! Pairs of endpoints over a faulty link.

mod pair;
