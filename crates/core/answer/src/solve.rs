//! Decides the answer (RFC 1034 §4.3.2) and composes it on the way.
use crate::cname_chain::CnameChain;
use crate::computed::{address_of, put_address};
use crate::denial::{Denial, Proofs};
use crate::ede::Ede;
use crate::extra::AdditionalRecords;
use crate::find::{ZoneAnswer, ZoneName, find};
use crate::hosts::HostEntry;
use crate::name_owner::{NameOwner, name_owner};
use crate::reply::{OwnerName, ReplySection, ReplyWriter, absolute};
use crate::resolver::{self, ForwardedAnswer, Resolver};
use image::{
    Declared, DepthMask, Forwards, HashKey, Node, RecordSet, Route, Zone, ZoneFacts, ZoneTable,
    same,
};
use packet::{Transport, View};
use wire::{Class, Flags, Name, NameBuf, QName, Query, Rcode, Rtype};

/// How one name of a CNAME chain ended.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for the length of one call")]
enum ChainEnd<'w> {
    /// The answer is complete, except additional records.
    Done(AdditionalRecords<'w>),
    /// An alias: the answer continues at this name.
    Continue(NameBuf),
    /// This group of servers must be queried first.
    Ask(u16),
}

/// Forward rules, and the resolver.
pub(crate) struct ForwardConfig<'e> {
    pub(crate) resolver: &'e mut dyn Resolver,
    pub(crate) forwards: Forwards<'e>,
    /// Whether this client may use forwarding.
    pub(crate) may_forward: bool,
    /// Whether no server is left to query: the cache decides the answer.
    pub(crate) is_final: bool,
    /// The number of the name map; 0: cache entries are not confirmed.
    pub(crate) map: u32,
}

/// A name for which an upstream server must be queried: that of the question, or the last alias.
pub(crate) struct MissingName {
    pub(crate) group: u16,
    pub(crate) first: bool,
}

/// Where the question's own name is looked up.
#[derive(Clone, Copy)]
pub(crate) enum ChainStart<'s, 'w> {
    Zone(&'s NodeLookup<'w>),
    Hosts(HostEntry<'w>),
    Upstreams(u16),
}

/// Memory for CNAME chains.
pub(crate) struct ChainScratch<'t> {
    pub(crate) alias: &'t mut QName,
    pub(crate) chain: &'t mut CnameChain,
}

/// A zone of a view, with its frequently used fields.
#[derive(Clone, Copy)]
pub(crate) struct ZoneRef<'w> {
    pub(crate) view: View,
    pub(crate) zone: &'w dyn Zone,
    facts: &'w ZoneFacts,
    pub(crate) origin: &'w [u8],
    /// Whether an existing name is answered without a look at its ancestors.
    pub(crate) plain: bool,
}

impl<'w> ZoneRef<'w> {
    pub(crate) fn new(view: View, routed: &Route<'w>) -> Self {
        let Route { zone, facts, .. } = *routed;
        let plain = facts.loaded && facts.cuts == DepthMask::default();
        Self { view, zone, facts, origin: zone.origin().as_bytes(), plain }
    }

    /// Whether a name of this view is the origin or lies below it.
    pub(crate) fn holds(&self, view: View, name: &QName) -> bool {
        let labels = usize::from(self.facts.origin_labels);
        let Some(start) = name.as_bytes().len().checked_sub(self.origin.len()) else {
            return false;
        };
        view == self.view
            && labels <= name.labels()
            && name.start_of_last(labels) == start
            && same(name.from(start), self.origin)
    }
}

/// The lookup of a query's name, prepared by the first pass.
#[derive(Clone, Copy)]
pub(crate) struct NodeLookup<'w> {
    pub(crate) zone: &'w dyn Zone,
    facts: &'w ZoneFacts,
    /// The hash of the name below the zone's origin.
    pub(crate) hash: u64,
    /// The leaf of that hash.
    pub(crate) leaf: &'w [u8],
}

impl<'w> NodeLookup<'w> {
    pub(crate) fn new(key: &HashKey, zone_ref: &ZoneRef<'w>, name: &QName) -> Self {
        let hash = ZoneName::new(name, zone_ref.facts).hash(key);
        let ZoneRef { zone, facts, .. } = *zone_ref;
        Self { zone, facts, hash, leaf: zone.leaf(hash) }
    }
}

/// Answers from a zone or the cache, and follows aliases. A chain that leads to a name that this
/// server does not serve ends there; the client continues.
///
/// # Errors
/// [`MissingName`] if an upstream server must be queried first.
#[inline(never)]
pub(crate) fn solve<'w>(
    zones: &'w dyn ZoneTable,
    key: &'w HashKey,
    start: ChainStart<'_, 'w>,
    scratch: ChainScratch<'_>,
    forwarding: &mut ForwardConfig<'_>,
    reply: &mut ReplyWriter<'_>,
) -> Result<(), MissingName> {
    // AA is about the first name (RFC 1035 §4.1.1). Only a referral clears it.
    reply.set_authoritative(true);
    let ChainScratch { alias, chain } = scratch;
    chain.clear();
    let query = reply.query;
    let mut proofs = query.dnssec_ok().then(Proofs::new);
    let view = reply.context.view;
    let mut chain_walk = ChainWalk { zones, view, key, chain, proofs: &mut proofs, forwarding };
    let (mut zone, mut end) = match start {
        ChainStart::Zone(node_lookup) => {
            (Some(node_lookup.zone), chain_walk.solve_name(node_lookup, &query.name, reply, true))
        }
        ChainStart::Upstreams(group) => {
            (None, chain_walk.answer_forwarded(group, &query.name, reply, true))
        }
        ChainStart::Hosts(host) => (None, chain_walk.answer_hosts(host, &query.name, reply, true)),
    };
    let mut first = true;
    while let ChainEnd::Continue(target) = &end
        && !reply.is_truncated()
        && chain_walk.chain.enter(key, if first { &query.name } else { alias })
    {
        alias.set(target.as_name());
        first = false;
        if chain_walk.chain.has_passed(key, alias) {
            break;
        }
        (zone, end) = match chain_walk.name_owner(alias, query) {
            NameOwner::Zone(routed) => {
                let zone_ref = ZoneRef::new(chain_walk.view, &routed);
                let node_lookup = NodeLookup::new(key, &zone_ref, alias);
                (Some(zone_ref.zone), chain_walk.solve_name(&node_lookup, alias, reply, false))
            }
            NameOwner::Upstreams(group) => {
                (None, chain_walk.answer_forwarded(group, alias, reply, false))
            }
            NameOwner::Hosts(host) => (None, chain_walk.answer_hosts(host, alias, reply, false)),
            NameOwner::None => break,
        };
    }
    if let ChainEnd::Ask(group) = end {
        return Err(MissingName { group, first });
    }
    let name = if first { &query.name } else { alias };
    if let Some(proofs) = proofs {
        proofs.put(reply);
    }
    if let (ChainEnd::Done(extra), Some(zone)) = (&end, zone) {
        extra.put(key, zone, name, reply);
    }
    // No server has authority for all classes (RFC 1034 §3.7.1).
    if query.class != Class::IN {
        reply.set_authoritative(false);
    }
    Ok(())
}

/// A walk along a CNAME chain.
struct ChainWalk<'s, 'e, 'w> {
    zones: &'w dyn ZoneTable,
    view: View,
    key: &'w HashKey,
    chain: &'s mut CnameChain,
    proofs: &'s mut Option<Proofs<'w>>,
    forwarding: &'s mut ForwardConfig<'e>,
}

impl<'w> ChainWalk<'_, '_, 'w> {
    /// The owner of an alias. It is forwarded only if the client desires recursion (RFC 1034
    /// §4.3.1).
    fn name_owner(&self, alias: &QName, query: &Query) -> NameOwner<'w> {
        let desired = query.flags.has(Flags::RD) && self.forwarding.may_forward;
        let forwards = if desired { self.forwarding.forwards } else { Forwards::default() };
        name_owner((self.zones, self.view), forwards, alias, query.rtype)
    }

    fn answer_hosts(
        &self,
        host: HostEntry<'w>,
        name: &QName,
        reply: &mut ReplyWriter<'_>,
        first: bool,
    ) -> ChainEnd<'w> {
        host.answer(self.key, name, first, reply);
        ChainEnd::Done(AdditionalRecords::Nothing)
    }

    /// Answers from the cache.
    #[inline(never)]
    fn answer_forwarded(
        &mut self,
        group: u16,
        name: &QName,
        reply: &mut ReplyWriter<'_>,
        first: bool,
    ) -> ChainEnd<'w> {
        let ForwardConfig { resolver, is_final, map, forwards, .. } = &mut *self.forwarding;
        let (zones, forwards, rtype) = ((self.zones, self.view), *forwards, reply.query.rtype);
        let leaves_group = |target: Name<'_>| {
            let mut name = QName::new();
            name.set(target);
            let owner = name_owner(zones, forwards, &name, rtype);
            !matches!(owner, NameOwner::Upstreams(own) if own == group)
        };
        // A cache entry for all types may include those of a hosts file. An entry for an alias's
        // target is not confirmed, because a query for the target itself may get another answer.
        let is_theirs = first && !HostEntry::exists(self.zones, self.view, name);
        let map = if is_theirs { *map } else { 0 };
        let key = resolver::key(self.key, self.view, name, reply.query);
        match resolver::answer(
            *resolver,
            (group, &leaves_group),
            &key,
            (first, *is_final, map),
            reply,
        ) {
            ForwardedAnswer::Done => ChainEnd::Done(AdditionalRecords::Nothing),
            ForwardedAnswer::Continue(target) => ChainEnd::Continue(target),
            ForwardedAnswer::Missing => ChainEnd::Ask(group),
        }
    }

    fn solve_name(
        &mut self,
        node_lookup: &NodeLookup<'w>,
        name: &QName,
        reply: &mut ReplyWriter<'_>,
        first: bool,
    ) -> ChainEnd<'w> {
        let NodeLookup { zone, facts, hash, leaf, .. } = *node_lookup;
        if !facts.loaded {
            reply.set_authoritative(false);
            reply.fail(Rcode::ServFail, Some(Ede::NOT_READY));
            return ChainEnd::Done(AdditionalRecords::Nothing);
        }
        let place = ZoneName::new(name, facts);
        let found = find(self.key, zone, &place, reply.query.rtype, hash, leaf);
        let proofs = self.proofs.as_mut();
        ChainStep { key: self.key, zone, name, place, first, chain: self.chain, proofs }
            .conclude(found, reply)
    }
}

/// One name of the chain.
struct ChainStep<'s, 'w> {
    key: &'w HashKey,
    zone: &'w dyn Zone,
    name: &'s QName,
    place: ZoneName<'s>,
    /// Whether the name is that of the question.
    first: bool,
    chain: &'s mut CnameChain,
    proofs: Option<&'s mut Proofs<'w>>,
}

impl<'w> ChainStep<'_, 'w> {
    #[inline]
    fn conclude(&mut self, found: ZoneAnswer<'w>, reply: &mut ReplyWriter<'_>) -> ChainEnd<'w> {
        match found {
            ZoneAnswer::Exact(node) => self.at_node(node, None, reply),
            ZoneAnswer::Wildcard(node, encloser) if node.declared() == Declared::Addresses => {
                self.at_address(encloser, reply)
            }
            ZoneAnswer::Wildcard(node, encloser) => self.at_node(node, Some(encloser), reply),
            ZoneAnswer::Nothing(encloser) => self.no_name(encloser, reply),
            ZoneAnswer::Cut(node, depth) => {
                reply.set_authoritative(!self.first);
                ChainEnd::Done(self.refer(node, depth, reply))
            }
            ZoneAnswer::Dname(node, depth) => self.follow_dname(node, depth, reply),
        }
    }

    fn no_name(&mut self, encloser: usize, reply: &mut ReplyWriter<'_>) -> ChainEnd<'w> {
        reply.fail(Rcode::NxDomain, None);
        self.put_soa(reply);
        self.deny(|denial| denial.no_name(encloser));
        ChainEnd::Done(AdditionalRecords::Nothing)
    }

    /// Answers with the address that the name's first label is, directly below the encloser.
    fn at_address(&mut self, encloser: usize, reply: &mut ReplyWriter<'_>) -> ChainEnd<'w> {
        let label = self.name.as_name().labels().next().unwrap_or_default();
        let address = address_of(label).filter(|_| self.place.depth() == encloser + 1);
        let Some(address) = address else { return self.no_name(encloser, reply) };
        reply.is_synthesized = true;
        let apex = self.zone.find(self.key, self.place.at(0));
        let ttl = apex.and_then(|apex| apex.set(Rtype::SOA)).map_or(0, |soa| soa.ttl());
        if !put_address(address, self.owner(), ttl, reply) {
            self.put_soa(reply);
        }
        ChainEnd::Done(AdditionalRecords::Nothing)
    }

    /// Answers from a node: that of the name, or of a wildcard below the encloser of this depth.
    fn at_node(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut ReplyWriter<'_>,
    ) -> ChainEnd<'w> {
        // The name itself does not exist (RFC 4035 §3.1.3.3, RFC 5155 §7.2.6).
        if let Some(encloser) = wildcard {
            reply.is_synthesized = true;
            self.deny(|denial| denial.wildcard_answer(encloser));
        }
        let rtype = reply.query.rtype;
        let owner = self.owner();
        match rtype {
            Rtype::ANY => return self.any(node, wildcard, reply),
            Rtype::RRSIG => return self.signatures(node, wildcard, reply),
            _ => {}
        }
        if let Some(set) = node.set(rtype) {
            reply.put_answer(owner, &set, node);
            return ChainEnd::Done(AdditionalRecords::mentioned(set, node));
        }
        if let Some(set) = node.set(Rtype::CNAME) {
            reply.put_needed(ReplySection::Answer, owner, &set, node);
            let target = set.records().next().and_then(|data| Name::parse(data).ok());
            let target = target.map(|target| ChainEnd::Continue(target.into()));
            return target.unwrap_or(ChainEnd::Done(AdditionalRecords::Nothing));
        }
        self.no_data(node, wildcard, reply)
    }

    fn no_data(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut ReplyWriter<'_>,
    ) -> ChainEnd<'w> {
        self.put_soa(reply);
        self.deny(|denial| match wildcard {
            None => denial.no_data(node),
            Some(encloser) => denial.no_wildcard_data(node, encloser),
        });
        ChainEnd::Done(AdditionalRecords::Nothing)
    }

    /// RFC 8482 §4.1: over UDP only the smallest set is sent, since the client's address may be
    /// spoofed. Over streams all sets are.
    fn any(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut ReplyWriter<'_>,
    ) -> ChainEnd<'w> {
        let sets = node.sets().filter(|set| set.rtype() != Rtype::RRSIG);
        let dnssec_ok = reply.query.dnssec_ok();
        let Some(smallest) = sets.clone().min_by_key(|set| size(set, node, dnssec_ok)) else {
            return self.no_data(node, wildcard, reply);
        };
        if reply.context.transport == Transport::Datagram {
            reply.put_needed(ReplySection::Answer, self.owner(), &smallest, node);
        } else {
            sets.for_each(|set| reply.put_needed(ReplySection::Answer, self.owner(), &set, node));
        }
        ChainEnd::Done(AdditionalRecords::Nothing)
    }

    fn signatures(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut ReplyWriter<'_>,
    ) -> ChainEnd<'w> {
        let Some(all) = node.set(Rtype::RRSIG) else { return self.no_data(node, wildcard, reply) };
        if reply.put_all_signatures(self.owner(), &all, node).is_err() {
            reply.truncate();
        }
        ChainEnd::Done(AdditionalRecords::Nothing)
    }

    fn owner(&self) -> OwnerName<'_> {
        if self.first { OwnerName::Question(0) } else { OwnerName::Name(self.name.as_name()) }
    }

    #[inline]
    fn put_soa(&self, reply: &mut ReplyWriter<'_>) {
        if let Some(apex) = self.zone.find(self.key, self.place.at(0)) {
            let at = self.first.then(|| self.place.start(0));
            reply.put_negative_soa(self.zone.origin(), at, apex);
        }
    }

    /// Adds proofs, if they are requested and the zone is signed.
    #[inline]
    fn deny(&mut self, prove: impl FnOnce(&mut Denial<'_, 'w>)) {
        if let Some(proofs) = &mut self.proofs
            && self.zone.facts().signed
        {
            prove(&mut Denial::new(self.key, self.zone, self.place, proofs));
        }
    }

    /// Puts a referral to the delegated zone (RFC 1034 §4.3.2 step 3b).
    fn refer(
        &mut self,
        cut: Node<'w>,
        depth: usize,
        reply: &mut ReplyWriter<'_>,
    ) -> AdditionalRecords<'w> {
        let Some(servers) = cut.set(Rtype::NS) else { return AdditionalRecords::Nothing };
        let name = absolute(cut.name(), self.zone.origin());
        let owner = match self.first {
            true => OwnerName::Question(self.place.start(depth)),
            false => OwnerName::Name(name.as_name()),
        };
        reply.put_needed(ReplySection::Authority, owner, &servers, cut);
        // RFC 4035 §3.1.4 applies to signed zones.
        if reply.query.dnssec_ok() && self.zone.facts().signed {
            match cut.set(Rtype::DS) {
                Some(set) => reply.put_needed(ReplySection::Authority, owner, &set, cut),
                None => self.deny(|denial| denial.no_ds(cut, depth)),
            }
        }
        AdditionalRecords::Glue(servers, cut)
    }

    /// Synthesizes a CNAME from a DNAME (RFC 6672 §3.2).
    fn follow_dname(
        &mut self,
        node: Node<'w>,
        depth: usize,
        reply: &mut ReplyWriter<'_>,
    ) -> ChainEnd<'w> {
        let Some(set) = node.set(Rtype::DNAME) else {
            return ChainEnd::Done(AdditionalRecords::Nothing);
        };
        let owner_name = absolute(node.name(), self.zone.origin());
        let start = self.place.start(depth);
        let owner = match self.first {
            true => OwnerName::Question(start),
            false => OwnerName::Name(owner_name.as_name()),
        };
        reply.is_synthesized = true;
        if self.chain.enter_dname(node) {
            reply.put_needed(ReplySection::Answer, owner, &set, node);
        }
        let Some(target) = set.records().next().and_then(|data| Name::parse(data).ok()) else {
            return ChainEnd::Done(AdditionalRecords::Nothing);
        };
        let prefix = &self.name.as_bytes()[..start];
        let Ok(alias) = NameBuf::joined(prefix, target) else {
            reply.fail(Rcode::YxDomain, None);
            return ChainEnd::Done(AdditionalRecords::Nothing);
        };
        let owner = self.owner();
        let data = alias.as_name().as_bytes();
        let put =
            |reply: &mut ReplyWriter<'_>| reply.put_single(owner, Rtype::CNAME, set.ttl(), data);
        if !reply.is_truncated() && put(reply).is_err() {
            reply.truncate();
        }
        match reply.query.rtype {
            Rtype::CNAME | Rtype::ANY => ChainEnd::Done(AdditionalRecords::Nothing),
            _ => ChainEnd::Continue(alias),
        }
    }
}

/// Bytes of a record set in a reply without compression, with its signatures if requested.
fn size(set: &RecordSet<'_>, node: Node<'_>, dnssec_ok: bool) -> usize {
    /// Bytes of a record before its data if the owner is a pointer.
    const HEAD_LEN: usize = 12;
    let covered = set.rtype().0.to_be_bytes();
    let signatures = node.set(Rtype::RRSIG).filter(|_| dnssec_ok);
    let signatures = signatures.iter().flat_map(|all| all.records());
    let signatures = signatures.filter(|data| data.starts_with(&covered));
    set.records().chain(signatures).map(|data| HEAD_LEN + data.len()).sum()
}
