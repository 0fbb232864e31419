//! Dunlin.
fn main() {}
