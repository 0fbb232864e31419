//! The handling of a burst, or of deferred queries, panics: that costs the query which met it, and
//! memory that may be half changed is replaced.
use crate::answerer::{Answerer, LocalAnswers, Occasion, PANICS};
use crate::panic_report::QueryPanic;
use answer::{Scratch, answer_panicked, cut_unsettled};
use image::ZoneTable;
use packet::{DropReason, Packet, Transport, Verdict};
use std::slice;
use std::time::Duration;
use upstream::UpstreamClient;
use wire::{HEADER_LEN, Name, Rtype};
use worker::catch_panic;

impl<Z: ZoneTable> LocalAnswers<Z> {
    /// Answers a packet with SERVFAIL because its handling panicked, and reports that.
    #[cold]
    pub(crate) fn fail(&mut self, packet: &mut Packet<'_>, panic: &str) {
        answer_panicked(&self.scratch, packet, &mut self.totals);
        self.report(Some(packet), panic);
    }

    /// Counts and reports a panic, and replaces the memory that it may have left half changed.
    #[cold]
    pub(crate) fn report(&mut self, packet: Option<&Packet<'_>>, panic: &str) {
        self.renew();
        self.counters.add(PANICS, 1);
        self.on_panic.call(&QueryPanic { panic, query: packet.and_then(describe) });
    }

    fn renew(&mut self) {
        *self.scratch = Scratch::new();
        self.tap.discard();
        self.count();
    }
}

impl<Z: ZoneTable + Send> Answerer<Z> {
    /// Answers the packets of a burst that panicked, one at a time. Returns whether any are for a
    /// handler outside the data plane.
    #[cold]
    pub(crate) fn answer_again(
        &mut self,
        packets: &mut [Packet<'_>],
        now: Duration,
        panic: &str,
    ) -> bool {
        let policy = self.local.settings.refresh().policy();
        for packet in packets.iter_mut().filter(|packet| packet.verdict == Verdict::Reply) {
            cut_unsettled(&policy, packet);
        }
        let mut met_control = packets.iter().any(|packet| packet.verdict == Verdict::Control);
        // The burst ended in the middle of this packet.
        let is_broken = |packet: &&mut Packet<'_>| packet.verdict == PANICKED;
        let broken = packets.iter_mut().find(is_broken);
        let mut is_reported = broken.is_some();
        match broken {
            Some(packet) => self.local.fail(packet, panic),
            None => self.local.renew(),
        }
        self.restart_suspect();
        for packet in packets.iter_mut().filter(|packet| packet.verdict == UNDECIDED) {
            let retry = || self.answer(slice::from_mut(packet), now, Occasion::Retry);
            match catch_panic(retry) {
                Ok(is_control) => met_control |= is_control,
                Err(panic) => {
                    self.local.fail(packet, &panic);
                    self.restart_suspect();
                    is_reported = true;
                }
            }
        }
        if !is_reported {
            self.local.report(None, panic);
        }
        met_control
    }

    /// Restarts the upstream client if a panic may have left it half changed.
    ///
    /// # Panics
    /// The process has no file descriptor left. The thread cannot answer its clients then.
    pub(crate) fn restart_suspect(&mut self) {
        if UpstreamClient::take_suspicion()
            && let Some(client) = &mut self.client
            && let Err(error) = client.restart()
        {
            panic!("the upstream client cannot be restarted after a panic: {error}");
        }
    }
}

const UNDECIDED: Verdict = Verdict::Drop(DropReason::Undecided);
const PANICKED: Verdict = Verdict::Drop(DropReason::Panicked);

/// Name and type of a reply's question, and its transport.
fn describe(packet: &Packet<'_>) -> Option<String> {
    let question = packet.message().get(HEADER_LEN..)?;
    let name = Name::parse(question).ok()?;
    let [t0, t1] = *question.get(name.len()..)?.first_chunk()?;
    let rtype = Rtype(u16::from_be_bytes([t0, t1]));
    let transport = match packet.context.transport {
        Transport::Datagram => "UDP",
        Transport::Stream => "TCP",
    };
    Some(format!("{name} {rtype} over {transport}"))
}

#[cfg(all(test, debug_assertions))]
mod tests;
