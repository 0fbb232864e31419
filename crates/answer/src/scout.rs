//! The first pass: each question is parsed and routed, and what it will need is fetched.
use crate::Way;
use crate::gate::Gate;
use crate::known::Hint;
use crate::plain::Lead;
use crate::solve::{self, Site, Spot, Whose};
use image::{Forwards, HashKey, Rewrites, Route, World};
use limit::Acl;
use packet::{BURST_MAX, Packet, prefetch};
use wire::{Class, Flags, Glance, Query, Rtype};

/// What the first pass works with.
pub(crate) struct Scout<'f, 'w> {
    pub(crate) world: &'w dyn World,
    pub(crate) key: &'w HashKey,
    pub(crate) forwards: Forwards<'f>,
    pub(crate) rewrites: &'f Rewrites<'f>,
    pub(crate) recursion: &'f Acl<'f>,
    /// The zone of the question before, where no other zone lies below it: names of a burst are
    /// often of one zone, and need not be routed again.
    pub(crate) memo: Option<Site<'w>>,
    /// Whether the last question on the short way had a cookie: then the next one often has.
    pub(crate) awaits_cookie: bool,
    /// Whether a question took the short way with a cookie.
    pub(crate) met_cookie: bool,
    /// Whether the last question that no memo held was about somebody else's name.
    pub(crate) expects_theirs: bool,
    /// Whether a question took the short way of names that others told of.
    pub(crate) met_known: bool,
}

impl<'w> Scout<'_, 'w> {
    /// The first pass.
    #[inline(never)]
    pub(crate) fn look_all<G: Gate<'w>>(
        &mut self,
        gate: &G,
        glances: &mut [Glance; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        packets: &[Packet<'_>],
        ways: &mut [Way<'w>; BURST_MAX],
    ) {
        for (at, (((packet, glance), query), way)) in
            packets.iter().zip(glances).zip(queries).zip(ways).enumerate()
        {
            if let Some(other) = gate.admit(at, query, packet) {
                *way = other;
                continue;
            }
            match self.glance(&self.memo, self.awaits_cookie, glance, packet) {
                Some(short) => *way = short,
                None => self.look(glance, query, packet, way),
            }
        }
    }

    /// Takes a packet the short way, if this zone has it and there is a cookie or none, as said.
    #[inline(always)]
    fn glance(
        &self,
        site: &Option<Site<'w>>,
        with_cookie: bool,
        glance: &mut Glance,
        packet: &Packet<'_>,
    ) -> Option<Way<'w>> {
        let lead = match with_cookie {
            true => Lead::with_cookie(self.key, site, glance, packet)?,
            false => Lead::new(self.key, site, glance, packet)?,
        };
        prefetch(lead.leaf);
        Some(Way::Plain(lead))
    }

    /// The same of one that may be unlike the one before.
    #[inline(always)]
    fn glance_anew(
        &mut self,
        site: &Option<Site<'w>>,
        with_cookie: bool,
        glance: &mut Glance,
        packet: &Packet<'_>,
    ) -> Option<Way<'w>> {
        let way = self.glance(site, with_cookie, glance, packet)?;
        self.awaits_cookie = with_cookie;
        self.met_cookie |= with_cookie;
        Some(way)
    }

    /// Takes a packet the long way, or a short one that the packet before did not take.
    #[inline(never)]
    fn look(
        &mut self,
        glance: &mut Glance,
        query: &mut Query,
        packet: &Packet<'_>,
        way: &mut Way<'w>,
    ) {
        if let Some(short) = self.glance_anew(&{ self.memo }, !self.awaits_cookie, glance, packet) {
            *way = short;
            return;
        }
        if self.expects_theirs
            && self.recursion.lists(packet.client.ip())
            && let Some(hint) = Hint::new(self.key, glance, packet)
        {
            self.met_known = true;
            *way = Way::Known(hint);
            return;
        }
        *way = match self.find_site(query, packet) {
            Ok(site) if query.plain || query.cookie.is_some() => self
                .glance_anew(&Some(site), !query.plain, glance, packet)
                .unwrap_or_else(|| self.spot(&site, query)),
            Ok(site) => self.spot(&site, query),
            Err(way) => way,
        };
    }

    /// Takes a packet the long way.
    #[inline(never)]
    pub(crate) fn look_closely(&mut self, query: &mut Query, packet: &Packet<'_>) -> Way<'w> {
        self.find_site(query, packet).map_or_else(|way| way, |site| self.spot(&site, query))
    }

    fn spot(&self, site: &Site<'w>, query: &Query) -> Way<'w> {
        let spot = Spot::new(self.key, site, &query.name);
        prefetch(spot.leaf);
        Way::Zone(spot)
    }

    /// Parses and routes: the zone to ask, or the way of what is no question to one.
    #[inline(never)]
    fn find_site(&mut self, query: &mut Query, packet: &Packet<'_>) -> Result<Site<'w>, Way<'w>> {
        query.parse(packet.buf, packet.len).map_err(Way::Fault)?;
        if query.class != Class::IN {
            return Err(if query.class == Class::CH { Way::Chaos } else { Way::Nobody });
        }
        if query.rtype.is_meta() && query.rtype != Rtype::ANY {
            return Err(Way::Meta);
        }
        let renames = !self.rewrites.is_empty();
        if renames && let Some(number) = self.rewrites.find(&query.name) {
            return Err(Way::Renamed(number as u16));
        }
        match self.memo {
            Some(site) if query.rtype != Rtype::DS && site.holds(&query.name) => Ok(site),
            _ => {
                let whose = self.whose(query);
                self.expects_theirs = matches!(whose, Whose::Theirs(_));
                let routed = self.ours(whose, packet)?;
                let origin = routed.zone.origin();
                let is_divided = routed.has_below
                    || self.forwards.has_below(origin)
                    || renames && self.rewrites.touch(origin);
                let site = Site::new(&routed);
                self.memo = (!is_divided).then_some(site);
                Ok(site)
            }
        }
    }

    /// Where a name is looked up that was renamed: that happens once, and says nothing of the next.
    pub(crate) fn look_renamed(&self, query: &Query, packet: &Packet<'_>) -> Way<'w> {
        let routed = self.ours(self.whose(query), packet);
        routed.map_or_else(|way| way, |routed| self.spot(&Site::new(&routed), query))
    }

    #[inline(always)]
    fn whose(&self, query: &Query) -> Whose<'w> {
        let desired = query.flags.has(Flags::RD);
        let forwards = if desired { self.forwards } else { Forwards::default() };
        solve::whose(self.world, forwards, &query.name, query.rtype)
    }

    /// The zone whose name it is, or the way of a name that no zone has.
    #[inline(always)]
    fn ours(&self, whose: Whose<'w>, packet: &Packet<'_>) -> Result<Route<'w>, Way<'w>> {
        match whose {
            Whose::Ours(routed) => Ok(routed),
            Whose::Theirs(group) if self.recursion.lists(packet.client.ip()) => {
                Err(Way::Forward(group))
            }
            Whose::Theirs(_) => Err(Way::Denied),
            Whose::Hosts(host) => Err(Way::Hosts(host)),
            Whose::Nobodys => Err(Way::Nobody),
        }
    }
}
