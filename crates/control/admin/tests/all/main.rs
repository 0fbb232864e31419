//! The admin socket from outside.
mod common;
mod requests;
mod restart;
