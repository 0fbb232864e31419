//! The handler of one thread: its readers of the snapshot and the settings, its memory, its
//! upstream client.
use crate::control::{self, ControlQueue, ControlReceiver};
use crate::limits::NETWORK_SLOTS;
use crate::panic_report::OnPanic;
use crate::{Forwarding, NetworkList, OwnQuery, Settings};
use answer::{
    AnswerCounts, ControlAnswer, NOTIFY_NAMES, NoForwarding, Now, Policy, Resolver, Scratch,
    TYPE_NAMES,
};
use image::{Forwards, ZoneTable};
use limit::Acl;
use packet::{DropReason, Packet, Transport, Verdict, proxy};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sync::{Counters, CountersView, Reader};
use tap::QueryTap;
use upstream::{CommandSender, PeerShards, StatusView, UpstreamClient};
use wire::Rcode;
use wire::limits::UDP_LEN_MIN;
use worker::{ConnectionSink, HandedConnection, catch_panic};

/// Counters: responses by rcode, then by type, then those with TC set; then NOTIFY messages by what
/// became of them, panics, and answers to queries of the server itself, in its loop and through its
/// announced addresses.
pub const COUNTERS: usize = PROBE_ANSWERS + 1;
/// The index of the first counter by type.
pub const FIRST_TYPE: usize = Rcode::ALL.len();
/// The index of the counter of responses with TC set.
pub const TRUNCATED: usize = FIRST_TYPE + TYPE_NAMES.len();
/// The index of the first counter of NOTIFY messages.
pub const FIRST_NOTIFY: usize = TRUNCATED + 1;
/// The index of the counter of panics.
pub const PANICS: usize = FIRST_NOTIFY + NOTIFY_NAMES.len();
/// The index of the counter of answers to queries of the server itself.
pub const SELF_ANSWERS: usize = PANICS + 1;
/// The index of the counter of answers to queries of the server itself through announced addresses.
pub const PROBE_ANSWERS: usize = SELF_ANSWERS + 1;

/// The response codes that fit the header, by which replies to networks are counted.
pub const NETWORK_RCODES: [Rcode; 11] = [
    Rcode::NoError,
    Rcode::FormErr,
    Rcode::ServFail,
    Rcode::NxDomain,
    Rcode::NotImp,
    Rcode::Refused,
    Rcode::YxDomain,
    Rcode::YxRrset,
    Rcode::NxRrset,
    Rcode::NotAuth,
    Rcode::NotZone,
];
/// Counters of replies by network: for each slot one of each code.
pub const NETWORK_COUNTERS: usize = NETWORK_SLOTS * NETWORK_RCODES.len();

/// `id.server. CH TXT` (RFC 4892), which is answered or refused without any zone.
const SELF_QUERY: &[u8] = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x02id\x06server\0\0\x10\0\x03";

/// Answers bursts from the newest snapshot.
pub struct Answerer<Z> {
    /// `None`: nothing was forwarded at the start.
    pub(crate) client: Option<UpstreamClient>,
    /// `None`: what a handler has to decide is dropped.
    control: Option<ControlQueue>,
    /// `None`: no connection is passed on.
    transfers: Option<ConnectionSink>,
    pub(crate) local: LocalAnswers<Z>,
}

/// The part of the handler that needs no upstream.
pub(crate) struct LocalAnswers<Z> {
    image: Reader<Z>,
    pub(crate) settings: Reader<Settings>,
    pub(crate) tap: QueryTap,
    pub(crate) scratch: Box<Scratch>,
    seed: u64,
    pub(crate) counters: Counters<COUNTERS>,
    by_network: Counters<NETWORK_COUNTERS>,
    /// The counts of the burst that is answered now.
    pub(crate) totals: AnswerCounts,
    pub(crate) on_panic: OnPanic,
}

/// Why packets are answered now.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Occasion {
    /// They came in.
    Arrival,
    /// The burst that they came in panicked.
    Retry,
    /// Their upstream has answered.
    Deferred,
}

impl<Z: ZoneTable> Answerer<Z> {
    /// The handler of one thread. `seed` must come from a secure source: numbers made from it
    /// choose the upstream.
    ///
    /// # Errors
    /// Names are forwarded, and the process has no file descriptor left.
    pub fn new(
        image: Reader<Z>,
        mut settings: Reader<Settings>,
        tap: QueryTap,
        seed: u64,
    ) -> io::Result<Self> {
        let (scratch, counters, by_network) = (Box::default(), Counters::new(), Counters::new());
        let client = settings.refresh().forwarding.as_ref().map(Forwarding::client).transpose()?;
        settings.park();
        let (totals, on_panic) = (AnswerCounts::default(), OnPanic::default());
        let local = LocalAnswers {
            image,
            settings,
            tap,
            scratch,
            seed,
            counters,
            by_network,
            totals,
            on_panic,
        };
        Ok(Self { client, control: None, transfers: None, local })
    }

    /// The counters of this thread.
    pub fn counters(&self) -> CountersView<COUNTERS> {
        self.local.counters.view()
    }

    /// The counters of replies by network.
    pub fn by_network(&self) -> CountersView<NETWORK_COUNTERS> {
        self.local.by_network.view()
    }

    /// Opens the upstream client's command channel; `None` where nothing is forwarded.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn command(&mut self) -> io::Result<Option<CommandSender>> {
        self.client.as_mut().map(UpstreamClient::command).transpose()
    }

    /// Opens the rings to a handler outside the data plane, which is woken by `handler`. Before the
    /// thread starts, and once.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn control(&mut self, handler: Arc<OwnedFd>) -> io::Result<ControlReceiver> {
        let (queue, receiver) = ControlQueue::new(handler)?;
        if let Some(client) = &self.client {
            client.watch(&queue)?;
        }
        self.control = Some(queue);
        Ok(receiver)
    }

    /// Has connections that ask for transfers passed on.
    pub fn pass_connections_to(&mut self, transfers: ConnectionSink) {
        self.transfers = Some(transfers);
    }

    /// Has panics reported, of which the counters have only the number.
    pub fn report_panics(&mut self, on_panic: OnPanic) {
        self.local.on_panic = on_panic;
    }

    /// Joins the threads that share forwarded names. No effect where nothing is forwarded.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn join(&mut self, peers: PeerShards) -> io::Result<()> {
        self.client.as_mut().map_or(Ok(()), |client| client.join_peers(peers))
    }

    /// The counters of the upstream client; `None` where nothing is forwarded.
    pub fn forwarded(&self) -> Option<StatusView> {
        self.client.as_ref().map(UpstreamClient::view)
    }
}

impl<Z: ZoneTable> LocalAnswers<Z> {
    /// Answers packets. Returns whether any are for a handler outside the data plane.
    fn answer(
        &mut self,
        packets: &mut [Packet<'_>],
        monotonic: Duration,
        client: Option<&mut UpstreamClient>,
        occasion: Occasion,
    ) -> bool {
        let (now, unix) = self.now(monotonic);
        let zones = self.image.refresh();
        let settings = self.settings.refresh();
        if let Some(own) = &settings.own_query
            && occasion != Occasion::Deferred
            && packets.iter().any(|packet| own.is(packet))
        {
            let own = own.clone();
            return self.answer_apart(&own, packets, monotonic, client, occasion);
        }
        let (forwards, resolver): (Forwards<'_>, &mut dyn Resolver) =
            match (client, &settings.forwarding) {
                (Some(client), Some(forwarding)) => {
                    client.follow(forwarding.plan());
                    (forwarding.rules(), client)
                }
                _ => (Forwards::default(), &mut NoForwarding),
            };
        let mut policy = Policy { forwards, ..settings.policy() };
        if occasion == Occasion::Deferred
            && let Some(limits) = &mut policy.limits
        {
            // Admission was decided when the query came, with its view and its location.
            (limits.access, limits.clients) = (Acl::ALL, None);
            limits.networks.iter_mut().for_each(|networks| networks.placed = true);
        }
        let Self { scratch, totals, .. } = self;
        let mut answer = |packets: &mut [Packet<'_>]| {
            answer::batch(zones, &policy, now, resolver, scratch, packets, totals);
        };
        if occasion != Occasion::Arrival || settings.proxies.is_empty() {
            self.tap.begin(packets, unix, monotonic);
            answer(packets);
        } else {
            strip_headers(packets, settings);
            self.tap.begin(packets, unix, monotonic);
            packets.split_mut(is_dropped).for_each(answer);
        }
        if !settings.networks.has_none() {
            count_networks(&settings.networks, packets, &mut self.by_network);
        }
        self.tap.end(packets);
        let passed_on = self.totals.passed_on;
        self.count();
        passed_on > 0
    }

    /// Answers packets with queries of the server itself among them. Returns whether any are for a
    /// handler outside the data plane.
    #[cold]
    fn answer_apart(
        &mut self,
        own: &OwnQuery,
        packets: &mut [Packet<'_>],
        monotonic: Duration,
        mut client: Option<&mut UpstreamClient>,
        occasion: Occasion,
    ) -> bool {
        let mut met_control = false;
        for run in packets.chunk_by_mut(|one, next| own.is(one) == own.is(next)) {
            if own.is(&run[0]) {
                self.answer_own(run, monotonic, Some(own));
                self.counters.add(PROBE_ANSWERS, run.len() as u64);
            } else {
                met_control |= self.answer(run, monotonic, client.as_deref_mut(), occasion);
            }
        }
        met_control
    }

    /// Answers a packet whose upstream has answered. If that panics, it gets SERVFAIL.
    fn answer_deferred(
        &mut self,
        packet: &mut Packet<'_>,
        monotonic: Duration,
        client: &mut UpstreamClient,
    ) {
        let packets = slice::from_mut(packet);
        let answer = || self.answer(packets, monotonic, Some(client), Occasion::Deferred);
        if let Err(panic) = catch_panic(answer) {
            self.fail(packet, &panic);
        }
    }

    /// Answers a packet that a handler outside the data plane has decided.
    fn answer_control(
        &mut self,
        packet: &mut Packet<'_>,
        answer: ControlAnswer<&[u8]>,
        monotonic: Duration,
    ) {
        let answered = catch_panic(|| {
            let (now, unix) = self.now(monotonic);
            let policy = self.settings.refresh().policy();
            let packets = slice::from_mut(packet);
            self.tap.begin(packets, unix, monotonic);
            let (packet, totals) = (&mut packets[0], &mut self.totals);
            answer::answer_control(&policy, now, &mut self.scratch, packet, answer, totals);
            self.tap.end(packets);
            self.count();
        });
        if let Err(panic) = answered {
            self.fail(packet, &panic);
        }
    }

    /// Answers queries of the server itself: with the snapshot, the settings and the memory of all
    /// queries, beside access lists, limits, samples and counters. `own`: with its token.
    fn answer_own(
        &mut self,
        packets: &mut [Packet<'_>],
        monotonic: Duration,
        own: Option<&OwnQuery>,
    ) -> AnswerCounts {
        let (now, _) = self.now(monotonic);
        let (zones, settings) = (self.image.refresh(), self.settings.refresh());
        let mut policy = Policy { limits: None, ..settings.policy() };
        if let Some(own) = own {
            policy.id = own.token();
        }
        let (resolver, mut counts) = (&mut NoForwarding, AnswerCounts::default());
        answer::batch(zones, &policy, now, resolver, &mut self.scratch, packets, &mut counts);
        counts
    }

    /// Answers a query of the server itself in the loop of its thread. Returns whether it was
    /// answered.
    fn answer_self(&mut self, monotonic: Duration) -> bool {
        let mut buf = [0; UDP_LEN_MIN];
        buf[..SELF_QUERY.len()].copy_from_slice(SELF_QUERY);
        let peer = (Ipv4Addr::LOCALHOST, 0).into();
        let mut packet = Packet::new(&mut buf, SELF_QUERY.len(), peer, Transport::Datagram);
        let counts = self.answer_own(slice::from_mut(&mut packet), monotonic, None);
        let is_failure = counts.rcodes[Rcode::ServFail.index()] > 0;
        packet.verdict == Verdict::Reply && !is_failure
    }

    /// The time of a burst with a new random number, and the time since 1970.
    fn now(&mut self, monotonic: Duration) -> (Now, Duration) {
        // Weyl's sequence takes each value once; the reader mixes it.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Now {
            // RFC 9018 §4.3 counts seconds modulo 2^32.
            unix_seconds: unix.as_secs() as u32,
            monotonic_micros: monotonic.as_micros() as u64,
            seed: self.seed,
        };
        (now, unix)
    }

    /// Adds the counts of the burst, and begins new ones.
    pub(crate) fn count(&mut self) {
        let Self { totals, counters, .. } = self;
        let AnswerCounts { rcodes, types, truncated, notifies, passed_on: _ } = &*totals;
        let counts = rcodes.iter().chain(types).chain([truncated]).chain(notifies);
        for (index, count) in counts.enumerate().filter(|(_, count)| **count > 0) {
            counters.add(index, (*count).into());
        }
        *totals = AnswerCounts::default();
    }
}

impl<Z: ZoneTable + Send> Answerer<Z> {
    /// Answers packets, and sends queries to upstreams. Returns whether any are for a handler
    /// outside the data plane.
    pub(crate) fn answer(
        &mut self,
        packets: &mut [Packet<'_>],
        now: Duration,
        occasion: Occasion,
    ) -> bool {
        let Some(client) = &mut self.client else {
            return self.local.answer(packets, now, None, occasion);
        };
        client.begin(now);
        let met_control = self.local.answer(packets, now, Some(client), occasion);
        client.flush();
        met_control
    }

    fn poll_all(&mut self, now: Duration, send: &mut dyn FnMut(&Packet<'_>, Duration)) {
        let Self { client, control, local, .. } = self;
        if let Some(control) = control {
            let is_queried = control.take_answers(|packet, answer, since| {
                local.answer_control(packet, answer, now);
                send(packet, now.saturating_sub(since));
            });
            if is_queried && local.answer_self(now) {
                local.counters.add(SELF_ANSWERS, 1);
            }
        }
        let Some(client) = client else { return };
        if let Some(forwarding) = &local.settings.refresh().forwarding {
            client.follow(forwarding.plan());
        }
        let tended = client.poll_deferred(now, &mut |client, packet, since| {
            local.answer_deferred(packet, now, client);
            if packet.verdict != Verdict::Deferred {
                send(packet, now.saturating_sub(since));
            }
        });
        // Polling fails only for a descriptor that is not an epoll.
        debug_assert!(tended.is_ok(), "{tended:?}");
    }
}

impl<Z: ZoneTable + Send> worker::App for Answerer<Z> {
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration) {
        let answered = catch_panic(|| self.answer(packets, now, Occasion::Arrival));
        let met_control = match answered {
            Ok(met_control) => met_control,
            Err(panic) => self.answer_again(packets, now, &panic),
        };
        if met_control {
            control::pass_on(self.control.as_mut(), packets, now);
        }
    }

    fn park(&mut self) {
        self.local.image.park();
        self.local.settings.park();
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        // The upstream client watches the control queue, too.
        let control = self.control.as_ref().map(AsFd::as_fd);
        self.client.as_ref().map(AsFd::as_fd).or(control)
    }

    fn poll_deferred(&mut self, now: Duration, send: &mut dyn FnMut(&Packet<'_>, Duration)) {
        if let Err(panic) = catch_panic(|| self.poll_all(now, send)) {
            self.local.report(None, &panic);
        }
        self.restart_suspect();
    }

    fn take_connection(&mut self, connection: HandedConnection) {
        if let Some(transfers) = &self.transfers {
            transfers(connection);
        }
    }

    fn has_deferred(&self) -> bool {
        self.client.as_ref().is_some_and(UpstreamClient::has_deferred)
            || self.control.as_ref().is_some_and(ControlQueue::has_pending)
    }
}

/// Counts replies by the network of the client.
fn count_networks(
    networks: &NetworkList,
    packets: &[Packet<'_>],
    counters: &mut Counters<NETWORK_COUNTERS>,
) {
    for packet in packets.iter().filter(|packet| packet.verdict == Verdict::Reply) {
        let code = packet.message().get(3).map_or(0, |flags| flags & 0xf);
        let is_same = |rcode: &Rcode| *rcode as u8 == code;
        if let Some(index) = NETWORK_RCODES.iter().position(is_same) {
            counters.add(networks.slot(packet.network) * NETWORK_RCODES.len() + index, 1);
        }
    }
}

/// Removes PROXY headers from datagrams. A stream has one header, at its beginning.
fn strip_headers(packets: &mut [Packet<'_>], settings: &Settings) {
    let is_datagram = |packet: &&mut Packet<'_>| packet.context.transport == Transport::Datagram;
    // Until its header is read, a packet must not be answered: its client is not known.
    for packet in packets.iter_mut().filter(is_datagram) {
        packet.verdict = Verdict::Drop(DropReason::ProxyHeader);
    }
    for packet in packets.iter_mut().filter(is_datagram) {
        if proxy::strip(packet, |peer| settings.proxies.lists(peer)) {
            packet.verdict = Verdict::Drop(DropReason::Undecided);
        }
    }
}

/// Whether a packet was dropped for its PROXY header: malformed, missing, or with a refused client.
fn is_dropped(packet: &Packet<'_>) -> bool {
    matches!(packet.verdict, Verdict::Drop(DropReason::ProxyHeader | DropReason::SourcePort))
}
