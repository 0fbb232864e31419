//! The generator: queries at their times, and what became of each.
//!
//! *When* is decided before anything is sent ([`arrivals`]), *what* is drawn from a seed
//! ([`names`], [`fleet`]), *how* is a way to the server. A load ([`run()`]) has threads that share
//! nothing: each has its sockets, its table of queries under way, its histograms.

pub mod arrivals;
mod book;
mod capture;
mod clock;
pub mod fleet;
pub mod limits;
pub mod names;
mod options;
mod oracle;
pub mod query;
mod random;
mod report;
mod run;
mod table;
mod tally;
mod way;
mod worker;

pub use options::{Asks, Options, Path, Sources, When};
pub use oracle::Oracle;
pub use report::{Quantile, Report, Second, Snapshot, Thread};
pub use run::{LEAD_NS, THREAD, run, run_watched};
pub use tally::{RCODES, Tally, Times};
