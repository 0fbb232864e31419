//! DNS messages that the data plane passes to the control plane, with their bodies: signed queries,
//! NOTIFY, UPDATE. The data plane answers a message without a handler by itself.
//!
//! [`ControlMessages`] receives them from all threads. A signed one is verified first. Then the
//! first of the [`Handlers`] that takes it decides the response, which is signed if the message
//! was. A further kind of message is one more [`MessageHandler`].
#![forbid(unsafe_code)]

mod handlers;
pub mod limits;
mod message;
mod notify;
mod query;
mod queue;
mod signed;
mod transfer;
mod update;

pub use handlers::{Handlers, handled_opcodes};
pub use message::{Deciding, Decision, MessageHandler, ReceivedMessage, ServerContext, Signature};
pub use queue::ControlMessages;
pub use signed::{RefusalLog, now_seconds};
pub use transfer::KeyHolder;
