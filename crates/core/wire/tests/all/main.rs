//! Messages as bytes.
mod corpus;
