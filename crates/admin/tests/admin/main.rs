//! The socket as it is met from outside.
mod common;
mod requests;
mod take_over;
