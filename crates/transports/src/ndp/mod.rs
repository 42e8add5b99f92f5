//! NDP: receivers pull, switches trim.
