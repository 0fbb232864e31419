//! The generator: queries at their times, and what became of each.
//!
//! *When* is decided before anything is sent ([`arrivals`]), *what* is drawn from a seed
//! ([`names`], [`fleet`]), *how* is a way to the server. A load ([`run()`]) has threads that share
//! nothing: each has its sockets, its table of queries under way, its histograms.

pub mod arrivals;
mod capture;
mod clock;
mod counts;
pub mod fleet;
pub mod limits;
pub mod names;
mod options;
mod oracle;
pub mod query;
mod random;
mod recorder;
mod report;
mod run;
mod table;
mod transport;
mod worker;

pub use counts::{QueryCounts, RCODES, Times};
pub use options::{DpdkPeer, LoadMode, Options, Path, QuerySource, Sources};
pub use oracle::Oracle;
pub use report::{Quantile, Report, SecondStats, Snapshot, Thread};
pub use run::{LEAD_NS, THREAD, run, run_watched};
