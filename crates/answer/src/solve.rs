//! What the answer is (RFC 1034 §4.3.2), composed as it is found.
use crate::deny::Denial;
use crate::find::{Found, Place, find};
use crate::finish::Ede;
use crate::limits::{ALIASES_MAX, TARGETS_MAX};
use crate::reply::{Owner, Reply, Section, absolute};
use image::{DepthMask, Facts, HashKey, Leaf, Node, RecordSet, RelName, World, Zone, same};
use packet::Transport;
use wire::limits::PADDED_LEN;
use wire::{Name, NameBuf, QName, Rcode, Rtype, target};

/// How one name of a chain of aliases ended.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for the length of one call")]
enum End {
    /// There is no more to say.
    Done,
    /// It is an alias; the answer goes on at this name.
    Continue(NameBuf),
}

/// A zone, and what is asked of it again and again.
#[derive(Clone, Copy)]
pub(crate) struct Site<'w> {
    zone: &'w dyn Zone,
    facts: &'w Facts,
    origin: &'w [u8],
}

impl<'w> Site<'w> {
    pub(crate) fn new(zone: &'w dyn Zone) -> Self {
        Self { zone, facts: zone.facts(), origin: zone.origin().octets() }
    }

    /// Whether a name is the origin or lies below it.
    #[inline(always)]
    pub(crate) fn holds(&self, name: &QName) -> bool {
        let labels = usize::from(self.facts.origin_labels);
        labels <= name.labels() && same(name.from(name.start_of_last(labels)), self.origin)
    }
}

/// Where the first pass found that a question's name would lie.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'w> {
    zone: &'w dyn Zone,
    facts: &'w Facts,
    /// The hash of the name below the zone's origin.
    hash: u64,
    /// The leaf of that hash.
    pub(crate) leaf: &'w [u8],
}

impl<'w> Spot<'w> {
    /// Hashes the name and finds the leaf.
    #[inline(always)]
    pub(crate) fn new(key: &HashKey, site: Site<'w>, name: &QName) -> Self {
        let Site { zone, facts, .. } = site;
        let hash = Place::new(name, facts).hash(key);
        Self { zone, facts, hash, leaf: zone.leaf(hash) }
    }
}

/// Answers from a zone, and from those that aliases lead to. A chain that leaves the zones that are
/// here ends there: who asked goes on.
#[inline(always)]
pub(crate) fn solve<'w>(
    world: &'w dyn World,
    key: &'w HashKey,
    spot: &Spot<'w>,
    alias: &mut QName,
    reply: &mut Reply<'_>,
) {
    let query = reply.query;
    // Most questions are for the addresses of a name that exists, above which there is no cut.
    if spot.facts.loaded
        && spot.facts.cuts == DepthMask::default()
        && !query.dnssec_ok()
        && let Some(len) = query.rtype.fixed_rdata_len()
    {
        let name = Place::new(&query.name, spot.facts);
        if let Some(node) = Leaf::new(spot.leaf).find(spot.hash, name.octets())
            && let Some(set) = node.set(query.rtype)
        {
            reply.put_addresses(&set, len);
            return;
        }
    }
    solve_any(world, key, spot, alias, reply);
}

/// The same for all other questions.
#[inline(never)]
fn solve_any<'w>(
    world: &'w dyn World,
    key: &'w HashKey,
    spot: &Spot<'w>,
    alias: &mut QName,
    reply: &mut Reply<'_>,
) {
    // AA speaks of the first name (RFC 1035 §4.1.1); only a referral takes it back.
    reply.set_authoritative(true);
    let name = &reply.query.name;
    if let End::Continue(target) = solve_name(key, spot, name, reply, true) {
        follow(world, key, &target, alias, reply);
    }
}

/// Follows a chain of aliases from its second name on.
fn follow<'w>(
    world: &'w dyn World,
    key: &'w HashKey,
    target: &NameBuf,
    alias: &mut QName,
    reply: &mut Reply<'_>,
) {
    alias.set(target.as_name());
    for _ in 0..ALIASES_MAX {
        if reply.is_truncated() {
            return;
        }
        let at_cut = reply.query.rtype == Rtype::DS;
        let routed = at_cut.then(|| world.route(alias, true)).flatten();
        let Some(routed) = routed.or_else(|| world.route(alias, false)) else { return };
        let spot = Spot::new(key, Site::new(routed.zone), alias);
        match solve_name(key, &spot, alias, reply, false) {
            End::Done => return,
            End::Continue(target) => alias.set(target.as_name()),
        }
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
}

fn solve_name<'w>(
    key: &'w HashKey,
    spot: &Spot<'w>,
    name: &QName,
    reply: &mut Reply<'_>,
    first: bool,
) -> End {
    let Spot { zone, facts, hash, leaf } = *spot;
    if !facts.loaded {
        reply.set_authoritative(false);
        reply.fail(Rcode::ServFail, Some(Ede::NOT_READY));
        return End::Done;
    }
    let place = Place::new(name, facts);
    let found = find(key, zone, &place, reply.query.rtype, hash, leaf);
    Step { key, zone, name, place, first }.conclude(found, reply)
}

impl<'w> Step<'_, 'w> {
    /// Answers with what was found.
    #[inline]
    fn conclude(&self, found: Found<'w>, reply: &mut Reply<'_>) -> End {
        match found {
            Found::Exact(node) => self.at_node(node, None, reply),
            Found::Wildcard(node, encloser) => self.at_node(node, Some(encloser), reply),
            Found::Nothing(encloser) => {
                reply.fail(Rcode::NxDomain, None);
                self.put_soa(reply);
                self.deny(reply, |denial, reply| denial.no_name(reply, encloser));
                End::Done
            }
            Found::Cut(node, depth) => {
                reply.set_authoritative(!self.first);
                self.refer(node, depth, reply);
                End::Done
            }
            Found::Dname(node, depth) => self.follow_dname(node, depth, reply),
        }
    }

    /// The name exists, or a wildcard stands for it below the encloser of this depth.
    #[inline]
    fn at_node(&self, node: Node<'w>, wildcard: Option<usize>, reply: &mut Reply<'_>) -> End {
        let rtype = reply.query.rtype;
        let owner = self.owner();
        match rtype {
            Rtype::ANY => return self.any(node, wildcard, owner, reply),
            Rtype::RRSIG => return self.signatures(node, wildcard, owner, reply),
            _ => {}
        }
        if let Some(set) = node.set(rtype) {
            reply.put_needed(Section::Answer, owner, &set, node);
            self.prove_wildcard(wildcard, reply);
            if let Some(offset) = target(rtype) {
                self.put_addresses(&set, offset, reply);
            }
            return End::Done;
        }
        if let Some(set) = node.set(Rtype::CNAME) {
            reply.put_needed(Section::Answer, owner, &set, node);
            self.prove_wildcard(wildcard, reply);
            let target = set.records().next().and_then(|data| Name::parse(data).ok());
            return target.map_or(End::Done, |target| End::Continue(target.into()));
        }
        self.no_data(node, wildcard, reply)
    }

    fn no_data(&self, node: Node<'w>, wildcard: Option<usize>, reply: &mut Reply<'_>) -> End {
        self.put_soa(reply);
        self.deny(reply, |denial, reply| match wildcard {
            None => denial.no_data(reply, node),
            Some(encloser) => denial.no_wildcard_data(reply, node, encloser),
        });
        End::Done
    }

    /// RFC 8482 §4.1: over datagrams one set stands for all; who came by a stream gets them.
    fn any(
        &self,
        node: Node<'w>,
        wildcard: Option<usize>,
        owner: Owner<'_>,
        reply: &mut Reply<'_>,
    ) -> End {
        let sets = node.sets().filter(|set| set.rtype() != Rtype::RRSIG);
        let wanted = if reply.transport == Transport::Stream { usize::MAX } else { 1 };
        let mut put = 0;
        for set in sets.take(wanted) {
            reply.put_needed(Section::Answer, owner, &set, node);
            put += 1;
        }
        if put == 0 {
            return self.no_data(node, wildcard, reply);
        }
        self.prove_wildcard(wildcard, reply);
        End::Done
    }

    fn signatures(
        &self,
        node: Node<'w>,
        wildcard: Option<usize>,
        owner: Owner<'_>,
        reply: &mut Reply<'_>,
    ) -> End {
        let Some(all) = node.set(Rtype::RRSIG) else { return self.no_data(node, wildcard, reply) };
        if reply.put_all_signatures(owner, &all, node).is_err() {
            reply.truncate();
        }
        self.prove_wildcard(wildcard, reply);
        End::Done
    }

    /// That the name itself does not exist (RFC 4035 §3.1.3.3, RFC 5155 §7.2.6).
    #[inline]
    fn prove_wildcard(&self, wildcard: Option<usize>, reply: &mut Reply<'_>) {
        if let Some(encloser) = wildcard {
            self.deny(reply, |denial, reply| denial.wildcard_answer(reply, encloser));
        }
    }

    /// The owner of what stands at the name.
    fn owner(&self) -> Owner<'_> {
        if self.first { Owner::Question(0) } else { Owner::Name(self.name.as_name()) }
    }

    #[inline]
    fn put_soa(&self, reply: &mut Reply<'_>) {
        if let Some(apex) = self.apex() {
            let at = self.first.then(|| self.place.start(0));
            reply.put_negative_soa(self.zone.origin(), at, apex);
        }
    }

    fn apex(&self) -> Option<Node<'w>> {
        self.zone.find(self.key, self.place.at(0))
    }

    #[inline]
    fn deny(&self, reply: &mut Reply<'_>, prove: impl FnOnce(&mut Denial<'_, 'w>, &mut Reply<'_>)) {
        if reply.query.dnssec_ok() && !reply.is_truncated() {
            let mut denial = Denial::new(self.key, self.zone, self.place);
            prove(&mut denial, reply);
        }
    }

    /// A referral: who to ask about the delegated zone (RFC 1034 §4.3.2 step 3b).
    fn refer(&self, cut: Node<'w>, depth: usize, reply: &mut Reply<'_>) {
        let Some(servers) = cut.set(Rtype::NS) else { return };
        let name = absolute(cut.name(), self.zone.origin());
        let owner = match self.owner() {
            Owner::Question(_) => Owner::Question(self.place.start(depth)),
            Owner::Name(_) => Owner::Name(name.as_name()),
        };
        reply.put_needed(Section::Authority, owner, &servers, cut);
        if reply.query.dnssec_ok() {
            match cut.set(Rtype::DS) {
                Some(set) => reply.put_needed(Section::Authority, owner, &set, cut),
                None => self.deny(reply, |denial, reply| denial.no_ds(reply, cut, depth)),
            }
        }
        if !reply.is_truncated() {
            self.put_glue(&servers, name.as_name(), reply);
        }
    }

    /// Addresses of the delegated zone's servers: of those within it they are part of the referral
    /// and must be there (RFC 9471 §3.1); others only help.
    fn put_glue(&self, servers: &RecordSet<'w>, cut: Name<'_>, reply: &mut Reply<'_>) {
        for needed in [true, false] {
            let targets = Targets { set: *servers, offset: 0 };
            for target in targets.names().filter(|name| name.is_within(cut) == needed) {
                for (set, node) in self.addresses(target) {
                    let owner = Owner::Name(target);
                    if reply.put(Section::Additional, owner, &set, node, set.ttl()).is_err()
                        && needed
                    {
                        return reply.truncate();
                    }
                }
            }
        }
    }

    /// Addresses of the names that an answer mentions. What does not fit is left out
    /// (RFC 2181 §9).
    fn put_addresses(&self, set: &RecordSet<'w>, offset: usize, reply: &mut Reply<'_>) {
        if reply.is_truncated() {
            return;
        }
        let targets = Targets { set: *set, offset };
        for target in targets.names() {
            for (set, node) in self.addresses(target) {
                // Whether or not there was room for it, the next may be smaller.
                let _ = reply.put(Section::Additional, Owner::Name(target), &set, node, set.ttl());
            }
        }
    }

    /// The address sets of a name of this zone.
    fn addresses(
        &self,
        name: Name<'w>,
    ) -> impl Iterator<Item = (RecordSet<'w>, Node<'w>)> + use<'w> {
        let node = name.is_within(self.zone.origin()).then(|| {
            let len = name.len() - self.zone.origin().len();
            let mut buffer = [0; PADDED_LEN];
            buffer[..len].copy_from_slice(&name.octets()[..len]);
            buffer[..len].make_ascii_lowercase();
            self.zone.find(self.key, RelName::new(&buffer, 0, len))
        });
        node.flatten().into_iter().flat_map(|node| {
            let sets = [Rtype::A, Rtype::AAAA].into_iter().filter_map(move |r| node.set(r));
            sets.map(move |set| (set, node))
        })
    }

    /// The name lies below a DNAME, and so is an alias (RFC 6672 §3.2).
    fn follow_dname(&self, node: Node<'w>, depth: usize, reply: &mut Reply<'_>) -> End {
        let Some(set) = node.set(Rtype::DNAME) else { return End::Done };
        let owner_name = absolute(node.name(), self.zone.origin());
        let start = self.place.start(depth);
        let owner = match self.owner() {
            Owner::Question(_) => Owner::Question(start),
            Owner::Name(_) => Owner::Name(owner_name.as_name()),
        };
        reply.put_needed(Section::Answer, owner, &set, node);
        let Some(target) = set.records().next().and_then(|data| Name::parse(data).ok()) else {
            return End::Done;
        };
        let prefix = &self.name.octets()[..start];
        let Ok(alias) = NameBuf::joined(prefix, target) else {
            reply.fail(Rcode::YxDomain, None);
            return End::Done;
        };
        let owner = self.owner();
        if !reply.is_truncated() && reply.put_cname(owner, set.ttl(), alias.as_name()).is_err() {
            reply.truncate();
        }
        match reply.query.rtype {
            Rtype::CNAME | Rtype::ANY => End::Done,
            _ => End::Continue(alias),
        }
    }
}

/// The names a record set points at, each once.
struct Targets<'w> {
    set: RecordSet<'w>,
    offset: usize,
}

impl<'w> Targets<'w> {
    fn names(&self) -> impl Iterator<Item = Name<'w>> + use<'w> {
        let (set, offset) = (self.set, self.offset);
        let name = move |data: &'w [u8]| Name::parse(data.get(offset..)?).ok();
        let all = move || set.records().filter_map(name).take(TARGETS_MAX);
        all()
            .enumerate()
            .filter(move |(at, name)| !all().take(*at).any(|before| before == *name))
            .map(|(_, name)| name)
    }
}
