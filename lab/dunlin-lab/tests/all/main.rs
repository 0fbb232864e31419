//! `dunlin-lab` as a command.
mod common;
mod cpus;
mod echo;
mod fabric;
mod machine;
mod packaging;
mod reproduce;
mod sweep;
