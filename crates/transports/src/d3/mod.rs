//! D3 and what it shares with RCPdc: explicit rates, granted by every port of the path.
