//! Status of zones that are transferred from primaries.
use serde::{Deserialize, Serialize};

/// A zone that is transferred from primaries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondaryStatus {
    /// The zone.
    pub name: String,
    /// Its primaries, in the order in which they are asked.
    pub primaries: Vec<String>,
    /// The one that answered last; `None`: none since the start.
    pub primary: Option<String>,
    /// The serial that is served; `None`: nothing is.
    pub serial: Option<u32>,
    /// When a primary confirmed it last, in seconds since 1970; `None`: never.
    pub contact_seconds: Option<f64>,
    /// When it was transferred last; `None`: not since the start.
    pub transferred_seconds: Option<f64>,
    /// When the primaries are asked next.
    pub refresh_seconds: f64,
    /// In how many seconds it expires without a contact; `None`: there is nothing to expire.
    pub expires_seconds: Option<f64>,
    /// Whether it has expired: it is answered with SERVFAIL.
    pub is_expired: bool,
    /// Whether a newer one was transferred that lost most of its names.
    pub is_held: bool,
    /// The source that has the zone instead; `None`: it is served from its primaries.
    pub superseded: Option<String>,
    /// Transfers of the whole zone since the start.
    pub whole_transfers: u64,
    /// Transfers of differences since the start.
    pub difference_transfers: u64,
    /// Refreshes since the start that no primary answered as it must.
    pub failures: u64,
    /// Why the last refresh failed, by primary; `None`: it did not.
    pub fault: Option<String>,
    /// Why its copy on this server is not saved; `None`: it is.
    pub unsaved: Option<String>,
}
