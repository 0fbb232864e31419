//! Asking other servers, without a socket, a clock or dice of its own.
//!
//! A [`Forwarder`] is told of questions, datagrams and time, and tells what to send to whom and
//! which questions were answered. Who asks the same waits for the same answer. The server that
//! answers fastest is asked first, a second one when it is late; who fails is left alone, and tried
//! again beside one that works.
//!
//! A reply counts only if it comes from the server that was asked, to the socket that the question
//! went out of, with its id and its question, letter by letter (RFC 5452 §9.1).
#![no_std]
#![forbid(unsafe_code)]

mod ask;
mod casing;
mod forwarder;
mod hear;
mod leave;
pub mod limits;
mod message;
mod upstream;
mod wheel;

pub use ask::{Ask, Group};
pub use forwarder::{Asked, Dice, Event, Forwarder, Order, State, Ticket};
pub use message::QUESTION_LEN_MAX;
pub use upstream::{Counts, Loss, Means, Standing, Upstream};
