//! Workers and stream threads on real sockets.
mod common;
mod fleet;
mod hand_over;
mod hostile;
mod late;
mod proxied;
mod streams;
