//! Probes: queries of our own that any server can answer, so that its health does not depend on the
//! names that clients request.
use crate::event::{ForwardEvent, Transmission};
use crate::forwarder::{Forwarder, RandomSource};
use crate::upstream::UpstreamTransport;
use wire::{Name, NameBuf};

impl Forwarder<'_> {
    /// Sets the suffix of a server's names. It is probed in turn for the NS records of that name
    /// and of the root.
    pub fn set_probe_name(&mut self, upstream: u16, suffix: Name<'_>) {
        self.state.probe_names[usize::from(upstream)] = NameBuf::from(suffix);
    }

    pub(crate) fn probe_name(&self, upstream: u16, root: bool) -> &[u8] {
        match root {
            true => Name::ROOT.as_bytes(),
            false => self.state.probe_names[usize::from(upstream)].as_name().as_bytes(),
        }
    }

    /// When the next probe is due.
    pub(crate) fn next_probe(&mut self) -> Option<u64> {
        if core::mem::take(&mut self.state.is_probe_wanted) {
            let known = &self.state.upstreams[..self.state.servers.into()];
            self.state.probe_at = known.iter().filter_map(|server| server.probe_due()).min();
        }
        self.state.probe_at
    }

    /// Sends the probe that is due, if any.
    pub(crate) fn expire_probe(
        &mut self,
        now: u64,
        random: RandomSource<'_>,
    ) -> Option<ForwardEvent> {
        self.next_probe().filter(|at| *at <= now)?;
        self.state.is_probe_wanted = true;
        let mut known = self.state.upstreams[..self.state.servers.into()].iter();
        let is_due = |due: Option<u64>| due.is_some_and(|at| at <= now);
        let upstream = known.position(|server| is_due(server.probe_due()))? as u16;
        let server = &mut self.state.upstreams[usize::from(upstream)];
        if server.probe(now) {
            let (root, by_stream) = (
                server.probes().is_multiple_of(2),
                server.transport != UpstreamTransport::Datagrams,
            );
            server.counts.sent += 1;
            self.send_probe(upstream, root, by_stream, now, random);
        }
        Some(ForwardEvent::Nothing)
    }

    fn send_probe(
        &mut self,
        upstream: u16,
        root: bool,
        by_stream: bool,
        now: u64,
        random: RandomSource<'_>,
    ) {
        // The next call has room if this one has none.
        let Some(nth) = self.state.transmissions.iter().position(Option::is_none) else { return };
        let Some(id) = self.free_id(random) else { return };
        let slot = self.put_probe((upstream, id), root, now);
        let transmission = Transmission {
            upstream,
            by_stream,
            query: Transmission::PROBE,
            serial: slot as u32,
            attempt: 0,
        };
        self.state.transmissions[nth] = Some(transmission);
    }
}
