//! One run: queries go to the subject and to each peer, and what differs without a reason is
//! kept.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Result;
use crate::client::{self, Replies};
use crate::comparison::{Difference, Response, compare, faults_of_cut};
use crate::limits::{BATCH, EXAMPLES_MAX, KINDS_MAX, Patience, RECORD_CHARS_MAX, RECORDS_MAX};
use crate::packet::QueryPacket;
use crate::queries::Query;
use crate::reasons::Reason;
use crate::reply::Reply;
use crate::server::{Server, Software};
use crate::world::World;

/// How the packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram each.
    Udp,
    /// One stream for all.
    Tcp,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Queries asked.
    pub queries: usize,
    /// Queries in which all servers agreed in everything.
    pub agreed: usize,
    /// How many of them some server truncated, and were asked over TCP too.
    pub truncated: usize,
    /// How often each reason was needed.
    pub reasons: BTreeMap<String, usize>,
    /// Kinds of differences without a reason: how many, and examples.
    pub unexplained: BTreeMap<String, (usize, Vec<String>)>,
}

/// The subject's reply to a packet, and that of each peer.
type AllReplies = (Response, Vec<(Software, Response)>);

/// Tells what is wrong with a truncated reply, where the whole one shows it.
fn fault(cut: &mut Response, whole: &Response, room: usize) {
    match (cut, whole) {
        (Some(cut), Some(whole)) if cut.tc => {
            let faults = faults_of_cut(cut, whole, room);
            cut.faults.extend(faults);
        }
        (Some(cut), None) if cut.tc => cut.faults.push("cut, and not answered over TCP".into()),
        _ => {}
    }
}

/// What a peer and the subject say in ways of their own.
pub trait Dialect: std::fmt::Debug + Sync {
    /// Further tags of a query.
    fn tags(&self, query: &Query) -> Vec<&'static str>;
    /// Makes a reply comparable.
    fn adapt(&self, reply: &mut Reply);
}

/// The servers of one world.
#[derive(Debug)]
pub struct Arena<'a> {
    /// What they all serve.
    pub world: &'a World,
    /// Whose answers are judged.
    pub subject: Server,
    /// Who they are compared with.
    pub peers: Vec<Server>,
    /// What else holds of queries and replies.
    pub dialect: Option<&'a dyn Dialect>,
}

impl Arena<'_> {
    /// Asks all servers all `packets` and adds what differs to `findings`. What some server
    /// truncates is asked of all over TCP too: a truncated reply is held against the whole one.
    pub fn ask(
        &self,
        packets: &[QueryPacket],
        transport: Transport,
        patience: Patience,
        reasons: &[Reason],
        findings: &mut Findings,
    ) -> Result<()> {
        for packets in packets.chunks(BATCH) {
            let packets: Vec<_> = packets.iter().collect();
            let mut all = self.replies(&packets, transport, patience)?;
            if transport == Transport::Udp {
                let is_cut = |response: &Response| response.as_ref().is_some_and(|reply| reply.tc);
                let is_cut =
                    |all: &AllReplies| is_cut(&all.0) || all.1.iter().any(|p| is_cut(&p.1));
                let cut: Vec<_> = (0..all.len()).filter(|at| is_cut(&all[*at])).collect();
                let again: Vec<_> = cut.iter().map(|at| packets[*at]).collect();
                let whole = self.replies(&again, Transport::Tcp, patience)?;
                for (at, (ours, peers)) in cut.into_iter().zip(&whole) {
                    findings.truncated += 1;
                    fault(&mut all[at].0, ours, packets[at].query.room());
                    self.judge(packets[at], Transport::Tcp, ours, peers, reasons, findings);
                }
            }
            for (packet, (ours, peers)) in packets.into_iter().zip(&all) {
                self.judge(packet, transport, ours, peers, reasons, findings);
            }
        }
        Ok(())
    }

    /// The replies of all servers to each of `packets`.
    fn replies(
        &self,
        packets: &[&QueryPacket],
        transport: Transport,
        patience: Patience,
    ) -> Result<Vec<AllReplies>> {
        let bytes: Vec<_> = packets.iter().map(|packet| packet.bytes.clone()).collect();
        let mut replies = self.collect(&bytes, transport, patience)?;
        let all = packets.iter().enumerate().map(|(index, packet)| {
            let mut response = replies.iter_mut().map(|(software, replies)| {
                (*software, replies[index].take().map(|bytes| self.read(&bytes)))
            });
            let (_, mut ours) = response.next().expect("the subject is the first");
            let room = packet.query.room();
            match &mut ours {
                Some(reply) if transport == Transport::Udp && reply.length > room => {
                    reply.faults.push(format!("larger than the client's {room} bytes"));
                }
                _ => {}
            }
            (ours, response.collect())
        });
        Ok(all.collect())
    }

    fn read(&self, bytes: &[u8]) -> Reply {
        let mut reply = Reply::read(bytes);
        if let Some(dialect) = self.dialect {
            dialect.adapt(&mut reply);
        }
        reply
    }

    fn collect(
        &self,
        packets: &[Vec<u8>],
        transport: Transport,
        patience: Patience,
    ) -> Result<Vec<(Software, Replies)>> {
        std::thread::scope(|scope| {
            let servers = [&self.subject].into_iter().chain(&self.peers);
            let running: Vec<_> = servers
                .map(|server| {
                    let ask = move || match transport {
                        Transport::Udp => client::ask_udp(server.address, packets, patience),
                        Transport::Tcp => Ok(client::ask_tcp(server.address, packets, patience)),
                    };
                    (server.software, scope.spawn(ask))
                })
                .collect();
            let join = |(software, thread): (_, std::thread::ScopedJoinHandle<'_, _>)| {
                let replies: Result<Replies> = thread.join().map_err(|_| "a client panicked")?;
                Ok((software, replies?))
            };
            running.into_iter().map(join).collect()
        })
    }

    fn judge(
        &self,
        packet: &QueryPacket,
        transport: Transport,
        ours: &Response,
        peers: &[(Software, Response)],
        reasons: &[Reason],
        findings: &mut Findings,
    ) {
        let query = &packet.query;
        findings.queries += 1;
        let mut differences = compare(self.world, query, ours, peers);
        findings.agreed += differences.is_empty() as usize;
        let more = self.dialect.map(|dialect| dialect.tags(query)).unwrap_or_default();
        for difference in &mut differences {
            difference.tags.extend(&more);
            if transport == Transport::Tcp {
                difference.tags.insert("tcp");
            }
            let covering = reasons.iter().find(|reason| reason.covers(packet, difference));
            if let Some(reason) = covering {
                *findings.reasons.entry(reason.id.clone()).or_default() += 1;
                continue;
            }
            let kind = match packet.oddity {
                Some(oddity) => format!("{oddity}: {difference}"),
                None => difference.to_string(),
            };
            let (count, examples) = findings.unexplained.entry(kind).or_default();
            *count += 1;
            if examples.len() < EXAMPLES_MAX {
                examples.push(self.example(packet, difference, ours, peers));
            }
        }
    }

    /// The query as `dig` is asked it, the subject's reply and one peer's.
    fn example(
        &self,
        packet: &QueryPacket,
        difference: &Difference,
        ours: &Response,
        peers: &[(Software, Response)],
    ) -> String {
        let tags: Vec<_> = difference.tags.iter().copied().collect();
        let mut text = format!("dig {} ({})\n", packet.query, tags.join(" "));
        if let Some(oddity) = packet.oddity {
            let bytes: String = packet.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "  sent with {oddity}: {bytes}").unwrap();
        }
        let nothing = None;
        show(&mut text, self.subject.software, ours, &nothing);
        let mut alike = Vec::new();
        for (software, response) in peers {
            if compare(self.world, &packet.query, ours, &[(*software, response.clone())]).is_empty()
            {
                alike.push(software.name());
            } else {
                show(&mut text, *software, response, ours);
            }
        }
        if !alike.is_empty() {
            writeln!(text, "  alike: {}", alike.join(", ")).unwrap();
        }
        text
    }
}

/// The reply of a server, as far as it differs from `base`.
fn show(text: &mut String, software: Software, response: &Response, base: &Response) {
    let name = software.name();
    let Some(reply) = response else {
        writeln!(text, "  {name}: no reply").unwrap();
        return;
    };
    let none = Reply::default();
    let base = base.as_ref().unwrap_or(&none);
    let Reply { rcode, aa, tc, flags, length, faults, .. } = reply;
    write!(text, "  {name}: rcode {rcode} aa {aa} tc {tc} flags {flags:#06x}").unwrap();
    let edns = reply.opt.as_ref().map_or("no EDNS".into(), |opt| format!("{opt:?}"));
    writeln!(text, ", {length} bytes, {edns} {}", faults.join("; ")).unwrap();
    let sections = [
        ("answer", &reply.answer, &base.answer),
        ("authority", &reply.authority, &base.authority),
        ("additional", &reply.additional, &base.additional),
    ];
    for (section, records, base) in sections {
        let more = records.difference(base).map(|record| ('+', record));
        let less = base.difference(records).map(|record| ('-', record));
        for (sign, record) in more.chain(less).take(RECORDS_MAX) {
            let record: String = record.to_string().chars().take(RECORD_CHARS_MAX).collect();
            writeln!(text, "    {sign} {section} {record}").unwrap();
        }
    }
}

impl Findings {
    /// The whole report, most frequent kinds first.
    pub fn report(&self) -> String {
        let Self { queries, agreed, truncated, .. } = self;
        let mut text = format!("{queries} queries, all agreed on {agreed}; ");
        writeln!(text, "{truncated} were truncated and asked again over TCP").unwrap();
        for (id, count) in &self.reasons {
            writeln!(text, "  {count:7}  {id}").unwrap();
        }
        let mut kinds: Vec<_> = self.unexplained.iter().collect();
        kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        writeln!(text, "{} kinds of differences without a reason", kinds.len()).unwrap();
        for (kind, (count, examples)) in kinds.iter().take(KINDS_MAX) {
            writeln!(text, "\n{count} x {kind}").unwrap();
            examples.iter().for_each(|example| text.push_str(example));
        }
        text
    }
}
