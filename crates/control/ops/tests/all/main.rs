//! The interface of metrics and of the state for other programs.
mod common;
mod http;
mod prometheus;
