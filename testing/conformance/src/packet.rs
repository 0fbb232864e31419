//! A packet that all servers get.
use crate::questions::Question;

/// A packet to send, and the question it asks or was made from.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The question.
    pub question: Question,
    /// What is sent.
    pub packet: Vec<u8>,
    /// What was done to the packet, if anything.
    pub oddity: Option<&'static str>,
}

impl From<Question> for Probe {
    fn from(question: Question) -> Self {
        Self { packet: question.to_wire(), question, oddity: None }
    }
}
