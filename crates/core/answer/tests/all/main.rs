//! From a query's bytes to those of its reply.
#[path = "../../../../../testing/fuzz/checks/answer.rs"]
mod answered;
#[path = "../../../../../testing/fuzz/checks/asking.rs"]
mod asking;
#[path = "../../../../../testing/fuzz/checks/forwarded.rs"]
mod forwarded;
#[path = "../../../../../testing/fuzz/checks/reply.rs"]
mod reply;
#[path = "../../../../../testing/fuzz/checks/world.rs"]
mod world;
#[path = "../../../../../testing/fuzz/checks/zone.rs"]
mod zones;

mod choose;
mod common;
mod computed;
mod control;
mod corpus;
mod fast_path;
mod forwarded_names;
mod limits;
mod messages;
mod names;
mod networks;
mod scenarios;
mod signed;
mod sizes;
mod views;
