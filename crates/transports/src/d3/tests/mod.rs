//! Tests of D3 and RCPdc.
