//! What these tests share: what to do where something lacks.

#[path = "../../../../tests/skip.rs"]
mod skip;

pub use skip::skip;
