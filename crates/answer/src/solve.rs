//! What the answer is (RFC 1034 §4.3.2), composed as it is found.
use crate::deny::{Denial, Proofs};
use crate::elsewhere::{self, Elsewhere, Known};
use crate::extra::Extra;
use crate::find::{Found, Place, find};
use crate::finish::Ede;
use crate::host::Host;
use crate::reply::{Owner, Reply, Section, absolute};
use crate::trail::Trail;
use image::{DepthMask, Facts, ForwardRule, Forwards, HashKey, Node, Route, World, Zone, same};
use packet::Transport;
use wire::{Flags, Name, NameBuf, QName, Query, Rcode, Rtype};

/// How one name of a chain of aliases ended.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for the length of one call")]
enum End<'w> {
    /// There is no more to say, but for what helps.
    Done(Extra<'w>),
    /// It is an alias; the answer goes on at this name.
    Continue(NameBuf),
    /// This group of servers has to be asked first.
    Ask(u16),
}

/// Names of others, and who knows of them.
pub(crate) struct Abroad<'e> {
    pub(crate) elsewhere: &'e mut dyn Elsewhere,
    pub(crate) forwards: Forwards<'e>,
    /// Whether they are asked for this client.
    pub(crate) may_ask: bool,
    /// Whether nobody is left to be asked: the answer is what there is.
    pub(crate) settles: bool,
    /// The number of the world's map; 0: what is known is not to be confirmed by it.
    pub(crate) map: u32,
}

/// A name that somebody has to be asked about: that of the question, or else the last alias.
pub(crate) struct Missing {
    pub(crate) group: u16,
    pub(crate) first: bool,
}

/// Where the question's own name is looked up.
#[derive(Clone, Copy)]
pub(crate) enum Start<'s, 'w> {
    Ours(&'s Spot<'w>),
    Hosts(Host<'w>),
    Theirs(u16),
}

/// Memory for following aliases.
pub(crate) struct Trip<'t> {
    pub(crate) alias: &'t mut QName,
    pub(crate) trail: &'t mut Trail,
}

/// A zone, and what is asked of it again and again.
#[derive(Clone, Copy)]
pub(crate) struct Site<'w> {
    pub(crate) zone: &'w dyn Zone,
    facts: &'w Facts,
    pub(crate) origin: &'w [u8],
    /// Whether a name that exists is answered without a look at those above it.
    pub(crate) plain: bool,
}

impl<'w> Site<'w> {
    pub(crate) fn new(routed: &Route<'w>) -> Self {
        let Route { zone, facts, .. } = *routed;
        let plain = facts.loaded && facts.cuts == DepthMask::default();
        Self { zone, facts, origin: zone.origin().octets(), plain }
    }

    /// Whether a name is the origin or lies below it.
    pub(crate) fn holds(&self, name: &QName) -> bool {
        let labels = usize::from(self.facts.origin_labels);
        let Some(start) = name.octets().len().checked_sub(self.origin.len()) else { return false };
        labels <= name.labels()
            && name.start_of_last(labels) == start
            && same(name.from(start), self.origin)
    }
}

/// Where the first pass found that a question's name would lie.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'w> {
    pub(crate) zone: &'w dyn Zone,
    facts: &'w Facts,
    /// The hash of the name below the zone's origin.
    pub(crate) hash: u64,
    /// The leaf of that hash.
    pub(crate) leaf: &'w [u8],
}

impl<'w> Spot<'w> {
    /// Hashes the name and finds the leaf.
    pub(crate) fn new(key: &HashKey, site: &Site<'w>, name: &QName) -> Self {
        let hash = Place::new(name, site.facts).hash(key);
        let Site { zone, facts, .. } = *site;
        Self { zone, facts, hash, leaf: zone.leaf(hash) }
    }
}

/// Answers from a zone, or from what is known of others, and from where aliases lead to. A chain
/// that leads to what is nobody's ends there: who asked goes on.
///
/// # Errors
/// [`Missing`] where somebody has to be asked before there is an answer.
#[inline(never)]
pub(crate) fn solve<'w>(
    world: &'w dyn World,
    key: &'w HashKey,
    start: Start<'_, 'w>,
    trip: Trip<'_>,
    abroad: &mut Abroad<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Missing> {
    // AA speaks of the first name (RFC 1035 §4.1.1); only a referral takes it back.
    reply.set_authoritative(true);
    let Trip { alias, trail } = trip;
    trail.clear();
    let query = reply.query;
    let mut proofs = query.dnssec_ok().then(Proofs::new);
    let mut walk = Walk { world, key, trail, proofs: &mut proofs, abroad };
    let (mut zone, mut end) = match start {
        Start::Ours(spot) => (Some(spot.zone), walk.solve_name(spot, &query.name, reply, true)),
        Start::Theirs(group) => (None, walk.recall(group, &query.name, reply, true)),
        Start::Hosts(host) => (None, walk.take(host, &query.name, reply, true)),
    };
    let mut first = true;
    while let End::Continue(target) = &end
        && !reply.is_truncated()
        && walk.trail.enter(key, if first { &query.name } else { alias })
    {
        alias.set(target.as_name());
        first = false;
        if walk.trail.passed(key, alias) {
            break;
        }
        (zone, end) = match walk.whose(alias, query) {
            Whose::Ours(routed) => {
                let site = Site::new(&routed);
                let spot = Spot::new(key, &site, alias);
                (Some(site.zone), walk.solve_name(&spot, alias, reply, false))
            }
            Whose::Theirs(group) => (None, walk.recall(group, alias, reply, false)),
            Whose::Hosts(host) => (None, walk.take(host, alias, reply, false)),
            Whose::Nobodys => break,
        };
    }
    if let End::Ask(group) = end {
        return Err(Missing { group, first });
    }
    let name = if first { &query.name } else { alias };
    if let Some(proofs) = proofs {
        proofs.put(reply);
    }
    if let (End::Done(extra), Some(zone)) = (&end, zone) {
        extra.put(key, zone, name, reply);
    }
    Ok(())
}

/// Who answers for a name.
pub(crate) enum Whose<'w> {
    /// A zone.
    Ours(Route<'w>),
    /// A hosts file.
    Hosts(Host<'w>),
    /// A group of servers.
    Theirs(u16),
    Nobodys,
}

/// Who answers for a name: the zone or the group of servers with the longest origin or suffix. A
/// hosts file goes before all but a zone of one's own.
#[inline(always)]
pub(crate) fn whose<'w>(
    world: &'w dyn World,
    forwards: Forwards<'_>,
    name: &QName,
    rtype: Rtype,
) -> Whose<'w> {
    let routed = route(world, name, rtype);
    let mut group = None;
    if !forwards.is_empty() {
        let labels_min =
            routed.as_ref().map_or(0, |routed| usize::from(routed.facts.origin_labels) + 1);
        let rule = forwards.find(name, labels_min, rtype == Rtype::DS);
        group = rule.map(|rule| rule.group).filter(|group| *group != ForwardRule::NOBODY);
    }
    match (group, routed) {
        (None, Some(routed)) if !routed.facts.yields => return Whose::Ours(routed),
        _ => {}
    }
    match (Host::find(world, name, rtype), group, routed) {
        (Some(host), _, _) => Whose::Hosts(host),
        (None, Some(group), _) => Whose::Theirs(group),
        // Names of such a zone may be those of a hosts file.
        (None, None, Some(routed)) => {
            let has_below = routed.has_below || world.hosts(0).is_some();
            Whose::Ours(Route { has_below, ..routed })
        }
        (None, None, None) => Whose::Nobodys,
    }
}

/// The zone to ask about a name. What the parent says about a child is asked of the parent
/// (RFC 4035 §3.1.4.1); only where it is nobody's here, the child may say that it has no such
/// thing.
#[inline(never)]
pub(crate) fn route<'w>(world: &'w dyn World, name: &QName, rtype: Rtype) -> Option<Route<'w>> {
    let at_parent = (rtype == Rtype::DS).then(|| world.route(name, true)).flatten();
    at_parent.or_else(|| world.route(name, false))
}

/// A walk along a chain of aliases.
struct Walk<'s, 'e, 'w> {
    world: &'w dyn World,
    key: &'w HashKey,
    trail: &'s mut Trail,
    proofs: &'s mut Option<Proofs<'w>>,
    abroad: &'s mut Abroad<'e>,
}

impl<'w> Walk<'_, '_, 'w> {
    /// Who answers for an alias; others are asked for who wants that only (RFC 1034 §4.3.1).
    fn whose(&self, alias: &QName, query: &Query) -> Whose<'w> {
        let desired = query.flags.has(Flags::RD) && self.abroad.may_ask;
        let forwards = if desired { self.abroad.forwards } else { Forwards::default() };
        whose(self.world, forwards, alias, query.rtype)
    }

    /// Answers with what a hosts file says.
    fn take(&self, host: Host<'w>, name: &QName, reply: &mut Reply<'_>, first: bool) -> End<'w> {
        host.answer(self.key, name, first, reply);
        End::Done(Extra::Nothing)
    }

    /// Answers with what is known of somebody else's name.
    #[inline(never)]
    fn recall(&mut self, group: u16, name: &QName, reply: &mut Reply<'_>, first: bool) -> End<'w> {
        let Abroad { elsewhere, settles, map, forwards, .. } = &mut *self.abroad;
        let (world, forwards, rtype) = (self.world, *forwards, reply.query.rtype);
        let strays = |target: Name<'_>| {
            let mut name = QName::new();
            name.set(target);
            !matches!(whose(world, forwards, &name, rtype), Whose::Theirs(own) if own == group)
        };
        // What is known may be so of all types, though some are a hosts file's; and who asks for an
        // alias itself may be told of another name.
        let is_theirs = first && !Host::exists(self.world, name);
        let map = if is_theirs { *map } else { 0 };
        let key = elsewhere::key(self.key, name, reply.query);
        match elsewhere::answer(*elsewhere, (group, &strays), &key, (first, *settles, map), reply) {
            Known::Done => End::Done(Extra::Nothing),
            Known::Continue(target) => End::Continue(target),
            Known::Unknown => End::Ask(group),
        }
    }

    fn solve_name(
        &mut self,
        spot: &Spot<'w>,
        name: &QName,
        reply: &mut Reply<'_>,
        first: bool,
    ) -> End<'w> {
        let Spot { zone, facts, hash, leaf, .. } = *spot;
        if !facts.loaded {
            reply.set_authoritative(false);
            reply.fail(Rcode::ServFail, Some(Ede::NOT_READY));
            return End::Done(Extra::Nothing);
        }
        let place = Place::new(name, facts);
        let found = find(self.key, zone, &place, reply.query.rtype, hash, leaf);
        let proofs = self.proofs.as_mut();
        Step { key: self.key, zone, name, place, first, trail: self.trail, proofs }
            .conclude(found, reply)
    }
}

/// What one step works on.
struct Step<'s, 'w> {
    key: &'w HashKey,
    zone: &'w dyn Zone,
    name: &'s QName,
    place: Place<'s>,
    /// Whether the name is that of the question.
    first: bool,
    trail: &'s mut Trail,
    proofs: Option<&'s mut Proofs<'w>>,
}

impl<'w> Step<'_, 'w> {
    /// Answers with what was found.
    #[inline]
    fn conclude(&mut self, found: Found<'w>, reply: &mut Reply<'_>) -> End<'w> {
        match found {
            Found::Exact(node) => self.at_node(node, None, reply),
            Found::Wildcard(node, encloser) => self.at_node(node, Some(encloser), reply),
            Found::Nothing(encloser) => {
                reply.fail(Rcode::NxDomain, None);
                self.put_soa(reply);
                self.deny(|denial| denial.no_name(encloser));
                End::Done(Extra::Nothing)
            }
            Found::Cut(node, depth) => {
                reply.set_authoritative(!self.first);
                End::Done(self.refer(node, depth, reply))
            }
            Found::Dname(node, depth) => self.follow_dname(node, depth, reply),
        }
    }

    /// The name exists, or a wildcard stands for it below the encloser of this depth.
    fn at_node(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut Reply<'_>,
    ) -> End<'w> {
        // That the name itself does not exist (RFC 4035 §3.1.3.3, RFC 5155 §7.2.6).
        if let Some(encloser) = wildcard {
            reply.made_up = true;
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
            reply.put_needed(Section::Answer, owner, &set, node);
            return End::Done(Extra::mentioned(set, node));
        }
        if let Some(set) = node.set(Rtype::CNAME) {
            reply.put_needed(Section::Answer, owner, &set, node);
            let target = set.records().next().and_then(|data| Name::parse(data).ok());
            let target = target.map(|target| End::Continue(target.into()));
            return target.unwrap_or(End::Done(Extra::Nothing));
        }
        self.no_data(node, wildcard, reply)
    }

    fn no_data(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut Reply<'_>,
    ) -> End<'w> {
        self.put_soa(reply);
        self.deny(|denial| match wildcard {
            None => denial.no_data(node),
            Some(encloser) => denial.no_wildcard_data(node, encloser),
        });
        End::Done(Extra::Nothing)
    }

    /// RFC 8482 §4.1: over datagrams one set stands for all; who came by a stream gets them.
    fn any(&mut self, node: Node<'w>, wildcard: Option<usize>, reply: &mut Reply<'_>) -> End<'w> {
        let sets = node.sets().filter(|set| set.rtype() != Rtype::RRSIG);
        let wanted = if reply.transport == Transport::Stream { usize::MAX } else { 1 };
        let mut put = 0;
        for set in sets.take(wanted) {
            reply.put_needed(Section::Answer, self.owner(), &set, node);
            put += 1;
        }
        match put {
            0 => self.no_data(node, wildcard, reply),
            _ => End::Done(Extra::Nothing),
        }
    }

    fn signatures(
        &mut self,
        node: Node<'w>,
        wildcard: Option<usize>,
        reply: &mut Reply<'_>,
    ) -> End<'w> {
        let Some(all) = node.set(Rtype::RRSIG) else { return self.no_data(node, wildcard, reply) };
        if reply.put_all_signatures(self.owner(), &all, node).is_err() {
            reply.truncate();
        }
        End::Done(Extra::Nothing)
    }

    /// The owner of what stands at the name.
    fn owner(&self) -> Owner<'_> {
        if self.first { Owner::Question(0) } else { Owner::Name(self.name.as_name()) }
    }

    #[inline]
    fn put_soa(&self, reply: &mut Reply<'_>) {
        if let Some(apex) = self.zone.find(self.key, self.place.at(0)) {
            let at = self.first.then(|| self.place.start(0));
            reply.put_negative_soa(self.zone.origin(), at, apex);
        }
    }

    /// Adds to the proofs, where those are asked for and the zone has any.
    #[inline]
    fn deny(&mut self, prove: impl FnOnce(&mut Denial<'_, 'w>)) {
        if let Some(proofs) = &mut self.proofs
            && self.zone.facts().signed
        {
            prove(&mut Denial::new(self.key, self.zone, self.place, proofs));
        }
    }

    /// A referral: who to ask about the delegated zone (RFC 1034 §4.3.2 step 3b).
    fn refer(&mut self, cut: Node<'w>, depth: usize, reply: &mut Reply<'_>) -> Extra<'w> {
        let Some(servers) = cut.set(Rtype::NS) else { return Extra::Nothing };
        let name = absolute(cut.name(), self.zone.origin());
        let owner = match self.first {
            true => Owner::Question(self.place.start(depth)),
            false => Owner::Name(name.as_name()),
        };
        reply.put_needed(Section::Authority, owner, &servers, cut);
        // RFC 4035 §3.1.4 speaks of signed zones.
        if reply.query.dnssec_ok() && self.zone.facts().signed {
            match cut.set(Rtype::DS) {
                Some(set) => reply.put_needed(Section::Authority, owner, &set, cut),
                None => self.deny(|denial| denial.no_ds(cut, depth)),
            }
        }
        Extra::Glue(servers, cut)
    }

    /// The name lies below a DNAME, and so is an alias (RFC 6672 §3.2).
    fn follow_dname(&mut self, node: Node<'w>, depth: usize, reply: &mut Reply<'_>) -> End<'w> {
        let Some(set) = node.set(Rtype::DNAME) else { return End::Done(Extra::Nothing) };
        let owner_name = absolute(node.name(), self.zone.origin());
        let start = self.place.start(depth);
        let owner = match self.first {
            true => Owner::Question(start),
            false => Owner::Name(owner_name.as_name()),
        };
        reply.made_up = true;
        if self.trail.enter_dname(node) {
            reply.put_needed(Section::Answer, owner, &set, node);
        }
        let Some(target) = set.records().next().and_then(|data| Name::parse(data).ok()) else {
            return End::Done(Extra::Nothing);
        };
        let prefix = &self.name.octets()[..start];
        let Ok(alias) = NameBuf::joined(prefix, target) else {
            reply.fail(Rcode::YxDomain, None);
            return End::Done(Extra::Nothing);
        };
        let owner = self.owner();
        if !reply.is_truncated() && reply.put_cname(owner, set.ttl(), alias.as_name()).is_err() {
            reply.truncate();
        }
        match reply.query.rtype {
            Rtype::CNAME | Rtype::ANY => End::Done(Extra::Nothing),
            _ => End::Continue(alias),
        }
    }
}
