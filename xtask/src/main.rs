//! Chores of the project: `cargo xtask`.
fn main() {}
