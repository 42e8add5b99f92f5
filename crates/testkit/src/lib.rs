//! Help for tests: two hosts and a line between them, faults on demand, checkers.
