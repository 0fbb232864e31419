//! `reasons.toml`: why servers differ, rule by rule.

use std::collections::BTreeSet;

use domain::base::iana::Rtype;
use serde::Deserialize;

use crate::Result;
use crate::comparison::{Aspect, Difference, TAGS};
use crate::kubernetes;
use crate::oddities::ODDITIES;
use crate::packet::QueryPacket;
use crate::server::Software;

/// Why some differences are not mistakes of the subject's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reason {
    /// Its name in reports.
    pub id: String,
    /// The peers it is about.
    pub peers: Vec<String>,
    /// The aspects it covers.
    pub aspects: Vec<Aspect>,
    /// Tags that must all hold.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Tags of which none may hold.
    #[serde(default)]
    pub without: Vec<String>,
    /// Query types; all, where none is named.
    #[serde(default)]
    pub qtypes: Vec<String>,
    /// Oddities of the packet; any or none, where none is named.
    #[serde(default)]
    pub oddities: Vec<String>,
    /// What the subject's RCODE may be; anything, where none is named.
    #[serde(default)]
    pub ours: Vec<u16>,
    /// What the peer's RCODE may be; anything, where none is named.
    #[serde(default)]
    pub theirs: Vec<u16>,
    /// The types a record may have that only the subject sent; all, where the key is absent.
    pub ours_only: Option<Vec<String>>,
    /// The types a record may have that only the peer sent; all, where the key is absent.
    pub theirs_only: Option<Vec<String>>,
    /// The options that only the subject's OPT may have; anything, where the key is absent.
    pub options_ours: Option<Vec<u16>>,
    /// The options that only the peer's OPT may have; anything, where the key is absent.
    pub options_theirs: Option<Vec<u16>>,
    /// Covers even what all peers agree upon.
    #[serde(default)]
    pub alone: bool,
    /// Why, with the RFC that says so.
    pub why: String,
    /// Whose peculiarity it is: a peer's name, "dunlin" for a choice of ours, or "open" where the
    /// RFCs leave it open.
    pub whose: String,
}

#[derive(Deserialize)]
struct File {
    reason: Vec<Reason>,
}

/// Reads and checks the rules in `text`.
pub fn read(text: &str) -> Result<Vec<Reason>> {
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    let mut ids = BTreeSet::new();
    for reason in &file.reason {
        let id = &reason.id;
        if !ids.insert(id) {
            return Err(format!("two reasons are called {id}"));
        }
        let known =
            |tag: &&String| !TAGS.iter().chain(&kubernetes::TAGS).any(|(known, _)| known == *tag);
        if let Some(tag) = reason.tags.iter().chain(&reason.without).find(known) {
            return Err(format!("{id}: no such tag: {tag}"));
        }
        if let Some(peer) = reason.peers.iter().find(|peer| Software::named(peer).is_none()) {
            return Err(format!("{id}: no such peer: {peer}"));
        }
        let known = |name: &&String| !ODDITIES.iter().any(|(known, _)| known == *name);
        if let Some(oddity) = reason.oddities.iter().find(known) {
            return Err(format!("{id}: no such oddity: {oddity}"));
        }
        let types = [&reason.ours_only, &reason.theirs_only];
        let types = types.into_iter().flatten().flatten().chain(&reason.qtypes);
        for rtype in types {
            rtype.parse::<Rtype>().map_err(|_| format!("{id}: no such type: {rtype}"))?;
        }
    }
    Ok(file.reason)
}

impl Reason {
    /// True when the rule explains `difference` in the replies to `packet`.
    pub fn covers(&self, packet: &QueryPacket, difference: &Difference) -> bool {
        let has = |tag: &String| difference.tags.contains(tag.as_str());
        let is = |wanted: &[u16], rcode| wanted.is_empty() || wanted.contains(&rcode);
        self.aspects.contains(&difference.aspect)
            && self.peers.iter().any(|peer| peer == difference.peer.name())
            && (self.alone || !difference.alone)
            && self.tags.iter().all(has)
            && !self.without.iter().any(has)
            && (self.qtypes.is_empty() || names_type(&self.qtypes, packet.query.qtype))
            && (self.oddities.is_empty()
                || packet.oddity.is_some_and(|oddity| self.oddities.iter().any(|o| o == oddity)))
            && is(&self.ours, difference.rcodes.0)
            && is(&self.theirs, difference.rcodes.1)
            && allows(&self.ours_only, &difference.ours_only)
            && allows(&self.theirs_only, &difference.theirs_only)
            && allows_options(&self.options_ours, &difference.options.0)
            && allows_options(&self.options_theirs, &difference.options.1)
    }
}

fn names_type(list: &[String], rtype: Rtype) -> bool {
    list.iter().any(|name| name.parse().is_ok_and(|named: Rtype| named == rtype))
}

fn allows(list: &Option<Vec<String>>, types: &BTreeSet<Rtype>) -> bool {
    list.as_ref().is_none_or(|list| types.iter().all(|rtype| names_type(list, *rtype)))
}

fn allows_options(list: &Option<Vec<u16>>, codes: &BTreeSet<u16>) -> bool {
    list.as_ref().is_none_or(|list| codes.iter().all(|code| list.contains(code)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::name;
    use crate::queries::Query;

    const RULES: &str = include_str!("../reasons.toml");

    fn rule(more: &str) -> Reason {
        let text = format!(
            "[[reason]]\nid = \"x\"\npeers = [\"nsd\"]\naspects = [\"rcode\"]\nwhy = \"\"\n\
             whose = \"nsd\"\n{more}"
        );
        read(&text).expect("a rule").remove(0)
    }

    fn difference(alone: bool) -> Difference {
        Difference {
            aspect: Aspect::Rcode,
            peer: Software::Nsd,
            alone,
            tags: ["do", "chain"].into(),
            rcodes: (0, 3),
            ours_only: BTreeSet::new(),
            theirs_only: [Rtype::A].into(),
            options: ([10].into(), BTreeSet::new()),
        }
    }

    fn covers(more: &str, alone: bool) -> bool {
        let packet = QueryPacket::from(Query::new(name("example"), Rtype::MX));
        rule(more).covers(&packet, &difference(alone))
    }

    #[test]
    fn a_rule_covers_what_it_says() {
        assert!(covers("", false));
        assert!(covers("tags = [\"do\"]\nqtypes = [\"MX\"]\nours = [0]\ntheirs = [3]", false));
        assert!(covers("theirs-only = [\"A\", \"AAAA\"]\nours-only = []", false));
        assert!(covers("options-ours = [3, 10]\noptions-theirs = []", false));
        for other in [
            "tags = [\"tcp\"]",
            "without = [\"chain\"]",
            "qtypes = [\"A\"]",
            "theirs = [2]",
            "theirs-only = []",
            "oddities = [\"notify\"]",
            "options-ours = [3]",
        ] {
            assert!(!covers(other, false), "{other}");
        }
    }

    #[test]
    fn a_lone_subject_needs_a_rule_that_says_so() {
        assert!(!covers("", true));
        assert!(covers("alone = true", true));
    }

    #[test]
    fn no_rule_covers_a_fault() {
        let rules = read(RULES).expect("reasons.toml");
        assert!(rules.iter().all(|rule| !rule.aspects.contains(&Aspect::Form)));
    }

    #[test]
    fn unknown_words_are_refused() {
        let text = RULES.replacen("tags = [\"leaves-zone\"]", "tags = [\"nonsense\"]", 1);
        assert!(read(&text).unwrap_err().contains("no such tag: nonsense"));
    }
}
