//! Tables of clients.
mod flood;
