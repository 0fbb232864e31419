//! Formats parts of a status as text.
use crate::limits::STATUS_ERRORS_MAX;
use command_line::{count, plain, plural, short, utc};
use server_status::{
    AnycastStatus, DocumentsStatus, DpdkQueueStatus, DpdkStatus, HealthStatus, HeldZone,
    SecondaryStatus, SiteStatus, StatusHistogram, XdpStatus, ZoneStatus,
};

/// The time within which this share of all events ended; `-` without events.
pub fn quantile(histogram: &StatusHistogram, share: f64) -> String {
    match histogram.quantile(share) {
        None => "-".into(),
        Some(time) if time.is_finite() => short(time),
        // The last bucket has no upper bound, only a lower one.
        Some(_) => match histogram.bounds_seconds.last() {
            Some(bound) => format!(">{}", short(*bound)),
            None => "-".into(),
        },
    }
}

/// Says that a zone's file is held, and what to do about it.
pub fn held(zone: &ZoneStatus) -> Option<String> {
    Some(held_content("its file", &zone.name, zone.held?))
}

/// Says that the content of a source is held, and what to do about it.
pub fn held_content(source: &str, name: &str, held: HeldZone) -> String {
    let (has, had, name) = (count(held.has), count(held.had), plain(name));
    let cut = if held.is_cut { ", and does not end with a newline" } else { "" };
    format!(
        "held: {source} has {has} of the {had} served names{cut}; `dunlin zones accept {name}` \
         serves it nevertheless"
    )
}

/// Says that another process is writing a zone's file.
pub fn writing(zone: &ZoneStatus) -> Option<String> {
    let since = utc(zone.writing_seconds?);
    Some(format!("a process has been writing its file since {since}; it is loaded when complete"))
}

/// Says that signatures of a zone have expired, or expire soon.
pub fn signatures(zone: &ZoneStatus, now: f64) -> Option<String> {
    let span = zone.signatures.filter(|span| span.is_soon(now))?;
    let left = span.left(now);
    Some(match left < 0.0 {
        true => format!(
            "its signatures expired {} ago, so validating resolvers answer SERVFAIL: sign it again",
            command_line::span(-left)
        ),
        false => format!("its signatures expire in {}: sign it again", command_line::span(left)),
    })
}

/// The mode and counters of the AF_XDP interface.
pub fn xdp_text(status: &XdpStatus) -> String {
    let interface = plain(&status.interface);
    if let Some(failed) = &status.failed {
        return format!("{interface} uses sockets only: {}", plain(failed));
    }
    let copied = if status.zero_copy { "zero copy" } else { "copied" };
    let joined = if status.joined { ", in a dispatcher" } else { "" };
    let count_of = |name: &str| status.passed.get(name).copied().unwrap_or_default();
    let left: u64 = ["route", "neighbour", "long", "socket"].map(count_of).iter().sum();
    let lost: u64 = status.queues.iter().flat_map(|queue| queue.lost.values()).sum();
    format!(
        "{interface}, {}{joined}, {copied}, {}; {} taken, {} left to sockets, {} lost",
        plain(&status.mode),
        plural(status.queues.len(), "queue"),
        count(count_of("taken")),
        count(left),
        count(lost)
    )
}

/// The release, and a line for each device of DPDK.
pub fn dpdk_lines(status: &DpdkStatus) -> Vec<String> {
    if let Some(failed) = &status.failed {
        return vec![format!("sockets only: {}", plain(failed))];
    }
    let devices = status.devices.iter().map(|device| {
        let name = plain(&device.name);
        if let Some(failed) = &device.failed {
            return format!("not served: {}", plain(failed));
        }
        let state = match (device.gone, device.up) {
            (true, _) => "removed",
            (false, true) => "up",
            (false, false) => "down",
        };
        let lost: u64 = device.lost.values().sum();
        let [polls, empty] =
            [|queue: &DpdkQueueStatus| queue.polls, |queue: &DpdkQueueStatus| queue.empty_polls]
                .map(|of| device.queues.iter().map(of).sum::<u64>());
        format!(
            "{name}, {state}, {}, {}; {} received, {} sent, {} lost, {} % of polls empty",
            plain(&device.mac),
            plural(device.queues.len(), "queue"),
            count(device.received),
            count(device.sent),
            count(lost),
            empty * 100 / polls.max(1)
        )
    });
    [plain(&status.release)].into_iter().chain(devices).collect()
}

/// Zones of primaries that are shown one by one.
const SECONDARIES_MAX: usize = 20;

/// A line for each zone of primaries, those with a fault first. `now`: in seconds since 1970.
pub fn secondary_lines(zones: &[SecondaryStatus], now: f64) -> Vec<String> {
    let line = |zone: &SecondaryStatus| {
        let name = plain(&zone.name);
        if let Some(owner) = &zone.superseded {
            return format!("{name} is of {}: remove its `primaries`", plain(owner));
        }
        let serial = zone.serial.map_or("SERVFAIL".to_owned(), |serial| format!("serial {serial}"));
        let from = zone.primary.as_ref().or(zone.primaries.first());
        let from = from.map(|from| format!(" from {}", plain(from))).unwrap_or_default();
        let span = command_line::span;
        let contact = zone.contact_seconds.map(|when| span((now - when).max(0.0)));
        let contact = contact.map_or(", no contact".into(), |ago| format!(", contact {ago} ago"));
        let left = zone.expires_seconds.map(|left| format!(", expires in {}", span(left)));
        let left = if zone.is_expired { Some(", expired".to_owned()) } else { left };
        let held = if zone.is_held { ", a newer one is held" } else { "" };
        let fault = zone.fault.as_ref().map(|why| format!("; {}", plain(why)));
        let (left, fault) = (left.unwrap_or_default(), fault.unwrap_or_default());
        format!("{name} {serial}{from}{contact}{left}{held}{fault}")
    };
    let mut sorted: Vec<&SecondaryStatus> = zones.iter().collect();
    sorted.sort_by_key(|zone| zone.fault.is_none() && !zone.is_expired);
    let mut lines: Vec<String> =
        sorted.iter().take(SECONDARIES_MAX).map(|zone| line(zone)).collect();
    if let more @ 1.. = zones.len().saturating_sub(SECONDARIES_MAX) {
        lines.push(format!("and {} more: `dunlin status -o json` has all", count(more as u64)));
    }
    lines
}

/// A line for each other site.
pub fn site_lines(sites: &[SiteStatus]) -> Vec<String> {
    let line = |site: &SiteStatus| {
        let (name, zones) = (plain(&site.name), count(site.zones));
        let state = if site.is_following { "followed" } else { "not followed" };
        let lag = site.lag_seconds.filter(|lag| *lag > 0.0);
        let lag = lag.map(|lag| format!(", {} behind", command_line::span(lag)));
        let lag = lag.unwrap_or_default();
        format!("{name} {state} at revision {}{lag}; zones: {zones}", count(site.revision))
    };
    sites.iter().map(line).collect()
}

/// Whether the addresses are announced, since when (such as "5s ago"), and why not.
pub fn anycast_text(anycast: &AnycastStatus, since: &str) -> String {
    let addresses: Vec<String> = anycast.addresses.iter().map(|one| plain(one)).collect();
    let table = anycast.table;
    let state = match (&anycast.fault, &anycast.reason) {
        _ if anycast.is_announced => {
            let device = anycast.device.as_deref().map(plain).unwrap_or_default();
            let no_permit = anycast.no_permit.as_ref();
            let no_permit = no_permit.map(|why| format!("; {}", plain(why))).unwrap_or_default();
            format!("announced {since}, in table {table} by {device}{no_permit}")
        }
        (_, Some(reason)) => format!("withdrawn {since}: {}", plain(reason)),
        (Some(fault), None) => format!("not announced: {}", plain(fault)),
        (None, None) => "about to be announced".to_owned(),
    };
    let withdrawals = match anycast.withdrawals {
        0 => String::new(),
        number => format!("; {}", plural(number as usize, "withdrawal")),
    };
    format!("{}: {state}{withdrawals}", addresses.join(", "))
}

/// What the servers of a fleet share, and what needs attention; empty: nothing is shared.
pub fn documents_lines(sets: &[DocumentsStatus]) -> Vec<String> {
    let numbers = sets.iter().map(|set| format!("{} {}", count(set.documents), plain(&set.name)));
    let mut lines = vec![numbers.collect::<Vec<_>>().join(", ")];
    lines.retain(|line| !line.is_empty());
    for set in sets {
        let name = plain(&set.name);
        if let Some(why) = &set.fault {
            lines.push(format!("{name} may be outdated, and cannot be changed: {}", plain(why)));
        }
        let shown = set.unusable.iter().take(STATUS_ERRORS_MAX);
        lines.extend(shown.map(|why| format!("{name}, ignored: {}", plain(why))));
        if set.unusable.len() > STATUS_ERRORS_MAX {
            lines.push("  and more: `dunlin status -o json`".into());
        }
    }
    lines
}

/// The targets of checks, and what needs attention.
pub fn health_text(health: &HealthStatus) -> String {
    let HealthStatus { up, down, unknown, not_probed, open_sets, .. } = *health;
    let mut text = format!("{} up, {} down, {} unknown", count(up), count(down), count(unknown));
    if not_probed > 0 {
        text += &format!(", {} not probed", count(not_probed));
    }
    if health.expiring > 0 {
        text += &format!("; {} ending soon", plural(health.expiring as usize, "certificate"));
    }
    if open_sets > 0 {
        text += &format!(
            "; {} with addresses answered that are down",
            plural(open_sets as usize, "set")
        );
    }
    if health.suspects_itself {
        text += "; all fail at once: is the network of this host down?";
    }
    if !health.is_saved {
        text += "; not saved on disk";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_a_bound_of_its_bucket_or_a_dash() {
        let of = |counts: &[u64]| StatusHistogram {
            bounds_seconds: vec![0.0001, 1.0],
            counts: counts.into(),
            sum_seconds: 0.0,
        };
        assert_eq!(quantile(&of(&[1, 0, 0]), 0.5), "100 µs");
        assert_eq!(quantile(&of(&[0, 0, 1]), 0.5), ">1 s");
        assert_eq!(quantile(&of(&[0, 0, 0]), 0.5), "-");
        assert_eq!(quantile(&StatusHistogram::default(), 0.5), "-");
    }
}
