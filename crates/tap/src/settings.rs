//! What is picked, and where it goes. All of it can change while the server runs.
use crate::limits::ONE_IN_MAX;
use std::path::PathBuf;

/// The settings of a [`Runner`](crate::Runner). The default picks nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The query log.
    pub queries: Queries,
    /// dnstap; nothing: off.
    pub dnstap: Option<Dnstap>,
    /// Every how many queries the hottest names and clients are estimated from, up to
    /// [`ONE_IN_MAX`]; 0: not at all. Fewer where that is more than
    /// [`HOT_SAMPLES`](crate::limits::HOT_SAMPLES) a second.
    pub hot_one_in: u32,
}

/// The query log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// Every how many queries is logged, up to [`ONE_IN_MAX`]; 0: none.
    pub one_in: u32,
    /// A file that is appended to, and opened anew whenever settings are taken; nothing: the log,
    /// at level info and target `queries`.
    pub file: Option<PathBuf>,
    /// How a line of the file looks.
    pub format: Format,
}

/// How a line of the query log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `key=value`, separated by spaces.
    #[default]
    Text,
    /// An object of JSON.
    Json,
}

/// dnstap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dnstap {
    /// Every how many queries is sent, up to [`ONE_IN_MAX`]; 0: none.
    pub one_in: u32,
    /// Where the reader listens.
    pub socket: PathBuf,
    /// What the reader is told we are called; empty: nothing.
    pub identity: String,
    /// What the reader is told we are; empty: nothing.
    pub version: String,
}

impl Settings {
    /// How often the plane picks a query so that everybody gets as many as they want, of whom the
    /// hottest want one in so many; 0: never.
    pub(crate) fn one_in(&self, hot_one_in: u32) -> u32 {
        let dnstap = self.dnstap.as_ref().map_or(0, |dnstap| dnstap.one_in);
        let wanted = [self.queries.one_in, dnstap, hot_one_in];
        wanted.into_iter().filter(|one_in| *one_in > 0).min().map_or(0, |n| n.min(ONE_IN_MAX))
    }
}
