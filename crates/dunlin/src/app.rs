//! What answers on one thread: its view of the image and of the settings, its memory, its dice.
use crate::abroad::Abroad;
use crate::settings::Settings;
use answer::{Elsewhere, Now, Nowhere, Policy, Scratch, TYPE_NAMES, Tally};
use compile::Image;
use door::{Counters, CountersView, Reader};
use image::Forwards;
use limit::Acl;
use packet::{Drop, Packet, Transport, Verdict, proxy};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::slice;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tap::Tap;
use upstream::{Asker, Commander, Neighbours, View};
use wire::Rcode;

/// Replies by rcode, behind them those by type, and last those with TC set.
pub const COUNTERS: usize = TRUNCATED + 1;
/// Where types begin among the counters.
pub const FIRST_TYPE: usize = Rcode::ALL.len();
/// Where replies with TC set are counted.
pub const TRUNCATED: usize = FIRST_TYPE + TYPE_NAMES.len();

/// Answers bursts from the newest image.
pub struct Answerer {
    /// Names of others, and who asks about them.
    abroad: Option<(Abroad, Asker)>,
    clerk: Clerk,
}

/// What answers, but for who asks others.
struct Clerk {
    image: Reader<Image>,
    settings: Reader<Settings>,
    tap: Tap,
    scratch: Box<Scratch>,
    seed: u64,
    counters: Counters<COUNTERS>,
}

impl Answerer {
    /// `seed` must come from a good source: what is dealt from it decides who is asked first.
    ///
    /// # Errors
    /// Others are to be asked, and the process has no file descriptor left.
    pub fn new(
        image: Reader<Image>,
        settings: Reader<Settings>,
        tap: Tap,
        seed: u64,
        abroad: Option<&Abroad>,
    ) -> io::Result<Self> {
        let (scratch, counters) = (Box::default(), Counters::new());
        let abroad = abroad.map(|abroad| Ok::<_, io::Error>((abroad.clone(), abroad.asker()?)));
        let clerk = Clerk { image, settings, tap, scratch, seed, counters };
        Ok(Self { abroad: abroad.transpose()?, clerk })
    }

    /// What it counts.
    pub fn counters(&self) -> CountersView<COUNTERS> {
        self.clerk.counters.view()
    }

    /// Has it do what it is told from now on; nothing where nobody else is asked, so that there is
    /// nothing to tell it.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn command(&mut self) -> io::Result<Option<Commander>> {
        self.abroad.as_mut().map(|(_, asker)| asker.command()).transpose()
    }

    /// Has it leave names of others to neighbours, and be a home to theirs; nothing where nobody
    /// else is asked.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn meet(&mut self, neighbours: Neighbours) -> io::Result<()> {
        self.abroad.as_mut().map_or(Ok(()), |(_, asker)| asker.meet(neighbours))
    }

    /// What it counts of others; nothing where they are not asked.
    pub fn others(&self) -> Option<View> {
        self.abroad.as_ref().map(|(_, asker)| asker.view())
    }
}

impl Clerk {
    /// Answers packets as they came in, or, `late`, those whose replies were put off.
    fn answer(
        &mut self,
        packets: &mut [Packet<'_>],
        monotonic: Duration,
        (forwards, elsewhere): (Forwards<'_>, &mut dyn Elsewhere),
        late: bool,
    ) {
        // Weyl's sequence: every number once; what is dealt from it is mixed by who takes it.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Now {
            // RFC 9018 §4.3 counts seconds modulo 2^32.
            unix_seconds: unix.as_secs() as u32,
            monotonic_micros: monotonic.as_micros() as u64,
            seed: self.seed,
        };
        let world = self.image.refresh();
        let settings = self.settings.refresh();
        let mut policy = Policy { forwards, ..settings.policy() };
        if late && let Some(limits) = &mut policy.limits {
            // They were let in when they came.
            (limits.access, limits.clients) = (Acl::EVERYBODY, None);
        }
        let mut tally = Tally::default();
        let scratch = &mut self.scratch;
        let mut answer = |packets: &mut [Packet<'_>]| {
            answer::batch(world, &policy, now, elsewhere, scratch, packets, &mut tally);
        };
        if late || settings.proxies.is_empty() {
            self.tap.begin(packets, unix, monotonic);
            answer(packets);
        } else {
            strip_headers(packets, settings);
            self.tap.begin(packets, unix, monotonic);
            packets.split_mut(is_stripped_in_vain).for_each(answer);
        }
        self.tap.end(packets);
        let counts = tally.rcodes.into_iter().chain(tally.types).chain([tally.truncated]);
        for (index, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
            self.counters.add(index, count.into());
        }
    }
}

impl plane::App for Answerer {
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration) {
        let from: (Forwards<'_>, &mut dyn Elsewhere) = match &mut self.abroad {
            None => (Forwards::default(), &mut Nowhere),
            Some((abroad, asker)) => {
                asker.begin(now);
                (abroad.forwards(), asker)
            }
        };
        self.clerk.answer(packets, now, from, false);
        if let Some((_, asker)) = &mut self.abroad {
            asker.flush();
        }
    }

    fn park(&mut self) {
        self.clerk.image.park();
        self.clerk.settings.park();
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.abroad.as_ref().map(|(_, asker)| asker.as_fd())
    }

    fn tend(&mut self, now: Duration, send: &mut dyn FnMut(&Packet<'_>, Duration)) {
        let Some((abroad, asker)) = &mut self.abroad else { return };
        let clerk = &mut self.clerk;
        let forwards = abroad.forwards();
        let tended = asker.tend(now, &mut |asker, packet, since| {
            clerk.answer(slice::from_mut(packet), now, (forwards, asker), true);
            if packet.verdict != Verdict::Later {
                send(packet, now.saturating_sub(since));
            }
        });
        // Only an epoll that is none says no, and this one is.
        debug_assert!(tended.is_ok(), "{tended:?}");
    }

    fn owes(&self) -> bool {
        self.abroad.as_ref().is_some_and(|(_, asker)| asker.owes())
    }
}

/// Takes the headers of proxies off datagrams. Streams have theirs once, at their beginning.
fn strip_headers(packets: &mut [Packet<'_>], settings: &Settings) {
    for packet in packets.iter_mut().filter(|packet| packet.transport == Transport::Datagram) {
        proxy::strip(packet, |peer| settings.proxies.lists(peer));
    }
}

/// Whether a proxy's header was broken or missing: there is nothing to answer.
fn is_stripped_in_vain(packet: &Packet<'_>) -> bool {
    packet.verdict == Verdict::Drop(Drop::ProxyHeader)
}
