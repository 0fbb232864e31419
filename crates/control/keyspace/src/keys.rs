//! The keys under the prefix.
//!
//! ```text
//! format                        the number of the form of all of this (`store::Form`)
//! revision                      the newest revision, a space, 32 hex digits of no other value
//! commits/REVISION              a commit, by its newest revision in 20 digits
//! zones/ZONE                    {"revision": …, "offset": …}
//! sets/ZONE/NAME/TYPE           the JSON of a record set; NAME is relative, `@` is the zone's
//! sets/ZONE/NAME/TYPE/VIEW      the same of a set of a view
//! staged/ID/header, /NUMBER     a commit that is too large for one transaction, in parts
//! tokens/PRINCIPAL              the JSON of a credential, and so are other sets of documents
//! adopted                       the revision of the last `dunlin fleet adopt`
//! members/NAME                  a server, under its lease: JSON
//! digests/NAME                  the digest of each of its zones, once it differs from another one
//! states/SERVER/CHECK/ADDRESS   what a server says of a target that it probes: JSON
//! leaders/NAME                  the server that writes a map, under its lease
//! kubernetes/KIND/…             an object of the cluster without a name, as names need it: JSON
//! clusters/NAME/objects/KIND/…  the same of a cluster with a name
//! clusters/NAME/leader          the server that writes them, under its lease
//! clusters/NAME/leader/origin   the cluster that they come from
//! clusters/NAME/leader/retired  there once the cluster was retired: JSON
//! wait/NAME                     the revision that a client of this server waits for
//! anycast/servers/NAME          a server with announced addresses, until 10 minutes after its end
//! anycast/permits/NAME          why it is withdrawn, under the same lease
//! anycast/turn                  the server that took a permit last
//! hold                          there while a server holds off the commits of others; a lease
//! moving                        the staged commit whose sets are being moved to their keys
//! ```
//! Names are in lower case and presentation form; a slash in them is `\047`.
use etcd_client::KeyValue;
use etcd_link::RequestError;
use server_status::Member;
use std::net::IpAddr;
use store::{CommitId, Form, Revision, View};
use wire::{Name, NameBuf, Rtype};

/// The keys under a prefix, which ends with a slash.
#[derive(Clone, Debug)]
pub struct Keys(String);

/// The names of the maps of clusters begin so.
pub const CLUSTERS: &str = "clusters/";

/// A key under the prefix that a full list reads.
#[derive(Debug, PartialEq, Eq)]
pub enum ListedKey {
    /// A zone.
    Zone(NameBuf),
    /// A set: its zone, its relative name in lower case, its view and its type.
    Set(NameBuf, Box<[u8]>, View, Rtype),
}

/// Defines keys and prefixes of keys. One with a name ends with that.
macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident $(($name:ident))? = $path:literal;)*) => {
        impl Keys {
            $($(#[$doc])* pub fn $key(&self $(, $name: &str)?) -> String {
                [&*self.0, $path $(, $name)?].concat()
            })*
        }
    };
}

keys! {
    /// The number of the form of all keys.
    format = "format";
    /// The newest revision.
    revision = "revision";
    /// The revision of the last adoption.
    adopted = "adopted";
    /// All commits.
    commits = "commits/";
    /// All zones.
    zones = "zones/";
    /// All record sets.
    sets = "sets/";
    /// All staged commits.
    staged_all = "staged/";
    /// The staged commit whose sets are being moved.
    moving = "moving";
    /// The server that holds off the commits of others.
    hold = "hold";
    /// All members.
    members = "members/";
    /// A server as a member.
    member(name) = "members/";
    /// The digests of the zones of a server.
    digests(name) = "digests/";
    /// All revisions that clients wait for.
    waits = "wait/";
    /// The revision that a client of a server waits for.
    wait(name) = "wait/";
    /// All findings of health.
    states = "states/";
    /// The keys of all clusters with names.
    clusters = "clusters/";
    /// Servers with announced addresses, and their permits.
    announcing = "anycast/";
    /// A server with announced addresses.
    announcing_server(name) = "anycast/servers/";
    /// The permit of a server to be withdrawn.
    permit(name) = "anycast/permits/";
    /// The server that took a permit last.
    permit_turn = "anycast/turn";
}

impl Keys {
    /// The keys under a prefix, which may end with a slash.
    pub fn new(prefix: &str) -> Self {
        Self(format!("{}/", prefix.trim_end_matches('/')))
    }

    /// The prefix, with its slash.
    pub fn prefix(&self) -> &str {
        &self.0
    }

    /// The commit with this newest revision.
    pub fn commit(&self, revision: Revision) -> String {
        format!("{}commits/{:020}", self.0, revision.0)
    }

    /// A zone.
    pub fn zone(&self, zone: Name<'_>) -> String {
        format!("{}zones/{}", self.0, text(zone))
    }

    /// All sets of a zone.
    pub fn sets_of(&self, zone: Name<'_>) -> String {
        format!("{}sets/{}/", self.0, text(zone))
    }

    /// The key of a set with this relative name.
    pub fn set(&self, zone: Name<'_>, name: &[u8], view: View, rtype: Rtype) -> String {
        let of_all = format!("{}{}/{rtype}", self.sets_of(zone), relative(name));
        if view == View::DEFAULT { of_all } else { format!("{of_all}/{view}") }
    }

    /// All keys of a staged commit.
    pub fn staged(&self, id: CommitId) -> String {
        format!("{}staged/{id}/", self.0)
    }

    /// The number of its parts.
    pub fn staged_header(&self, id: CommitId) -> String {
        format!("{}header", self.staged(id))
    }

    /// A part of it.
    pub fn staged_part(&self, id: CommitId, part: usize) -> String {
        format!("{}{part:06}", self.staged(id))
    }

    /// The id of the staged commit that this key belongs to.
    pub fn read_staged_id(&self, key: &[u8]) -> Option<CommitId> {
        let key = str::from_utf8(key).ok()?.strip_prefix(&self.staged_all())?;
        let (id, _) = key.split_once('/')?;
        u128::from_str_radix(id, 16).ok().map(CommitId)
    }

    /// What a server says of a target: an address, by a check.
    pub fn state(&self, server: &str, check: &str, address: IpAddr) -> String {
        format!("{}states/{server}/{check}/{address}", self.0)
    }

    /// The server, the check and the address of a key of `states/`.
    pub fn read_state<'a>(&self, key: &'a [u8]) -> Option<(&'a str, &'a str, IpAddr)> {
        let key = str::from_utf8(key).ok()?;
        let mut parts = key.strip_prefix(&self.states())?.split('/');
        let (server, check, address) = (parts.next()?, parts.next()?, parts.next()?);
        let address = address.parse().ok()?;
        // Two keys of one target would contradict each other.
        (self.state(server, check, address) == key).then_some((server, check, address))
    }

    /// The key of the server that writes a map. That of a cluster is below the prefix of the
    /// cluster, so that a credential for one cluster reaches no other.
    pub fn leader(&self, map: &str) -> String {
        match map.starts_with(CLUSTERS) {
            true => format!("{}{map}/leader", self.0),
            false => format!("{}leaders/{map}", self.0),
        }
    }

    /// The key of the origin of a map.
    pub fn origin(&self, map: &str) -> String {
        format!("{}/origin", self.leader(map))
    }

    /// The key that says that a map has ended. It is beside that of the leader, so that the same
    /// watch has both.
    pub fn retired(&self, map: &str) -> String {
        format!("{}/retired", self.leader(map))
    }

    /// The keys of a set of documents, or of a map.
    pub fn documents(&self, set: &str) -> String {
        match set.starts_with(CLUSTERS) {
            true => format!("{}{set}/objects/", self.0),
            false => format!("{}{set}/", self.0),
        }
    }

    /// The value of the key `revision`, if it exists.
    ///
    /// # Errors
    /// It is damaged.
    pub fn read_head(&self, value: Option<&[u8]>) -> Result<Head, RequestError> {
        let damaged =
            || RequestError::Unusable(format!("the key {} in etcd is damaged", self.revision()));
        Head::read(value).ok_or_else(damaged)
    }

    /// The revision in the value of the key `adopted`; [`Revision::NONE`]: there is none.
    pub fn read_adopted(value: Option<&[u8]>) -> Revision {
        let revision = value.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
        Revision(revision.unwrap_or_default())
    }

    /// Parses a key of a zone or a set; `None`: it is neither.
    pub fn read(&self, key: &[u8]) -> Option<ListedKey> {
        let key = str::from_utf8(key).ok()?.strip_prefix(&self.0)?;
        let (kind, rest) = key.split_once('/')?;
        let mut parts = rest.split('/');
        let zone = read_name(parts.next()?)?;
        let listed = match (kind, parts.next(), parts.next()) {
            ("zones", None, None) => ListedKey::Zone(zone),
            ("sets", Some(name), Some(rtype)) => {
                let name = match name {
                    "@" => Box::default(),
                    name => {
                        let name = read_name(&format!("{name}."))?;
                        let bytes = name.as_name().as_bytes();
                        bytes[..bytes.len() - 1].into()
                    }
                };
                let view = parts.next().map_or(Some(View::DEFAULT), View::from_word)?;
                ListedKey::Set(zone, name, view, rtype.parse().ok()?)
            }
            _ => return None,
        };
        let is_canonical = match &listed {
            ListedKey::Zone(zone) => self.zone(zone.as_name()),
            ListedKey::Set(zone, name, view, rtype) => {
                self.set(zone.as_name(), name, *view, *rtype)
            }
        };
        // Two keys of one set would contradict each other.
        (parts.next().is_none() && is_canonical.strip_prefix(&self.0) == Some(key))
            .then_some(listed)
    }
}

fn read_name(text: &str) -> Option<NameBuf> {
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).ok()?;
    let is_lower = !name.as_name().as_bytes().iter().any(u8::is_ascii_uppercase);
    is_lower.then_some(name)
}

fn text(name: Name<'_>) -> String {
    name.to_string().replace('/', "\\047")
}

/// A relative name without its final dot; `@` for that of the zone.
fn relative(name: &[u8]) -> String {
    let absolute = NameBuf::joined(name, Name::ROOT).map(|name| text(name.as_name()));
    match absolute {
        Ok(text) if text != "." => text.strip_suffix('.').unwrap_or(&text).to_owned(),
        _ => "@".to_owned(),
    }
}

/// Reads the key `format`; `None`: it does not exist.
///
/// # Errors
/// A version with another form wrote the keys, and what to do.
pub fn check_format(value: Option<&[u8]>) -> Result<Option<Form>, String> {
    let Some(value) = value else { return Ok(None) };
    let text = String::from_utf8_lossy(value);
    match text.parse().map(Form::from_keys) {
        Ok(form) if form.check().is_ok() => Ok(Some(form)),
        _ => Err(format!(
            "the prefix in etcd has the format {text}, which a newer version wrote (the newest \
             known is {}): upgrade this server. It could be older until `dunlin store upgrade`",
            Form::NEWEST.of_keys()
        )),
    }
}

/// The value of the key `revision`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The newest revision.
    pub revision: Revision,
    /// The value; `None`: the key does not exist.
    pub value: Option<String>,
}

impl Head {
    /// The value that a commit writes.
    pub fn new(revision: Revision, id: CommitId) -> Self {
        Self { revision, value: Some(format!("{revision} {id}")) }
    }

    /// Parses the value of the key, if it exists.
    pub fn read(value: Option<&[u8]>) -> Option<Self> {
        let Some(value) = value else {
            return Some(Self { revision: Revision::NONE, value: None });
        };
        let value = str::from_utf8(value).ok()?;
        let (revision, _) = value.split_once(' ')?;
        Some(Self { revision: Revision(revision.parse().ok()?), value: Some(value.to_owned()) })
    }
}

/// The key of a member; `None`: it is none, or has no lease, so no server stands behind it.
pub fn read_member(kv: &KeyValue) -> Option<Member> {
    (kv.lease() != 0).then(|| serde_json::from_slice(kv.value()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_others_are_no_keys() {
        let keys = Keys::new("/dunlin");
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
        for (zone, relative, text) in [
            ("example.org.", &b"\x03www"[..], "/dunlin/sets/example.org./www/A"),
            ("example.org.", b"", "/dunlin/sets/example.org./@/A"),
            ("example.org.", b"\x01@", "/dunlin/sets/example.org./\\@/A"),
            ("example.org.", b"\x03a/b\x01*", "/dunlin/sets/example.org./a\\047b.*/A"),
            (
                "0/25.2.0.192.in-addr.arpa.",
                b"\x011",
                "/dunlin/sets/0\\04725.2.0.192.in-addr.arpa./1/A",
            ),
            (".", b"\x02a\0", "/dunlin/sets/./a\\000/A"),
            ("example.org.", b"\x03a.b", "/dunlin/sets/example.org./a\\.b/A"),
        ] {
            let zone = name(zone);
            for (view, text) in [
                (View::DEFAULT, text.to_owned()),
                (View::from_word("internal").expect("a view"), format!("{text}/internal")),
            ] {
                assert_eq!(keys.set(zone.as_name(), relative, view, Rtype::A), text);
                let set = ListedKey::Set(zone.clone(), relative.into(), view, Rtype::A);
                assert_eq!(keys.read(text.as_bytes()), Some(set));
            }
            let of_zone = keys.zone(zone.as_name());
            assert_eq!(keys.read(of_zone.as_bytes()), Some(ListedKey::Zone(zone)));
        }
        for wrong in [
            "/other/zones/example.org.",
            "/dunlin/zones/",
            "/dunlin/zones/example.org",
            "/dunlin/zones/Example.org.",
            "/dunlin/zones/example.org./",
            "/dunlin/sets/example.org./www",
            "/dunlin/sets/example.org./www/A/default",
            "/dunlin/sets/example.org./www/A/",
            "/dunlin/sets/example.org./www/A/a b",
            "/dunlin/sets/example.org./www/A/b/c",
            "/dunlin/sets/example.org./www/NO-TYPE",
            "/dunlin/sets/example.org./www/TYPE1",
            "/dunlin/sets/example.org./w\\119w/A",
            "/dunlin/sets/example.org./www./A",
            "/dunlin/else/example.org.",
        ] {
            assert_eq!(keys.read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn keys_of_a_cluster_are_below_its_own_prefix() {
        let keys = Keys::new("/dunlin");
        let of = |map| [keys.leader(map), keys.documents(map)];
        assert_eq!(of("kubernetes"), ["/dunlin/leaders/kubernetes", "/dunlin/kubernetes/"]);
        let named = ["/dunlin/clusters/a/leader", "/dunlin/clusters/a/objects/"];
        assert_eq!(of("clusters/a"), named);
    }

    #[test]
    fn keys_of_states_round_trip_and_others_are_no_keys() {
        let keys = Keys::new("/dunlin");
        for address in ["10.0.0.1", "2001:db8::1"] {
            let ip = address.parse().expect("an address");
            let key = keys.state("dns-1", "web", ip);
            assert_eq!(key, format!("/dunlin/states/dns-1/web/{address}"));
            assert_eq!(keys.read_state(key.as_bytes()), Some(("dns-1", "web", ip)));
        }
        for wrong in
            ["a/web", "a/web/10.0.0.1/b", "a/web/10.0.0.01", "a/web/2001:DB8::1", "a/web/x"]
        {
            assert_eq!(keys.read_state(format!("/dunlin/states/{wrong}").as_bytes()), None);
        }
    }

    #[test]
    fn format_of_another_version_is_refused_with_what_to_do() {
        assert_eq!(check_format(None), Ok(None));
        assert_eq!(check_format(Some(b"1")), Ok(Some(Form::OLDEST)));
        let newer = (Form::NEWEST.of_keys() + 1).to_string();
        for wrong in [&newer, "0", "x", ""] {
            let why = check_format(Some(wrong.as_bytes())).expect_err(wrong);
            assert!(why.contains(&format!("the format {wrong},")), "{why}");
            assert!(why.contains("upgrade this server"), "{why}");
        }
    }

    #[test]
    fn head_is_read_as_written() {
        let head = Head::new(Revision(7), CommitId(9));
        let value = head.value.clone().unwrap();
        assert_eq!(Head::read(Some(value.as_bytes())), Some(head));
        assert_eq!(Head::read(None).map(|head| head.revision), Some(Revision::NONE));
        assert_eq!(Head::read(Some(b"x 1")), None);
    }
}
