//! Zone files from text to records.
mod cases;
mod corpus;
mod files;
