//! Two replies to one query, compared aspect by aspect.

use std::collections::BTreeSet;
use std::fmt;

use domain::base::iana::{Class, Rtype};

use crate::queries::{COOKIE, Query};
use crate::reply::{Opt, Record, Reply, Section};
use crate::server::Software;
use crate::world::World;
use crate::zone::{self, Signing};

/// What of a reply is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aspect {
    /// Whether there is a reply at all.
    Silence,
    /// Whether the subject's reply has a fault of its own: the peers only lend their number.
    Form,
    /// The RCODE, with its extension.
    Rcode,
    /// AA.
    Aa,
    /// TC.
    Tc,
    /// The other header bits.
    Flags,
    /// The question section, case preserved.
    Question,
    /// The answer section.
    Answer,
    /// The authority section.
    Authority,
    /// The additional section without OPT.
    Additional,
    /// OPT.
    Edns,
}

const ASPECTS: [Aspect; 10] = [
    Aspect::Form,
    Aspect::Rcode,
    Aspect::Aa,
    Aspect::Tc,
    Aspect::Flags,
    Aspect::Question,
    Aspect::Answer,
    Aspect::Authority,
    Aspect::Additional,
    Aspect::Edns,
];

/// Words about a query and its replies, which `reasons.toml` uses.
type Tags = BTreeSet<&'static str>;
/// The reply of a server; `None`: there was none.
pub type Response = Option<Reply>;

/// One aspect in which the subject and one peer do not agree.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Which aspect.
    pub aspect: Aspect,
    /// Which peer.
    pub peer: Software,
    /// True when all peers agree in this aspect, and so the subject stands alone.
    pub alone: bool,
    /// What holds of the query and the two replies: the words `reasons.toml` is written in.
    pub tags: BTreeSet<&'static str>,
    /// The subject's RCODE and the peer's.
    pub rcodes: (u16, u16),
    /// Types of the records only the subject sent, in this aspect's section.
    pub ours_only: BTreeSet<Rtype>,
    /// Types of the records only the peer sent, in this aspect's section.
    pub theirs_only: BTreeSet<Rtype>,
    /// Codes of the options only the subject's OPT has, and only the peer's.
    pub options: (BTreeSet<u16>, BTreeSet<u16>),
}

/// All differences between `ours` and each peer's reply.
pub fn compare(
    world: &World,
    query: &Query,
    ours: &Response,
    peers: &[(Software, Response)],
) -> Vec<Difference> {
    let mut found = Vec::new();
    for (peer, theirs) in peers {
        let aspects: Vec<Aspect> = match (ours, theirs) {
            (None, None) => Vec::new(),
            (None, _) | (_, None) => vec![Aspect::Silence],
            (Some(ours), Some(theirs)) => {
                ASPECTS.into_iter().filter(|aspect| !agree(*aspect, ours, theirs)).collect()
            }
        };
        if aspects.is_empty() {
            continue;
        }
        let tags = tags(world, query, ours, theirs);
        for aspect in aspects {
            let alone = stands_alone(aspect, peers);
            let (ours_only, theirs_only) = only(aspect, ours, theirs);
            let rcode = |one: &Response| one.as_ref().map_or(u16::MAX, |reply| reply.rcode);
            let rcodes = (rcode(ours), rcode(theirs));
            let options = options(ours, theirs);
            let (tags, peer) = (tags.clone(), *peer);
            found.push(Difference {
                aspect,
                peer,
                alone,
                tags,
                rcodes,
                ours_only,
                theirs_only,
                options,
            });
        }
    }
    found
}

/// True when all peers agree. About a section they do only where they agree in the RCODE too, and
/// none of them was cut: a FORMERR is no witness that an answer is empty.
fn stands_alone(aspect: Aspect, peers: &[(Software, Response)]) -> bool {
    let alike = |aspect| peers.windows(2).all(|pair| reply_alike(aspect, &pair[0].1, &pair[1].1));
    let whole = || alike(Aspect::Rcode) && !peers.iter().any(|(_, response)| is_cut(response));
    peers.len() > 1 && alike(aspect) && (!is_section(aspect) || whole())
}

fn is_section(aspect: Aspect) -> bool {
    matches!(aspect, Aspect::Answer | Aspect::Authority | Aspect::Additional)
}

fn is_cut(response: &Response) -> bool {
    response.as_ref().is_some_and(|reply| reply.tc)
}

fn reply_alike(aspect: Aspect, a: &Response, b: &Response) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => aspect == Aspect::Silence || agree(aspect, a, b),
        (None, None) => true,
        _ => false,
    }
}

/// Sections of truncated replies are not compared with a peer's: what of them is left is the
/// server's choice (RFC 2181 §9). They are held against the server's own whole reply
/// ([`faults_of_cut`]), and that against the peers'.
fn agree(aspect: Aspect, a: &Reply, b: &Reply) -> bool {
    let cut = a.tc || b.tc;
    match aspect {
        Aspect::Silence => true,
        Aspect::Form => a.faults.is_empty(),
        Aspect::Rcode => a.rcode == b.rcode,
        Aspect::Aa => a.aa == b.aa,
        Aspect::Tc => a.tc == b.tc,
        Aspect::Flags => a.flags == b.flags,
        Aspect::Question => a.question == b.question,
        Aspect::Answer => cut || a.answer == b.answer,
        Aspect::Authority => cut || a.authority == b.authority,
        Aspect::Additional => cut || a.additional == b.additional,
        Aspect::Edns => a.opt == b.opt,
    }
}

/// The fault of a truncated reply, compared with the complete one of the same server over TCP: a
/// record that the whole one has not, a set without its signatures (RFC 4035 §3.1.1) or in part,
/// except an unsigned one of the answer (RFC 2181 §9), and TC where all would have fitted `room`.
pub fn faults_of_cut(cut: &Reply, whole: &Reply, room: usize) -> Vec<String> {
    let mut faults = Vec::new();
    let sections = [Aspect::Answer, Aspect::Authority, Aspect::Additional].map(|aspect| {
        (aspect, section(aspect, cut).expect("a section"), section(aspect, whole).expect("too"))
    });
    for (aspect, some, all) in sections {
        let extra = some.difference(all).map(|r| format!("{aspect:?} has {r} only where cut"));
        faults.extend(extra);
        for missing in all.difference(some) {
            let set = (&missing.owner, covered(missing));
            let is_of_set = |r: &&Record| (&r.owner, covered(r)) == set;
            let is_signed = all.iter().filter(is_of_set).any(|r| r.rtype == Rtype::RRSIG);
            let is_whole = aspect != Aspect::Answer || is_signed;
            if is_whole && some.iter().any(|r| is_of_set(&r)) {
                faults.push(format!("{aspect:?} has a part of the set of {missing}"));
            }
        }
    }
    if whole.length <= room && cut.length <= whole.length {
        faults.push(format!("cut, though all {} bytes fit into {room}", whole.length));
    }
    faults
}

/// The type of the set that a record belongs to, as one of its signatures too.
fn covered(record: &Record) -> Rtype {
    match record.data.first_chunk() {
        Some(covered) if record.rtype == Rtype::RRSIG => {
            Rtype::from_int(u16::from_be_bytes(*covered))
        }
        _ => record.rtype,
    }
}

fn section(aspect: Aspect, reply: &Reply) -> Option<&Section> {
    match aspect {
        Aspect::Answer => Some(&reply.answer),
        Aspect::Authority => Some(&reply.authority),
        Aspect::Additional => Some(&reply.additional),
        _ => None,
    }
}

fn only(aspect: Aspect, ours: &Response, theirs: &Response) -> (BTreeSet<Rtype>, BTreeSet<Rtype>) {
    let section = |response| Option::as_ref(response).and_then(|reply| section(aspect, reply));
    let (Some(ours), Some(theirs)) = (section(ours), section(theirs)) else {
        return Default::default();
    };
    let types = |a: &Section, b: &Section| a.difference(b).map(|record| record.rtype).collect();
    (types(ours, theirs), types(theirs, ours))
}

/// The codes of the options that only one of the two has, where both have OPT.
fn options(ours: &Response, theirs: &Response) -> (BTreeSet<u16>, BTreeSet<u16>) {
    let codes = |response| {
        let opt = Option::as_ref(response).and_then(|reply: &Reply| reply.opt.as_ref())?;
        Some(opt.options.iter().copied().collect::<BTreeSet<u16>>())
    };
    let (Some(ours), Some(theirs)) = (codes(ours), codes(theirs)) else {
        return Default::default();
    };
    (&ours - &theirs, &theirs - &ours)
}

/// Whether the OPT records differ in more than which options they have.
fn differs_in_fields(ours: &Reply, theirs: &Reply) -> bool {
    let (Some(ours), Some(theirs)) = (&ours.opt, &theirs.opt) else { return false };
    let fields = |opt: &Opt| (opt.size, opt.version, opt.dnssec_ok, opt.reserved);
    let both_name = !ours.nsid.is_empty() && !theirs.nsid.is_empty();
    fields(ours) != fields(theirs) || both_name && ours.nsid != theirs.nsid
}

/// Every tag there is, with its meaning.
pub const TAGS: [(&str, &str); 41] = [
    ("cookie", "the question has a COOKIE option"),
    ("class-any", "QCLASS is ANY"),
    ("opt-ours", "only the subject's reply has an OPT record"),
    ("opt-theirs", "only the peer's reply has an OPT record"),
    ("opt-fields", "the OPT records differ in size, version, flags, or what NSID says"),
    ("insecure-name", "the closest name above QNAME exists only because of insecure delegations"),
    ("ad", "the question has AD set"),
    ("asterisk-added", "an additional record that one of the two left out is owned by an asterisk"),
    ("literal", "QNAME's first label is an asterisk"),
    ("nul", "QNAME has an byte of value 0 within a label"),
    (
        "other-tree",
        "QNAME is below a name that does not exist in its zone but is above another zone",
    ),
    ("tight", "the subject's reply and QNAME once more fill three quarters of the client's size"),
    ("synthesized", "an additional record that one of the two left out comes from a wildcard"),
    ("asterisk", "QNAME has an asterisk label that exists in the zone"),
    ("referral", "the subject's reply is a referral: NOERROR, no answer, NS without AA"),
    ("cd", "the question has CD set"),
    ("hash-owner", "QNAME is at or below the owner of an NSEC3 record"),
    ("outside", "no zone of the world holds QNAME"),
    ("apex", "QNAME is a zone's apex"),
    ("child-apex", "QNAME is the apex of a zone whose parent zone is served too"),
    ("cut", "QNAME is at a zone cut"),
    ("occluded", "QNAME is below a zone cut"),
    ("signed", "the zone of QNAME is signed"),
    ("nsec3", "the zone of QNAME is signed with NSEC3"),
    ("optout", "the zone of QNAME is signed with NSEC3 and opt-out"),
    ("class", "QCLASS is neither IN nor ANY"),
    ("edns", "the question has an OPT record"),
    ("edns-version", "its version is not 0"),
    ("edns-flags", "it has flags other than DO"),
    ("do", "it has DO set"),
    ("z", "the header's reserved bit is set"),
    ("tcp", "the question came over TCP"),
    ("chain", "an answer has an alias"),
    ("dname", "an answer has a DNAME"),
    ("leaves-zone", "an alias of an answer leads out of the zone it started in"),
    ("into-cut", "an alias of an answer leads to or below a zone cut"),
    ("long-chain", "an answer has more than five aliases in a row"),
    ("loop", "the aliases of an answer end where one of them began"),
    ("tc-ours", "the subject set TC"),
    ("tc-theirs", "the peer set TC"),
    ("no-room", "what one of the two left out would not have fitted the client's size"),
];

fn tags(world: &World, query: &Query, ours: &Response, theirs: &Response) -> Tags {
    let mut tags = query_tags(world, query);
    let mut set = |tag, holds: bool| tags.extend(holds.then_some(tag));
    let none = Reply::default();
    let (ours, theirs) = (ours.as_ref().unwrap_or(&none), theirs.as_ref().unwrap_or(&none));
    let long =
        if ours.chain(&query.name).len() > theirs.chain(&query.name).len() { ours } else { theirs };
    let chain = long.chain(&query.name);
    let start = zone::nearest(&world.zones, &query.name);
    let has = |rtype| [ours, theirs].iter().any(|r| r.answer.iter().any(|r| r.rtype == rtype));
    set("chain", has(Rtype::CNAME));
    set("dname", has(Rtype::DNAME));
    set("long-chain", chain.len() > 6);
    let aliases = long.answer.iter().filter(|r| r.rtype == Rtype::CNAME).count();
    set("loop", aliases > 0 && aliases == chain.len());
    for target in chain.iter().skip(1) {
        let zone = zone::nearest(&world.zones, target);
        set("leaves-zone", zone.map(|z| &z.name) != start.map(|z| &z.name));
        set("into-cut", zone.is_some_and(|zone| zone.cut_above(target).is_some()));
    }
    let extra = || ours.additional.symmetric_difference(&theirs.additional);
    set("asterisk-added", extra().any(|record| crate::names::first_label(&record.owner) == b"*"));
    set(
        "synthesized",
        extra().any(|record| {
            let zone = zone::nearest(&world.zones, &record.owner);
            zone.is_some_and(|zone| !zone.nodes.contains_key(&record.owner))
        }),
    );
    let refers = ours.authority.iter().any(|record| record.rtype == Rtype::NS);
    set("referral", refers && !ours.aa && ours.rcode == 0 && ours.answer.is_empty());
    set("tight", (ours.length + query.name.len()) * 4 > query.room() * 3);
    set("opt-ours", ours.opt.is_some() && theirs.opt.is_none());
    set("opt-theirs", ours.opt.is_none() && theirs.opt.is_some());
    set("opt-fields", differs_in_fields(ours, theirs));
    set("tc-ours", ours.tc);
    set("tc-theirs", theirs.tc);
    let no_room = |short, long| no_room(world, query, short, long);
    set("no-room", no_room(ours, theirs) || no_room(theirs, ours));
    tags
}

fn query_tags(world: &World, query: &Query) -> Tags {
    let mut tags = BTreeSet::new();
    let mut set = |tag, holds: bool| tags.extend(holds.then_some(tag));
    // DS is a query for the parent (RFC 4035 §3.1.4.1).
    let above = crate::names::parent(&query.name).filter(|_| query.qtype == Rtype::DS);
    let zone = above.and_then(|above| zone::nearest(&world.zones, &above));
    let zone = zone.or_else(|| zone::nearest(&world.zones, &query.name));
    set("outside", zone.is_none());
    set("literal", crate::names::first_label(&query.name) == b"*");
    set("nul", query.name.iter().any(|label| label.as_slice().contains(&0)));
    if let Some(zone) = zone {
        let above = crate::names::parent(&zone.name);
        let parent = above.is_some_and(|up| zone::nearest(&world.zones, &up).is_some());
        set("apex", zone.name == query.name);
        set("child-apex", parent && zone.name == query.name);
        let cut = zone.cut_above(&query.name);
        set("cut", cut.as_ref() == Some(&query.name));
        set("occluded", cut.is_some_and(|cut| cut != query.name));
        let mut up = Some(query.name.clone());
        while let Some(name) = up.filter(|name| zone.holds(name)) {
            up = crate::names::parent(&name);
            set("hash-owner", zone.is_hash(&name));
            let other = |other: &zone::Zone| other.name.ends_with(&name);
            let elsewhere = world.zones.iter().any(other);
            set("other-tree", elsewhere && !zone.nodes.contains_key(&name));
            set(
                "asterisk",
                crate::names::first_label(&name) == b"*" && zone.nodes.contains_key(&name),
            );
        }
        set("insecure-name", zone.is_insecure(&query.name));
        set("signed", zone.signing != Signing::Unsigned);
        set("nsec3", matches!(zone.signing, Signing::Nsec3 | Signing::OptOut));
        set("optout", zone.signing == Signing::OptOut);
    }
    set("class", !matches!(query.class, Class::IN | Class::ANY));
    set("class-any", query.class == Class::ANY);
    set("edns", query.edns.is_some());
    set("do", query.wants_dnssec());
    if let Some(edns) = &query.edns {
        set("edns-version", edns.version != 0);
        set("cookie", edns.options.iter().any(|(code, _)| *code == COOKIE));
        set("edns-flags", edns.flags & !crate::queries::DO != 0);
    }
    set("ad", query.flags & 0x20 != 0);
    set("cd", query.flags & 0x10 != 0);
    set("z", query.flags & 0x40 != 0);
    tags
}

/// True when `short` lacks record sets that `long` has, and none of them would have fitted, with
/// its signature where it has one, and an owner compressed but for its first label.
fn no_room(world: &World, query: &Query, short: &Reply, long: &Reply) -> bool {
    let missing: Vec<&Record> = [Aspect::Authority, Aspect::Additional]
        .into_iter()
        .filter_map(|aspect| Some((section(aspect, short)?, section(aspect, long)?)))
        .flat_map(|(short, long)| long.difference(short))
        .collect();
    let size = |first: &Record| {
        let set = missing.iter().filter(|r| r.owner == first.owner && r.rtype == first.rtype);
        let zone = zone::nearest(&world.zones, &first.owner).filter(|zone| {
            zone.signing != Signing::Unsigned && zone.cut_above(&first.owner).is_none()
        });
        let signed = zone.filter(|_| query.wants_dnssec() && first.rtype != Rtype::RRSIG);
        let signature = signed.map_or(0, |zone| SIGNATURE + zone.name.len());
        let label = crate::names::first_label(&first.owner).len() + 1;
        set.map(|record| 12 + record.data.len()).sum::<usize>() + label + signature
    };
    let least = missing.iter().map(|record| size(record)).min();
    least.is_some_and(|size| short.length + size > query.room())
}

/// Bytes of an RRSIG record with an ECDSA P-256 signature, without its signer's name.
const SIGNATURE: usize = 12 + 18 + 64;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alone = if self.alone { ", alone" } else { "" };
        write!(f, "{:?} against {}{alone}", self.aspect, self.peer.name())?;
        let list = |types: &BTreeSet<Rtype>| {
            types.iter().map(|rtype| rtype.to_string()).collect::<Vec<_>>().join(" ")
        };
        match self.aspect {
            Aspect::Rcode => write!(f, " ({} / {})", self.rcodes.0, self.rcodes.1)?,
            Aspect::Answer | Aspect::Authority | Aspect::Additional => {
                write!(f, " (only ours: {}; ", list(&self.ours_only))?;
                write!(f, "only theirs: {})", list(&self.theirs_only))?;
            }
            Aspect::Edns => {
                let codes = |codes: &BTreeSet<u16>| {
                    codes.iter().map(|code| code.to_string()).collect::<Vec<_>>().join(" ")
                };
                write!(f, " (options only ours: {}; ", codes(&self.options.0))?;
                write!(f, "only theirs: {})", codes(&self.options.1))?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::name;
    use domain::base::Ttl;

    fn compare_rcodes(ours: u16, peers: [u16; 3]) -> Vec<Difference> {
        let world = World { name: "test", zones: Vec::new() };
        let response = |rcode| Some(Reply { rcode, ..Reply::default() });
        let software = [Software::Knot, Software::Nsd, Software::Bind];
        let peers: Vec<_> = software.into_iter().zip(peers.map(response)).collect();
        let query = Query::new(name("example"), Rtype::A);
        compare(&world, &query, &response(ours), &peers)
    }

    #[test]
    fn equal_replies_do_not_differ() {
        assert!(compare_rcodes(0, [0, 0, 0]).is_empty());
    }

    #[test]
    fn a_difference_names_its_peer_and_who_stands_alone() {
        let one = compare_rcodes(0, [0, 3, 0]);
        assert_eq!(one.len(), 1);
        assert!(one[0].peer == Software::Nsd && !one[0].alone && one[0].rcodes == (0, 3));
        let all = compare_rcodes(0, [3, 3, 3]);
        assert!(all.len() == 3 && all.iter().all(|difference| difference.alone));
    }

    #[test]
    fn a_fault_of_the_subject_differs_from_everybody() {
        let world = World { name: "test", zones: Vec::new() };
        let faulty = Reply { faults: vec!["twice".into()], ..Reply::default() };
        let peers = [(Software::Knot, Some(Reply::default()))];
        let query = Query::new(name("example"), Rtype::A);
        let found = compare(&world, &query, &Some(faulty), &peers);
        assert!(found.len() == 1 && found[0].aspect == Aspect::Form);
    }

    #[test]
    fn truncated_reply_is_compared_with_the_complete_one() {
        let record = |owner: &str, last: u8| Record {
            owner: name(owner),
            rtype: Rtype::A,
            class: Class::IN,
            ttl: Ttl::from_secs(60),
            data: vec![192, 0, 2, last],
        };
        let reply = |length, answer: &[Record]| Reply {
            length,
            answer: answer.iter().cloned().collect(),
            ..Reply::default()
        };
        let (a, b, other) = (record("a", 1), record("a", 2), record("b", 3));
        let signature = Record { rtype: Rtype::RRSIG, data: vec![0, 1, 13, 1], ..a.clone() };
        let (a_alone, signed, whole) = (vec![a.clone()], vec![a.clone(), signature], vec![a, b]);
        let faults = |length, answer: &[Record], all: &[Record], room| {
            faults_of_cut(&reply(length, answer), &reply(600, all), room).join("; ")
        };
        assert_eq!(faults(100, &[], &whole, 512), "");
        assert_eq!(faults(500, &whole, &whole, 512), "");
        assert_eq!(faults(500, &a_alone, &whole, 512), "", "the answer may be cut");
        assert!(faults(500, &a_alone, &signed, 512).contains("a part of the set of a. 60 IN R"));
        assert!(faults(500, &[other], &whole, 512).contains("Answer has b. 60 IN A 192.0.2.3"));
        assert!(faults(100, &[], &whole, 600).contains("cut, though all 600 bytes fit into 600"));
    }
}
