//! Caches of workers: what they return, how often, and what they cost.
mod common;
mod hits;
mod model;
mod shares;
mod trace;
mod walks;
