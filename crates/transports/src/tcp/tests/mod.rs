//! Tests of TCP and DCTCP: each rule, closed forms, properties.
