//! Transports on real UDP sockets.
