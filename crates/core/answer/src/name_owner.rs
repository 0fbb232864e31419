//! Finds the zone, hosts file or group of upstream servers that owns a name.
use crate::hosts::HostEntry;
use image::{ForwardRule, Forwards, Route, ZoneTable};
use packet::View;
use wire::{QName, Rtype};

/// The owner of a name.
pub(crate) enum NameOwner<'w> {
    Zone(Route<'w>),
    Hosts(HostEntry<'w>),
    /// A group of upstream servers.
    Upstreams(u16),
    None,
}

/// The owner of a name in a view: the zone or the group of servers with the longest origin or
/// suffix. A hosts file takes precedence over all but configured zones.
#[inline(always)]
pub(crate) fn name_owner<'w>(
    (zones, view): (&'w dyn ZoneTable, View),
    forwards: Forwards<'_>,
    name: &QName,
    rtype: Rtype,
) -> NameOwner<'w> {
    let routed = route(zones, view, name, rtype);
    let mut group = None;
    if !forwards.is_empty() {
        let labels_min =
            routed.as_ref().map_or(0, |routed| usize::from(routed.facts.origin_labels) + 1);
        let rule = forwards.find(name, labels_min, rtype == Rtype::DS);
        group = rule.map(|rule| rule.group).filter(|group| *group != ForwardRule::NO_GROUP);
    }
    match (group, routed) {
        (None, Some(routed)) if !routed.facts.yields => return NameOwner::Zone(routed),
        _ => {}
    }
    match (HostEntry::find(zones, view, name, rtype), group, routed) {
        (Some(host), _, _) => NameOwner::Hosts(host),
        (None, Some(group), _) => NameOwner::Upstreams(group),
        // A hosts file may have names of such a zone.
        (None, None, Some(routed)) => {
            let has_below = routed.has_below || zones.hosts(view, 0).is_some();
            NameOwner::Zone(Route { has_below, ..routed })
        }
        (None, None, None) => NameOwner::None,
    }
}

/// The zone of a name. DS belongs to the parent (RFC 4035 §3.1.4.1). Only if this server does not
/// serve the parent, the child answers that there is none.
#[inline(never)]
pub(crate) fn route<'w>(
    zones: &'w dyn ZoneTable,
    view: View,
    name: &QName,
    rtype: Rtype,
) -> Option<Route<'w>> {
    let at_parent = (rtype == Rtype::DS).then(|| zones.route(view, name, true)).flatten();
    at_parent.or_else(|| zones.route(view, name, false))
}
