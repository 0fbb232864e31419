//! Why a client gets an answer: the code that answers queries answers one, and the sets of the
//! answer say what became of their members.
use answer::choose::nearest;
use answer::{
    AnswerCounts, ClientNetworks, Limits, Network, NoForwarding, Now, Policy, Scratch, batch,
};
use compile::{Image, Zone};
use image::{Forwards, Location, ZoneTable};
use model::ORDERS;
use packet::{LocationNumber, Packet, Transport, View};
use server_status::explain::{
    AnsweredRecord, ExplainedMember, ExplainedRamp, ExplainedSet, Explanation,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wire::{Name, NameBuf, QName, Rcode, Records, Rtype};
use zone_manager::{JudgedSet, LeftOut, MemberClass};

/// Bytes of the longest message.
const MESSAGE_LEN_MAX: usize = 65_535;

/// A query to explain.
pub struct ExplainedQuery {
    pub name: NameBuf,
    pub rtype: Rtype,
    pub client: IpAddr,
    /// The name and the view of the client's network; `None`: it is in none, or in no view.
    pub network: Option<String>,
    pub view: Option<String>,
    /// The path of the client's location.
    pub location: Option<String>,
    /// What chooses by chance.
    pub seed: u64,
}

/// The answer to a query over a stream, which is not truncated.
pub struct ComposedAnswer {
    rcode: u8,
    /// The network of the client denies the name.
    is_denied: bool,
    records: Vec<(NameBuf, Rtype, u32, Box<[u8]>)>,
}

/// A set that the answer is from.
pub struct AnsweredSet {
    pub zone: Arc<Zone>,
    /// The owner in the zone: the name, or a wildcard.
    pub owner: NameBuf,
    pub rtype: Rtype,
    /// The owner in the answer.
    name: NameBuf,
}

impl ExplainedQuery {
    fn location(&self) -> Location {
        self.location.as_deref().and_then(|path| Location::parse(path).ok()).unwrap_or_default()
    }

    /// Answers it as workers do, from this image.
    pub fn answer(&self, image: &Image, policy: Policy<'_>) -> ComposedAnswer {
        let mut buf = vec![0; MESSAGE_LEN_MAX];
        let mut query = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(self.name.as_name().as_bytes());
        query.extend(self.rtype.0.to_be_bytes());
        query.extend([0, 1]);
        buf[..query.len()].copy_from_slice(&query);
        let peer = SocketAddr::from((self.client, 53));
        let mut packet = Packet::new(&mut buf, query.len(), peer, Transport::Stream);
        let locations = [self.location()];
        if self.location.is_some() {
            packet.context.location = LocationNumber(1);
        }
        let networks = policy.limits.as_ref().and_then(|limits| limits.networks);
        let placed: Vec<Network> = networks.map_or_else(Vec::new, |networks| {
            let all = networks.networks.iter();
            all.map(|network| Network { location: packet.context.location, ..*network }).collect()
        });
        let networks = networks.map(|networks| ClientNetworks { networks: &placed, ..networks });
        // No client is refused and no rate is charged, and nothing is forwarded.
        let limits = Some(Limits { networks, ..Limits::default() });
        let forwards = Forwards::default();
        let policy = Policy { limits, forwards, locations: &locations, ..policy };
        let now = Now { unix_seconds: 0, monotonic_micros: 1, seed: self.seed };
        let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
        let mut packets = [packet];
        batch(image, &policy, now, &mut NoForwarding, &mut scratch, &mut packets, &mut counts);
        let reply = packets[0].message();
        let count = u16::from_be_bytes([reply[6], reply[7]]);
        let mut room = vec![0; MESSAGE_LEN_MAX];
        let records = Records::new(reply, query.len(), count.into()).filter_map(|record| {
            let record = record.ok()?;
            let data = record.expand(&mut room).ok()?;
            Some((record.owner().ok()?, record.rtype, record.ttl, data.into()))
        });
        let (rcode, records) = (reply[3] & 15, records.collect());
        let is_denied = networks.is_some_and(|networks| self.is_denied(&networks));
        ComposedAnswer { rcode, is_denied, records }
    }

    fn is_denied(&self, networks: &ClientNetworks<'_>) -> bool {
        let mut name = QName::new();
        name.set(self.name.as_name());
        let number = networks.table.number(self.client);
        let denies = networks.networks.get(usize::from(number)).is_some_and(|found| found.denies);
        denies && networks.rules.deny(number, &name)
    }

    /// The sets that an answer is from, and that of the name, if zones have them.
    pub fn sets(&self, image: &Image, answer: &ComposedAnswer) -> Vec<AnsweredSet> {
        let mut names: Vec<(NameBuf, Rtype)> = Vec::new();
        let own = (self.name.clone(), self.rtype);
        let of_answer = answer.records.iter().map(|(name, rtype, ..)| (name.clone(), *rtype));
        for (name, rtype) in of_answer.chain([own]) {
            let is_new =
                |known: &(NameBuf, Rtype)| known.1 != rtype || known.0.as_name() != name.as_name();
            if names.iter().all(is_new) {
                names.push((name, rtype));
            }
        }
        names.into_iter().filter_map(|(name, rtype)| found_set(image, name, rtype)).collect()
    }

    /// The explanation. `judged`: what became of the members of each set.
    pub fn explain(
        self,
        image: &Image,
        answer: &ComposedAnswer,
        sets: &[(AnsweredSet, Option<JudgedSet>)],
    ) -> Explanation {
        let explained = sets.iter().filter_map(|(set, judged)| {
            // The zone's own set says nothing of an answer from that of a view.
            let judged = judged.as_ref().filter(|judged| is_from(set, judged, answer))?;
            Some(explained_set(set, judged, answer, self.location()))
        });
        let records = answer.records.iter().map(|(name, rtype, ttl, data)| AnsweredRecord {
            name: name.to_string(),
            rtype: rtype.to_string(),
            ttl: *ttl,
            data: zonefile::data_text(*rtype, data),
        });
        Explanation {
            sets: explained.collect(),
            answer: records.collect(),
            zone: zone_of(image, self.name.as_name()).map(|zone| zone.origin().to_string()),
            rcode: rcode_name(answer.rcode),
            name: self.name.to_string(),
            rtype: self.rtype.to_string(),
            client: self.client,
            network: self.network,
            view: self.view,
            location: self.location,
            denied: answer.is_denied,
        }
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

/// The set of a name or of the wildcard that stands for it.
fn found_set(image: &Image, name: NameBuf, rtype: Rtype) -> Option<AnsweredSet> {
    let zone = zone_of(image, name.as_name())?;
    let origin = zone.origin().len();
    let relative = &name.as_name().as_bytes()[..name.as_name().len().checked_sub(origin)?];
    let mut owner = Some(name.clone()).filter(|_| zone.names().get(relative).is_some());
    let mut rest = relative;
    while let (None, [len, behind @ ..]) = (&owner, rest) {
        rest = behind.get(usize::from(*len)..)?;
        let wildcard = [b"\x01*", rest].concat();
        if zone.names().get(&wildcard).is_some() {
            owner = NameBuf::joined(&wildcard, zone.origin()).ok();
        }
    }
    let owner = owner?;
    zone.set(owner.as_name(), rtype)?;
    Some(AnsweredSet { zone: Arc::clone(&zone), owner, rtype, name })
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
    let left = |member: &&zone_manager::JudgedMember| {
        member.left_out.is_none() && !far.contains(&member.data)
    };
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
    let found = set.zone.set(set.owner.as_name(), set.rtype);
    let Some((records, selection)) = found.and_then(|set| Some((set, set.selection()?))) else {
        return Vec::new();
    };
    let near = nearest(&selection, location, records.count());
    let numbered = records.records().enumerate();
    numbered.filter(|(number, _)| !near.contains(number)).map(|(_, data)| data.into()).collect()
}

#[cfg(test)]
mod tests;
