//! Why a client gets an answer: the code that answers queries answers one, and the sets of the
//! answer say what became of their members.
#![forbid(unsafe_code)]

use answer::choose::nearest;
use answer::{
    AnswerCounts, CacheLookup, ClientNetworks, Limits, Network, Now, Policy, Resolver, Scratch,
    batch,
};
use api::ExplainRequest;
use cache::{CacheHit, CacheKey};
use compile::{Image, Zone};
use image::{Location, NameRule, ZoneTable};
use model::{JudgedMember, JudgedSet, LeftOut, MemberClass, ORDERS};
use packet::{LocationNumber, Packet, Transport, View};
use server_status::explain::{
    AnsweredRecord, ExplainedForward, ExplainedMember, ExplainedRamp, ExplainedSet,
    ExplainedSubnet, Explanation,
};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{ClientSubnet, Name, NameBuf, QName, Rcode, Record, Records, Rtype};

/// Bytes of the longest message.
const MESSAGE_LEN_MAX: usize = 65_535;

/// The code of the client subnet option (RFC 7871).
const CLIENT_SUBNET: u16 = 8;

/// A query to explain.
pub struct ExplainedQuery {
    /// The request.
    pub request: ExplainRequest,
    /// The seed of random choices.
    pub seed: u64,
}

/// The place of a client: the names of its network and its view, and the path of its location.
#[derive(Default)]
pub struct ClientPlace {
    /// The network.
    pub network: Option<String>,
    /// The view.
    pub view: Option<String>,
    /// The path.
    pub location: Option<String>,
}

impl ClientPlace {
    fn location(&self) -> Location {
        self.location.as_deref().and_then(|path| Location::parse(path).ok()).unwrap_or_default()
    }
}

/// The answer to a query over a stream, which is not truncated.
pub struct ComposedAnswer {
    /// The number of the network that decides.
    pub network: u16,
    /// The view of that network.
    pub view: View,
    /// The name that is forwarded, and the group of upstreams; then nothing else is known.
    pub asked: Option<(NameBuf, u16)>,
    rcode: u8,
    records: Vec<(NameBuf, Rtype, u32, Box<[u8]>)>,
    /// The client may say where its clients are, and for which prefix the answer holds.
    subnet: Option<(bool, Option<u8>)>,
}

/// A set that the answer is from.
pub struct AnsweredSet {
    /// The zone.
    pub zone: Arc<Zone>,
    /// The view whose clients get it.
    pub view: View,
    /// The owner in the zone: the name, or a wildcard.
    pub owner: NameBuf,
    /// The type.
    pub rtype: Rtype,
    /// The owner in the answer.
    name: NameBuf,
}

impl AnsweredSet {
    /// Whether the view has a set of its own there. It may be an ALIAS record.
    fn is_own(&self) -> bool {
        let names = self.zone.names_of(self.view).filter(|_| self.view != View::DEFAULT);
        let node = names.and_then(|names| names.get(&self.zone.relative(self.owner.as_name())?));
        let has = |rtype| node.is_some_and(|node| node.set(rtype).is_some());
        let is_address = matches!(self.rtype, Rtype::A | Rtype::AAAA);
        has(self.rtype) || is_address && has(Rtype::ALIAS)
    }
}

/// Notes which group of upstreams is asked first, and asks none.
#[derive(Default)]
struct UpstreamObserver(Option<(NameBuf, u16)>);

impl Resolver for UpstreamObserver {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, _key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        None
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, key: &CacheKey<'_>, group: u16, _packet: &Packet<'_>) -> bool {
        if let (None, Ok(name)) = (&self.0, Name::parse(key.name)) {
            self.0 = Some((name.into(), group));
        }
        true
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &CacheKey<'_>, _map: u32) {}
}

/// The parts of an explanation that the server knows.
#[derive(Default)]
pub struct ExplainedContext {
    /// The place of the client.
    pub place: ClientPlace,
    /// The rule of its network for the name.
    pub rule: Option<NameRule>,
    /// The forwarding of the name.
    pub forward: Option<ExplainedForward>,
}

impl ExplainedQuery {
    /// The message, and where its question ends.
    fn message(&self) -> (Vec<u8>, usize) {
        let has_subnet = u8::from(self.request.subnet.is_some());
        // With RD, as resolvers of hosts send it: forwarded names need it.
        let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, has_subnet];
        message.extend(self.request.name.as_name().as_bytes());
        message.extend(self.request.rtype.0.to_be_bytes());
        message.extend([0, 1]);
        let end = message.len();
        if let Some(subnet) = &self.request.subnet {
            let (data, len) = subnet.response(0);
            message.extend([0]);
            message.extend(Rtype::OPT.0.to_be_bytes());
            message.extend(u16::MAX.to_be_bytes());
            message.extend([0; 4]);
            let lens = [4 + len, len].map(|len| (len as u16).to_be_bytes());
            message.extend(lens[0]);
            message.extend(CLIENT_SUBNET.to_be_bytes());
            message.extend(lens[1]);
            message.extend(&data[..len]);
        }
        (message, end)
    }

    /// Answers it as workers do, from this image. No client is refused, no rate is charged, and no
    /// upstream is asked.
    pub fn answer(&self, image: &Image, policy: Policy<'_>) -> ComposedAnswer {
        let (query, end) = self.message();
        let mut buf = vec![0; MESSAGE_LEN_MAX];
        buf[..query.len()].copy_from_slice(&query);
        let peer = SocketAddr::from((self.request.client, 53));
        let mut packet = Packet::new(&mut buf, query.len(), peer, Transport::Stream);
        let networks = policy.limits.as_ref().and_then(|limits| limits.networks);
        let wanted = self.request.location.as_deref();
        let wanted = wanted.map(|path| [Location::parse(path).unwrap_or_default()]);
        if wanted.is_some() {
            packet.context.location = LocationNumber(1);
        }
        let placed: Vec<Network> = networks.map_or_else(Vec::new, |networks| {
            let number = |network: &Network| match wanted {
                Some(_) => LocationNumber(1),
                None => network.location,
            };
            let all = networks.networks.iter();
            all.map(|network| Network { location: number(network), ..*network }).collect()
        });
        let placed = networks.map(|networks| ClientNetworks { networks: &placed, ..networks });
        let limits = Some(Limits { networks: placed, ..Limits::default() });
        let locations = wanted.as_ref().map_or(policy.locations, |wanted| &wanted[..]);
        let policy = Policy { limits, locations, ..policy };
        let now = Now { unix_seconds: 0, monotonic_micros: 1, seed: self.seed };
        let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
        let (mut packets, mut observer) = ([packet], UpstreamObserver::default());
        batch(image, &policy, now, &mut observer, &mut scratch, &mut packets, &mut counts);
        let (network, view) = (packets[0].network, packets[0].context.view);
        let reply = match &observer.0 {
            Some(_) => &[0; 12][..],
            None => packets[0].message(),
        };
        let [answers, others @ ..] = [6, 8, 10].map(|at| count(reply, at));
        let all = Records::new(reply, end, answers + others.iter().sum::<usize>());
        let all: Vec<Record<'_>> = all.map_while(Result::ok).collect();
        let mut room = vec![0; MESSAGE_LEN_MAX];
        let records = all.iter().take(answers).filter_map(|record| {
            let data = record.expand(&mut room).ok()?;
            Some((record.owner().ok()?, record.rtype, record.ttl, data.into()))
        });
        let records = records.collect();
        let trusts = networks.is_some_and(|all| all.trust.lists(self.request.client));
        let options = all.iter().find(|record| record.rtype == Rtype::OPT).map(Record::data);
        let subnet = self.request.subnet.map(|_| (trusts, options.and_then(scope_of)));
        ComposedAnswer { network, view, asked: observer.0, rcode: reply[3] & 15, records, subnet }
    }

    /// The sets that an answer is from, and that of the name, if zones have them.
    pub fn sets(&self, image: &Image, answer: &ComposedAnswer) -> Vec<AnsweredSet> {
        let mut names: Vec<(NameBuf, Rtype)> = Vec::new();
        let own = (self.request.name.clone(), self.request.rtype);
        let of_answer = answer.records.iter().map(|(name, rtype, ..)| (name.clone(), *rtype));
        for (name, rtype) in of_answer.chain([own]) {
            let is_new =
                |known: &(NameBuf, Rtype)| known.1 != rtype || known.0.as_name() != name.as_name();
            if names.iter().all(is_new) {
                names.push((name, rtype));
            }
        }
        let view = answer.view;
        names.into_iter().filter_map(|(name, rtype)| found_set(image, view, name, rtype)).collect()
    }

    /// The explanation, with what became of the members of each set.
    pub fn explain(
        self,
        image: &Image,
        answer: &ComposedAnswer,
        sets: &[(AnsweredSet, Option<JudgedSet>)],
        context: ExplainedContext,
    ) -> Explanation {
        let ExplainedContext { place, rule, forward } = context;
        let location = place.location();
        let denied = rule.is_some_and(|rule| rule.is_denied);
        let explained = sets.iter().filter_map(|(set, judged)| {
            // A set of a denied name, or that was changed meanwhile, says nothing of the answer.
            let is_it = |judged: &&JudgedSet| !denied && is_from(set, judged, answer);
            let judged = judged.as_ref().filter(is_it)?;
            let view = place.view.clone().filter(|_| set.is_own());
            Some(ExplainedSet { view, ..explained_set(set, judged, answer, location) })
        });
        let records = answer.records.iter().map(|(name, rtype, ttl, data)| AnsweredRecord {
            name: name.to_string(),
            rtype: rtype.to_string(),
            ttl: *ttl,
            data: zonefile::data_text(*rtype, data),
        });
        let ExplainRequest { name, rtype, client, subnet, .. } = self.request;
        let explained_subnet = subnet.zip(answer.subnet).map(|(subnet, (is_trusted, scope))| {
            let ClientSubnet { address, source_len } = subnet;
            ExplainedSubnet { subnet: format!("{address}/{source_len}"), is_trusted, scope }
        });
        Explanation {
            sets: explained.collect(),
            answer: records.collect(),
            zone: zone_of(image, name.as_name()).map(|zone| zone.origin().to_string()),
            rcode: answer.asked.is_none().then(|| rcode_name(answer.rcode)),
            denied,
            rule: rule.map(|rule| rule_text(name.as_name(), rule)),
            name: name.to_string(),
            rtype: rtype.to_string(),
            client,
            subnet: explained_subnet,
            network: place.network,
            view: place.view,
            location: place.location,
            forward,
        }
    }
}

fn count(message: &[u8], at: usize) -> usize {
    u16::from_be_bytes([message[at], message[at + 1]]).into()
}

/// The scope of the client subnet option among those of a reply.
fn scope_of(mut options: &[u8]) -> Option<u8> {
    while let [c0, c1, l0, l1, rest @ ..] = options {
        let (data, behind) = rest.split_at_checked(u16::from_be_bytes([*l0, *l1]).into())?;
        if u16::from_be_bytes([*c0, *c1]) == CLIENT_SUBNET {
            return data.get(3).copied();
        }
        options = behind;
    }
    None
}

/// `deny *.ads.example.`
fn rule_text(name: Name<'_>, rule: NameRule) -> String {
    let word = if rule.is_denied { "deny" } else { "allow" };
    let above = std::iter::successors(Some(name), |name| name.parent());
    let labels = |name: &Name<'_>| name.labels().count() == rule.labels;
    match above.into_iter().find(labels) {
        Some(suffix) if rule.is_below && suffix == Name::ROOT => format!("{word} *"),
        Some(suffix) if rule.is_below => format!("{word} *.{suffix}"),
        suffix => format!("{word} {}", suffix.unwrap_or(name)),
    }
}

fn rcode_name(rcode: u8) -> String {
    let known = Rcode::ALL.into_iter().find(|known| *known as u16 == u16::from(rcode));
    known.map_or_else(|| format!("RCODE{rcode}"), |known| known.name().to_owned())
}

/// The zone with the longest origin of a name.
fn zone_of(image: &Image, name: Name<'_>) -> Option<Arc<Zone>> {
    let mut query_name = QName::new();
    query_name.set(name);
    let zones: &dyn ZoneTable = image;
    let routed = zones.route(View::DEFAULT, &query_name, false)?;
    image.zone(routed.zone.origin()).cloned()
}

/// The set of a name, or of the wildcard that stands for it, that clients of a view get.
fn found_set(image: &Image, view: View, name: NameBuf, rtype: Rtype) -> Option<AnsweredSet> {
    let zone = zone_of(image, name.as_name())?;
    let relative = zone.relative(name.as_name())?;
    let exists = |name: &[u8]| zone.node_in(view, name).is_some();
    let mut owner = Some(name.clone()).filter(|_| exists(&relative));
    let mut rest = &relative[..];
    while let (None, [len, behind @ ..]) = (&owner, rest) {
        rest = behind.get(usize::from(*len)..)?;
        let wildcard = [b"\x01*", rest].concat();
        if exists(&wildcard) {
            owner = NameBuf::joined(&wildcard, zone.origin()).ok();
        }
    }
    let owner = owner?;
    zone.node_in(view, &zone.relative(owner.as_name())?)?.set(rtype)?;
    Some(AnsweredSet { zone: Arc::clone(&zone), view, owner, rtype, name })
}

/// Whether all records that an answer has of a set are members of it.
fn is_from(set: &AnsweredSet, judged: &JudgedSet, answer: &ComposedAnswer) -> bool {
    let is_member = |data: &[u8]| judged.members.iter().any(|member| *member.data == *data);
    answered(set, answer).all(is_member)
}

/// The data of the records that an answer has of a set.
fn answered<'a>(
    set: &'a AnsweredSet,
    answer: &'a ComposedAnswer,
) -> impl Iterator<Item = &'a [u8]> {
    let of_set = |(name, rtype, _, _): &&(NameBuf, Rtype, u32, Box<[u8]>)| {
        *rtype == set.rtype && name.as_name() == set.name.as_name()
    };
    answer.records.iter().filter(of_set).map(|(.., data)| &**data)
}

fn explained_set(
    set: &AnsweredSet,
    judged: &JudgedSet,
    answer: &ComposedAnswer,
    location: Location,
) -> ExplainedSet {
    let has = |data: &[u8]| answered(set, answer).any(|found| *found == *data);
    let far = far_records(set, location);
    let left = |member: &&JudgedMember| member.left_out.is_none() && !far.contains(&member.data);
    let is_weighted = judged.members.iter().filter(left).any(|member| member.rules.weight > 0);
    let members = judged.members.iter().map(|member| {
        let dropped = match member.left_out {
            _ if has(&member.data) => None,
            Some(LeftOut::State) => Some("state"),
            Some(LeftOut::Tier) => Some("tier"),
            Some(LeftOut::Weight) => Some("weight"),
            None if far.contains(&member.data) => Some("location"),
            None if is_weighted && member.rules.weight == 0 => Some("weight"),
            None => Some("max"),
        };
        ExplainedMember {
            data: zonefile::data_text(set.rtype, &member.data),
            state: member.class.map(|class| state_word(class).to_owned()),
            tier: member.rules.tier,
            weight: member.rules.weight,
            ramp: member.stored.ramp.map(|ramp| ExplainedRamp {
                from: ramp.from.unwrap_or_default(),
                to: member.stored.weight,
                start_seconds: ramp.start(),
                end_seconds: ramp.end(),
            }),
            location: Some(String::from(&*member.rules.location)).filter(|path| !path.is_empty()),
            dropped: dropped.map(str::to_owned),
        }
    });
    let rules = &judged.rules;
    let order = ORDERS.into_iter().find(|(order, _)| *order == rules.order());
    ExplainedSet {
        view: None,
        alias: judged.alias.as_ref().map(ToString::to_string),
        name: set.owner.to_string(),
        rtype: set.rtype.to_string(),
        policy: rules.choice.word().to_owned(),
        order: order.map_or_else(String::new, |(_, word)| word.to_owned()),
        max: Some(rules.bound()).filter(|max| *max > 0),
        members: members.collect(),
    }
}

const fn state_word(class: MemberClass) -> &'static str {
    match class {
        MemberClass::Up => "up",
        MemberClass::Unknown => "unknown",
        MemberClass::DownOnceUp | MemberClass::Down => "down",
        MemberClass::Drained => "drained",
    }
}

/// The records of a set that are farther from a location than others.
fn far_records(set: &AnsweredSet, location: Location) -> Vec<Box<[u8]>> {
    let relative = set.zone.relative(set.owner.as_name());
    let node = relative.as_ref().and_then(|name| set.zone.node_in(set.view, name));
    let found = node.and_then(|node| node.set(set.rtype));
    let Some((records, selection)) = found.and_then(|set| Some((set, set.selection()?))) else {
        return Vec::new();
    };
    let near = nearest(&selection, location, records.count());
    let numbered = records.records().enumerate();
    numbered.filter(|(number, _)| !near.contains(number)).map(|(_, data)| data.into()).collect()
}

#[cfg(test)]
mod tests;
