//! TCP and its relatives: windows, acknowledgements, loss.
