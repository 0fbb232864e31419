//! Status of the store.
use super::FleetStatus;
use serde::{Deserialize, Serialize};

/// The store of records written through the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreStatus {
    /// The file of its tree; the log is next to it.
    pub file: String,
    /// Bytes of both files.
    #[serde(alias = "octets")]
    pub bytes: u64,
    /// Free bytes on its disk.
    #[serde(alias = "free_octets")]
    pub free_bytes: u64,
    /// The newest revision.
    pub revision: u64,
    /// Zones in it.
    pub zones: u64,
    /// Their record sets.
    pub rrsets: u64,
    /// Why it cannot be used, and what to do; `None`: it works. Zones read before stay served;
    /// others answer SERVFAIL.
    pub fault: Option<String>,
    /// Why it is read-only, as on a full disk; `None`: it is not.
    pub writes_refused: Option<String>,
    /// Its form: an older version may not know the newest one.
    pub form: u32,
    /// The newest form that the server knows; `dunlin store upgrade` raises that of the store.
    pub form_newest: u32,
    /// Writes that were refused since the start because they need a newer form.
    pub form_refusals: u64,
    /// The fleet that shares it; `None`: no other server does.
    pub fleet: Option<FleetStatus>,
    /// Its zones that answer SERVFAIL because they cannot be read.
    pub servfail: u64,
    /// The first of these, by name.
    pub servfail_zones: Vec<StoreZoneFault>,
    /// Why the list of its zones is incomplete; `None`: it is complete.
    pub list_fault: Option<String>,
    /// Nothing was read from it since the start, and no list names its zones: they are refused.
    pub is_unread: bool,
}

/// A zone of the store that answers SERVFAIL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreZoneFault {
    /// Its name, with the final dot.
    pub name: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// Documents that the servers of a fleet share, such as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentsStatus {
    /// What they are.
    pub name: String,
    /// The number of those that are used.
    pub documents: u64,
    /// Why changes of other servers do not arrive, and none can be made here; `None`: they do.
    pub fault: Option<String>,
    /// Those that cannot be used, and why.
    pub unusable: Vec<String>,
}
