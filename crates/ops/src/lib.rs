//! What operators' tools ask over HTTP: metrics, health, readiness.
#![forbid(unsafe_code)]
