//! What is shown of single queries: query log, dnstap, hottest names and clients.
//!
//! A [`Tap`] on each thread of the plane picks one query in so many and writes it, with its reply
//! or why there is none, into a ring that nobody waits for. The [`Runner`], a thread of its own,
//! reads the rings and hands each sample to whom it concerns.
#![forbid(unsafe_code)]

mod dnstap;
mod frames;
mod hottest;
pub mod limits;
mod line;
mod outbox;
mod pace;
mod querylog;
mod runner;
mod sample;
mod settings;
mod sketch;
mod writer;

pub use runner::Runner;
pub use settings::{Dnstap, Format, Queries, Settings};
pub use writer::Tap;
