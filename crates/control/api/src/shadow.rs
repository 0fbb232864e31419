//! Record sets that are stored and hidden from DNS.
use records::shadow::{Shadow, ShadowKind};
use records::{Edit, SetKey};
use serde::Serialize;
use utoipa::ToSchema;
use wire::NameBuf;

/// The record or zone that hides a stored record set from DNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ShadowBody {
    /// The kind of cause.
    kind: ShadowWord,
    /// The origin of the zone, or the owner of the NS or DNAME records.
    name: String,
}

/// The kind of cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ShadowWord {
    /// A deeper zone of this server.
    Zone,
    /// NS records at or above the name, below the apex.
    Delegation,
    /// A DNAME above the name.
    Dname,
}

/// A record set that was written and that DNS does not serve.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ShadowedSet {
    /// The name of the set.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The cause.
    pub shadowed_by: ShadowBody,
}

impl From<Shadow> for ShadowBody {
    fn from(shadow: Shadow) -> Self {
        let kind = match shadow.kind {
            ShadowKind::Zone => ShadowWord::Zone,
            ShadowKind::Delegation => ShadowWord::Delegation,
            ShadowKind::Dname => ShadowWord::Dname,
        };
        Self { kind, name: shadow.name.to_string() }
    }
}

/// The sets that edits of a zone write.
pub fn put_keys(zone: &NameBuf, edits: &[Edit]) -> Vec<SetKey> {
    let put = edits.iter().filter(|edit| edit.put.is_some());
    put.map(|Edit { name, rtype, view, .. }| {
        let (zone, name) = (zone.clone(), name.clone());
        SetKey { zone, name, rtype: *rtype, view: *view }
    })
    .collect()
}
