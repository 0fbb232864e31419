//! First pass over a burst: parse each query, find the zone of its name, prefetch what the second
//! pass needs.
use crate::admission::Admission;
use crate::cache_path::CacheCandidate;
use crate::fast_path::FastPath;
use crate::name_owner::{NameOwner, name_owner};
use crate::networks::ClientNetworks;
use crate::solve::{NodeLookup, ZoneRef};
use crate::{Disposition, KeyNames, Policy};
use image::{Forwards, HashKey, Rewrites, Route, ZoneTable};
use limit::Acl;
use packet::{BURST_MAX, Packet, View, prefetch};
use wire::{Class, FastParse, Flags, HEADER_LEN, Query, QueryFault, Rtype, inject_panic};

/// State of the first pass.
pub(crate) struct Classifier<'f, 'w> {
    pub(crate) zones: &'w dyn ZoneTable,
    pub(crate) key: &'w HashKey,
    pub(crate) forwards: Forwards<'f>,
    pub(crate) rewrites: &'f Rewrites<'f>,
    pub(crate) recursion: &'f Acl<'f>,
    pub(crate) notify_from: &'f Acl<'f>,
    keys: KeyNames<'f>,
    networks: Option<&'f ClientNetworks<'f>>,
    /// The zone of the previous query if no other zone lies below it. Names of a burst often share
    /// a zone, which saves routing.
    pub(crate) memo: Option<ZoneRef<'w>>,
    /// Whether the previous query on the fast path had a cookie: the next one then often has one
    /// too.
    pub(crate) expects_cookie: bool,
    /// Whether a query on the fast path had a cookie.
    pub(crate) met_cookie: bool,
    /// Whether the last query that was routed had a forwarded name.
    pub(crate) expects_forwarded: bool,
    /// Whether a query took the cache path.
    pub(crate) met_cached: bool,
}

impl<'f, 'w> Classifier<'f, 'w> {
    #[inline(always)]
    pub(crate) fn new(zones: &'w dyn ZoneTable, policy: &'f Policy<'_>) -> Self {
        Self {
            zones,
            key: zones.key(),
            forwards: policy.forwards,
            rewrites: &policy.rewrites,
            recursion: &policy.recursion,
            notify_from: &policy.notify_from,
            keys: policy.keys,
            networks: policy.networks(),
            memo: None,
            expects_cookie: false,
            met_cookie: false,
            expects_forwarded: false,
            met_cached: false,
        }
    }

    #[inline(never)]
    pub(crate) fn classify_all<G: Admission<'w>>(
        &mut self,
        admission: &G,
        fast_parses: &mut [FastParse; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        packets: &[Packet<'_>],
        dispositions: &mut [Disposition<'w>; BURST_MAX],
    ) {
        for (at, (((packet, fast_parse), query), disposition)) in
            packets.iter().zip(fast_parses).zip(queries).zip(dispositions).enumerate()
        {
            if let Some(other) = admission.admit(at, query, packet) {
                *disposition = other;
                continue;
            }
            match self.fast_parse(&self.memo, self.expects_cookie, fast_parse, packet) {
                Some(short) => *disposition = short,
                None => self.classify(fast_parse, query, packet, disposition),
            }
        }
    }

    /// Tries the fast path in this zone, for a message with or without a cookie.
    #[inline(always)]
    fn fast_parse(
        &self,
        zone_ref: &Option<ZoneRef<'w>>,
        with_cookie: bool,
        fast_parse: &mut FastParse,
        packet: &Packet<'_>,
    ) -> Option<Disposition<'w>> {
        let fast_path = match with_cookie {
            true => FastPath::with_cookie(self.key, zone_ref, fast_parse, packet)?,
            false => FastPath::new(self.key, zone_ref, fast_parse, packet)?,
        };
        prefetch(fast_path.leaf);
        Some(Disposition::Fast(fast_path))
    }

    /// Tries the fast path with other expectations than the previous query's, and updates them.
    #[inline(always)]
    fn reparse_fast(
        &mut self,
        zone_ref: &Option<ZoneRef<'w>>,
        with_cookie: bool,
        fast_parse: &mut FastParse,
        packet: &Packet<'_>,
    ) -> Option<Disposition<'w>> {
        let disposition = self.fast_parse(zone_ref, with_cookie, fast_parse, packet)?;
        self.expects_cookie = with_cookie;
        self.met_cookie |= with_cookie;
        Some(disposition)
    }

    /// Classifies a packet that did not fit the expectations of the previous one.
    #[inline(never)]
    fn classify(
        &mut self,
        fast_parse: &mut FastParse,
        query: &mut Query,
        packet: &Packet<'_>,
        disposition: &mut Disposition<'w>,
    ) {
        if let Some(short) =
            self.reparse_fast(&{ self.memo }, !self.expects_cookie, fast_parse, packet)
        {
            *disposition = short;
            return;
        }
        if self.expects_forwarded
            && self.recursion.lists(packet.context.client.ip())
            && let Some(candidate) = CacheCandidate::new(self.key, fast_parse, packet)
        {
            self.met_cached = true;
            *disposition = Disposition::Cached(candidate);
            return;
        }
        *disposition = match self.find_zone_ref(query, packet) {
            Ok(zone_ref) if query.plain || query.cookie.is_some() => self
                .reparse_fast(&Some(zone_ref), !query.plain, fast_parse, packet)
                .unwrap_or_else(|| self.node_lookup(&zone_ref, query)),
            Ok(zone_ref) => self.node_lookup(&zone_ref, query),
            Err(disposition) => disposition,
        };
    }

    /// Classifies a packet for the full path.
    #[inline(never)]
    pub(crate) fn classify_fully(
        &mut self,
        query: &mut Query,
        packet: &Packet<'_>,
    ) -> Disposition<'w> {
        self.find_zone_ref(query, packet)
            .map_or_else(|disposition| disposition, |zone_ref| self.node_lookup(&zone_ref, query))
    }

    fn node_lookup(&self, zone_ref: &ZoneRef<'w>, query: &Query) -> Disposition<'w> {
        let node_lookup = NodeLookup::new(self.key, zone_ref, &query.name);
        prefetch(node_lookup.leaf);
        Disposition::Zone(node_lookup)
    }

    /// Parses and routes: the zone of the name, or the disposition of a query without one.
    #[inline(never)]
    fn find_zone_ref(
        &mut self,
        query: &mut Query,
        packet: &Packet<'_>,
    ) -> Result<ZoneRef<'w>, Disposition<'w>> {
        inject_panic("parse", || packet.buf.get(HEADER_LEN..).unwrap_or_default());
        query.parse(packet.buf, packet.len).map_err(Disposition::Fault)?;
        inject_panic("classify", || query.name.as_bytes());
        if let Some(at) = query.tsig_at {
            let is_known = self.keys.name_signer(packet, at);
            return Err(if is_known { Disposition::PassedOn } else { Disposition::Signed });
        }
        if query.edns.is_some_and(|edns| edns.subnet_at > 0)
            && self.networks.is_some_and(|networks| networks.is_malformed(query, packet))
        {
            return Err(Disposition::Fault(QueryFault::Format));
        }
        if query.flags.is_notify() {
            return Err(self.classify_notify(query, packet));
        }
        match query.class {
            // Class ANY is answered as IN, the only class of this server (RFC 1034 §3.7.1).
            Class::IN | Class::ANY => {}
            Class::CH => return Err(Disposition::Chaos),
            _ => return Err(Disposition::NotOurs),
        }
        if query.rtype.is_meta() && query.rtype != Rtype::ANY {
            return Err(Disposition::Meta);
        }
        let view = packet.context.view;
        let renames = !self.rewrites.is_empty();
        if renames && let Some(number) = self.rewrites.find(&query.name) {
            return Err(Disposition::Renamed(number as u16));
        }
        match self.memo {
            Some(zone_ref) if query.rtype != Rtype::DS && zone_ref.holds(view, &query.name) => {
                Ok(zone_ref)
            }
            _ => {
                let name_owner = self.name_owner(view, query);
                self.expects_forwarded = matches!(name_owner, NameOwner::Upstreams(_));
                let routed = self.own_zone(name_owner, packet)?;
                let origin = routed.zone.origin();
                let is_divided = routed.has_below
                    || self.forwards.has_below(origin)
                    || renames && self.rewrites.touch(origin);
                let zone_ref = ZoneRef::new(view, &routed);
                self.memo = (!is_divided).then_some(zone_ref);
                Ok(zone_ref)
            }
        }
    }

    /// Classifies a renamed query. The expectations for the next query stay as they are.
    pub(crate) fn classify_renamed(&self, query: &Query, packet: &Packet<'_>) -> Disposition<'w> {
        let view = packet.context.view;
        let routed = self.own_zone(self.name_owner(view, query), packet);
        routed.map_or_else(
            |disposition| disposition,
            |routed| self.node_lookup(&ZoneRef::new(view, &routed), query),
        )
    }

    #[inline(always)]
    fn name_owner(&self, view: View, query: &Query) -> NameOwner<'w> {
        // Only class IN is forwarded.
        let desired = query.flags.has(Flags::RD) && query.class == Class::IN;
        let forwards = if desired { self.forwards } else { Forwards::default() };
        name_owner((self.zones, view), forwards, &query.name, query.rtype)
    }

    /// The zone of the name, or the disposition of a name without a zone.
    #[inline(always)]
    fn own_zone(
        &self,
        name_owner: NameOwner<'w>,
        packet: &Packet<'_>,
    ) -> Result<Route<'w>, Disposition<'w>> {
        match name_owner {
            NameOwner::Zone(routed) => Ok(routed),
            NameOwner::Upstreams(group) if self.recursion.lists(packet.context.client.ip()) => {
                Err(Disposition::Forward(group))
            }
            NameOwner::Upstreams(_) => Err(Disposition::Denied),
            NameOwner::Hosts(host) => Err(Disposition::Hosts(host)),
            NameOwner::None => Err(Disposition::NotOurs),
        }
    }
}
