//! Echoes on real sockets.
mod hosts;
mod models;
