//! The zone manager as a source sees it.
mod json_source;
