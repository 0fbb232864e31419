//! Settings of sampling and its outputs. All can change at run time.
use std::path::PathBuf;
use tap::limits::ONE_IN_MAX;

/// The settings of a [`TapThread`](crate::TapThread). The default samples nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapSettings {
    /// The query log.
    pub queries: QueryLogSettings,
    /// dnstap; `None`: off.
    pub dnstap: Option<DnstapSettings>,
    /// Sample one in this many queries for the most frequent names and clients, up to
    /// [`ONE_IN_MAX`]; 0: none. Fewer above [`HOT_SAMPLES`](crate::limits::HOT_SAMPLES) a second.
    pub hot_one_in: u32,
}

/// The query log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryLogSettings {
    /// Log one in this many queries, up to [`ONE_IN_MAX`]; 0: none.
    pub one_in: u32,
    /// A file to append to, opened again with new settings; `None`: the log, at level info and
    /// target `queries`.
    pub file: Option<PathBuf>,
    /// The format of a line in the file.
    pub format: LogFormat,
}

/// The format of a line in the query log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value`, separated by spaces.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// dnstap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnstapSettings {
    /// Send one in this many queries, up to [`ONE_IN_MAX`]; 0: none.
    pub one_in: u32,
    /// The reader's socket.
    pub socket: PathBuf,
    /// The server's name for the reader; empty: none.
    pub identity: String,
    /// The server's version for the reader; empty: none.
    pub version: String,
}

impl TapSettings {
    /// The sampling rate that is enough for all outputs, where frequent names need one in
    /// `hot_one_in`; 0: never.
    pub(crate) fn one_in(&self, hot_one_in: u32) -> u32 {
        let dnstap = self.dnstap.as_ref().map_or(0, |dnstap| dnstap.one_in);
        let wanted = [self.queries.one_in, dnstap, hot_one_in];
        wanted.into_iter().filter(|one_in| *one_in > 0).min().map_or(0, |n| n.min(ONE_IN_MAX))
    }
}
