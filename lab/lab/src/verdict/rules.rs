//! The rules, one function for each cause.

use super::{Cause, Drops, Measurements, SideUse, Verdict, percent, thousands};

/// If at least this share of the queries is answered in time, nothing limited the figure.
const IN_TIME: f64 = 0.999;
/// The p99.9 of lateness, µs, up to which a plan counts as kept: less than a timer's tick on a busy
/// machine.
const LATENESS_US_MAX: f64 = 20_000.0;
/// The lateness, µs, that can cause loss at the server: delayed queries leave in one burst, which
/// overflows buffers.
const BEHIND_US: f64 = 100_000.0;
/// The minimum share of the plan that must have been sent.
const SENT_MIN: f64 = 0.999;
/// A side is busy from this share on.
const BUSY: f64 = 0.9;
/// Other processes are a cause if they used this share of one of a side's CPUs.
const TAKEN: f64 = 0.25;
/// A place is the cause of loss if it has this share of it.
const MOST: f64 = 0.5;
/// The largest difference between two measurements of one echo on an unchanged machine.
pub const CHANGED: f64 = 0.25;
/// From this share of an echo's rate on, the generator is at its limit.
pub const HEADROOM: f64 = 0.9;
/// Counters that should agree may differ by this share of the plan, because devices also count
/// other packets.
const AGREE: f64 = 0.02;
/// Bytes that wait in a socket which is not read fast enough, when the last query was sent.
const WAITING: u64 = 64 << 10;
/// Flows a socket, below which chance leaves some of them idle.
const FLOWS_A_SOCKET: u64 = 4;

fn say(cause: Cause, because: String) -> Option<Verdict> {
    Some(Verdict { cause, because })
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Whether `count` is most of the loss, and there is a loss.
fn is_most(count: u64, e: &Measurements) -> bool {
    let is_loss = share(e.load.lost(), e.load.planned) > 1.0 - IN_TIME;
    is_loss && share(count, e.load.lost()) >= MOST
}

/// Whether counters that should agree differ by more than other processes may have sent.
fn is_beyond_others(count: u64, e: &Measurements) -> bool {
    share(count, e.load.planned) > AGREE
}

/// "18,211 of 400,000".
fn of_planned(count: u64, e: &Measurements) -> String {
    format!("{} of {}", thousands(count), thousands(e.load.planned))
}

/// "while its CPU was 99 % busy", where that is known.
fn while_busy(side: Option<&SideUse>, e: &Measurements) -> String {
    side.map_or(String::new(), |side| {
        format!(" while its CPU was {} busy (schedstat)", percent(side.busy(e.load.seconds)))
    })
}

/// There is no verdict without queries.
pub fn nothing_asked(e: &Measurements) -> Option<Verdict> {
    if e.load.planned > 0 {
        return None;
    }
    say(Cause::Undetermined, "no question was due (generator)".into())
}

/// All that was offered was answered in time. A closed loop offers no more than is answered, so
/// there it says nothing about what bounded the rate.
pub fn all_answered(e: &Measurements) -> Option<Verdict> {
    let answered = share(e.load.answered, e.load.planned);
    if !e.load.open || answered < IN_TIME || fell_behind(e) {
        return None;
    }
    let in_time = of_planned(e.load.answered, e);
    let late = e.load.lateness_us;
    say(
        Cause::Offered,
        format!("{in_time} were answered in time, sent at most {late:.0} µs late (p99.9)"),
    )
}

/// The rate of the echo changed between before and after the run.
pub fn machine_changed(e: &Measurements) -> Option<Verdict> {
    let ceiling = e.ceiling.as_ref()?;
    if ceiling.drift() <= CHANGED {
        return None;
    }
    let (before, after) = (thousands(ceiling.before as u64), thousands(ceiling.after as u64));
    let model = &ceiling.model;
    say(
        Cause::Host,
        format!("an echo ({model}) came to {before} answers a second before and {after} after"),
    )
}

/// More was read than has arrived. The opposite is no sign, because a device also counts other
/// packets.
pub fn contradiction(e: &Measurements) -> Option<Verdict> {
    let places = e.balance.places();
    for (before, after) in [(2, 3), (6, 7)] {
        let ((from, Some(a)), (to, Some(b))) = (places[before], places[after]) else { continue };
        if is_beyond_others(b.saturating_sub(a), e) {
            let (a, b) = (thousands(a), thousands(b));
            return say(
                Cause::Undetermined,
                format!("{b} were {to}, but only {a} {from}: the counters are not of one run"),
            );
        }
    }
    None
}

/// Not all queries were sent, or not in time.
fn fell_behind(e: &Measurements) -> bool {
    let sent = share(e.load.sent, e.load.planned);
    e.load.open && (sent < SENT_MIN || e.load.lateness_us > LATENESS_US_MAX)
}

/// The same, if the amount is significant compared with other losses.
fn far_behind(e: &Measurements) -> bool {
    let little = share(e.load.sent, e.load.planned) >= SENT_MIN && e.load.lateness_us <= BEHIND_US;
    fell_behind(e) && !little
}

/// The other process that kept a side's threads from a CPU.
fn displaced(side: &SideUse, e: &Measurements) -> Option<String> {
    let seconds = e.load.seconds;
    // Reading takes some time, so the CPU time of other processes may exceed the total.
    let of_one = |time_s: f64| percent((time_s / seconds).min(1.0));
    let enough = |time_s: f64| time_s >= seconds * TAKEN;
    if enough(side.steal_s) {
        let stolen = of_one(side.steal_s);
        return Some(format!("the hypervisor gave {stolen} of a CPU's time to others (steal)"));
    }
    // Small throttling on many CPUs adds up: so a thread must have waited as well.
    let all_s = seconds * side.cpus;
    let throttled_s = side.throttled_s;
    if throttled_s >= all_s * TAKEN || (enough(throttled_s) && enough(side.waited_s)) {
        let throttled = percent(throttled_s / all_s);
        return Some(format!("its control group was throttled {throttled} of the time (cpu.stat)"));
    }
    let taker = side.competing.as_ref().filter(|taker| enough(taker.most_s))?;
    if !enough(side.waited_s) {
        return None;
    }
    Some(format!(
        "{} had {} of a CPU, for which a thread waited {:.2} s of {seconds:.2} s (schedstat)",
        taker.name,
        of_one(taker.most_s),
        side.waited_s,
    ))
}

/// The generator did not keep its plan because it did not get its CPU.
pub fn generator_displaced(e: &Measurements) -> Option<Verdict> {
    let why = displaced(e.generator.as_ref()?, e).filter(|_| behind_or_deaf(e))?;
    say(Cause::Host, format!("the generator kept no plan: {why}"))
}

/// Late queries and overflows of its own socket both happen if the generator does not run.
fn behind_or_deaf(e: &Measurements) -> bool {
    far_behind(e) || !e.load.open || is_most(e.drops.generator_socket.unwrap_or(0), e)
}

/// A queueing discipline dropped, or held packets back until the generator's socket was full.
pub fn link_full(e: &Measurements) -> Option<Verdict> {
    let Drops { qdisc: Some(dropped), qdisc_overlimits, .. } = e.drops else { return None };
    let waited = qdisc_overlimits.unwrap_or(0);
    if is_most(dropped, e) {
        let dropped = of_planned(dropped, e);
        return say(
            Cause::Network,
            format!("{dropped} were dropped by a queueing discipline (tc -s qdisc)"),
        );
    }
    let idle = e.generator.as_ref().is_some_and(|g| g.busy(e.load.seconds) < BUSY);
    if share(waited, e.load.planned) < MOST || !idle {
        return None;
    }
    let waited = thousands(waited);
    say(
        Cause::Network,
        format!("a queueing discipline held packets back {waited} times (tc -s qdisc, overlimits)"),
    )
}

/// The generator did not send queries when they were due.
pub fn generator_behind(e: &Measurements) -> Option<Verdict> {
    if far_behind(e) { behind(e) } else { None }
}

/// It did, but a little late, and no other cause explains the loss.
pub fn generator_late(e: &Measurements) -> Option<Verdict> {
    if fell_behind(e) { behind(e) } else { None }
}

/// The generator was late: by itself, or because it did not get its CPU.
fn behind(e: &Measurements) -> Option<Verdict> {
    let sent = of_planned(e.load.sent, e);
    let late = e.load.lateness_us / 1_000.0;
    if let Some(why) = held_up(e).filter(|_| share(e.load.sent, e.load.planned) >= SENT_MIN) {
        let late = format!("{sent} that were due, up to {late:.1} ms late (p99.9)");
        return say(Cause::Host, format!("the generator sent {late}, as {why}"));
    }
    let busy = while_busy(e.generator.as_ref(), e);
    say(
        Cause::Generator,
        format!("it sent {sent} that were due, up to {late:.1} ms late (p99.9){busy}"),
    )
}

/// The external cause that delayed the generator for as long as it was late.
fn held_up(e: &Measurements) -> Option<String> {
    let late_us = e.load.lateness_us;
    if let Some(stalled_us) = e.load.stalled_us.filter(|stalled_us| *stalled_us >= late_us * MOST) {
        return Some(format!(
            "its CPU stood still for {:.1} ms: a timer came so late though no other process ran (a \
             hypervisor took the CPU and did not say so, or the process was stopped)",
            stalled_us / 1_000.0
        ));
    }
    let side = e.generator.as_ref()?;
    let taker = side.competing.as_ref().filter(|taker| taker.most_s >= side.waited_s)?;
    (side.waited_s * 1e6 >= late_us).then(|| {
        let (name, waited) = (&taker.name, side.waited_s * 1e3);
        format!("a thread waited {waited:.1} ms for its CPU, which {name} used (schedstat)")
    })
}

/// The server did not run because it was stopped (SIGSTOP).
pub fn server_stopped(e: &Measurements) -> Option<Verdict> {
    e.server.as_ref().filter(|side| side.stopped)?;
    let lost = of_planned(e.load.lost(), e);
    say(
        Cause::Server,
        format!("its process was stopped (state T in /proc/PID/stat), and {lost} got no answer"),
    )
}

/// Some of the server's sockets were full and others had nothing to do, as few sources do not
/// spread.
pub fn few_flows(e: &Measurements) -> Option<Verdict> {
    let flows = e.flows.as_ref()?;
    let sockets = flows.dropped.len() as u64;
    let dropped: u64 = flows.dropped.iter().sum();
    let waits = |socket: usize| flows.waiting.get(socket).is_some_and(|bytes| *bytes >= WAITING);
    let is_full = |socket: &usize| share(flows.dropped[*socket], dropped) >= 0.01 || waits(*socket);
    let full = (0..flows.dropped.len()).filter(is_full).count() as u64;
    let few = flows.sources < sockets * FLOWS_A_SOCKET;
    let late = e.load.late + e.load.timeouts;
    if full == 0 || full == sockets || !few || !(is_most(dropped, e) || is_most(late, e)) {
        return None;
    }
    let lost = of_planned(e.load.lost(), e);
    let sources = thousands(flows.sources);
    say(
        Cause::Generator,
        format!(
            "{lost} got no answer in time: of the server's {sockets} sockets {full} overflowed and \
             the others did not (/proc/net/udp): flows from {sources} source ports do not spread"
        ),
    )
}

/// The server did not keep up because it did not get its CPU.
pub fn server_displaced(e: &Measurements) -> Option<Verdict> {
    let why = displaced(e.server.as_ref()?, e)?;
    say(Cause::Host, format!("the server did not get its CPU: {why}"))
}

/// Packets left one host and did not come to the other, or came and never reached a socket though
/// no kernel counts them as dropped there.
pub fn link_lost(e: &Measurements) -> Option<Verdict> {
    let (count, place) = vanished(e)?;
    if !is_most(count, e) || !is_beyond_others(count, e) || waits_at_a_stopped_server(e) {
        return None;
    }
    let count = of_planned(count, e);
    say(Cause::Network, format!("{count} vanished {place} (packet balance)"))
}

/// How many packets vanished where most did, and where that was.
fn vanished(e: &Measurements) -> Option<(u64, &'static str)> {
    let (b, d) = (&e.balance, &e.drops);
    // A packet of a device may hold several datagrams; then only the whole path is known.
    let unknown = b.left_generator.is_none() || b.arrived_server.is_none();
    let at_server = d.server_socket.unwrap_or(0) + d.server_softnet.unwrap_or(0);
    let on_the_way = d.server_device.unwrap_or(0) + d.qdisc.unwrap_or(0);
    let hops = [
        (
            "between the generator and the server's sockets, dropped by no device or buffer",
            b.sent.filter(|_| unknown),
            b.read_server,
            at_server + on_the_way,
        ),
        ("between the generator's host and the server's", b.left_generator, b.arrived_server, 0),
        (
            "between the server's device and its sockets, dropped by neither backlog nor buffer",
            b.arrived_server,
            b.read_server,
            at_server,
        ),
        ("between the server's host and the generator's", b.left_server, b.arrived_generator, 0),
        (
            "between the generator's device and its sockets, dropped by neither backlog nor buffer",
            b.arrived_generator,
            b.read_generator,
            d.generator_socket.unwrap_or(0) + d.generator_softnet.unwrap_or(0),
        ),
        ("before they left the generator's host", b.sent, b.left_generator, on_the_way),
        (
            "before they left the server's host",
            b.answered_server,
            b.left_server,
            d.generator_device.unwrap_or(0) + d.qdisc.unwrap_or(0),
        ),
    ];
    let lost = |(place, from, to, known): (&'static str, Option<u64>, Option<u64>, u64)| {
        Some((from?.saturating_sub(to?).saturating_sub(known), place))
    };
    hops.into_iter().filter_map(lost).max()
}

/// Datagrams in a socket's buffer are unread, not lost.
fn waits_at_a_stopped_server(e: &Measurements) -> bool {
    e.server.as_ref().is_some_and(|side| side.stopped)
}

/// The server did not read fast enough what had come to its sockets.
pub fn server_socket(e: &Measurements) -> Option<Verdict> {
    let dropped = e.drops.server_socket.filter(|dropped| is_most(*dropped, e))?;
    let died = of_planned(dropped, e);
    let side = e.server.as_ref();
    let busy = while_busy(side, e);
    let idle = side.is_some_and(|side| side.busy(e.load.seconds) < BUSY);
    let why = if idle { ": a buffer too small for bursts, or a server that waits" } else { "" };
    say(
        Cause::Server,
        format!("{died} died at the server's socket (RcvbufErrors){busy}{why}{}", of_ceiling(e)),
    )
}

/// "; 180,000 answers a second are 93 % of a bare echo's", where that is known.
fn of_ceiling(e: &Measurements) -> String {
    e.ceiling.as_ref().zip(share_of_ceiling(e)).map_or(String::new(), |(ceiling, share)| {
        let (rate, share) = (thousands(e.load.rate() as u64), percent(share));
        format!("; {rate} answers a second are {share} of an echo's ({})", ceiling.model)
    })
}

/// The answer rate as a share of the echo's.
fn share_of_ceiling(e: &Measurements) -> Option<f64> {
    let most = e.ceiling.as_ref()?.middle();
    (most > 0.0).then(|| e.load.rate() / most)
}

/// A kernel dropped before the sockets: with no CPU left for more, the side that had none; else the
/// host.
pub fn kernel_dropped(e: &Measurements) -> Option<Verdict> {
    let d = &e.drops;
    let places = [
        ("server", Cause::Server, e.server.as_ref(), d.server_softnet, "backlog (softnet_stat)"),
        ("server", Cause::Server, e.server.as_ref(), d.server_device, "device"),
        (
            "generator",
            Cause::Generator,
            e.generator.as_ref(),
            d.generator_softnet,
            "backlog (softnet_stat)",
        ),
        ("generator", Cause::Generator, e.generator.as_ref(), d.generator_device, "device"),
    ];
    let (who, cause, side, count, place) =
        places.into_iter().max_by_key(|(.., count, _)| count.unwrap_or(0))?;
    let count = count.filter(|count| is_most(*count, e))?;
    let is_busy = side.is_some_and(|side| side.busy(e.load.seconds) >= BUSY);
    let died = of_planned(count, e);
    let busy = while_busy(side, e);
    let cause = if is_busy { cause } else { Cause::Host };
    say(cause, format!("{died} died at the {who}'s {place}{busy}"))
}

/// The server read queries and gave no answer, or a wrong one.
pub fn server_silent(e: &Measurements) -> Option<Verdict> {
    if is_most(e.load.wrong, e) {
        let wrong = of_planned(e.load.wrong, e);
        return say(Cause::Server, format!("{wrong} were answered wrongly (content checked)"));
    }
    let silent = e.balance.read_server?.saturating_sub(e.balance.answered_server?);
    if !is_most(silent, e) {
        return None;
    }
    let silent = of_planned(silent, e);
    say(
        Cause::Server,
        format!("it read {silent} and did not answer them (InDatagrams, OutDatagrams)"),
    )
}

/// The generator did not read its answers.
pub fn generator_socket(e: &Measurements) -> Option<Verdict> {
    let dropped = e.drops.generator_socket.filter(|dropped| is_most(*dropped, e))?;
    let died = of_planned(dropped, e);
    let busy = while_busy(e.generator.as_ref(), e);
    say(
        Cause::Generator,
        format!("{died} answers died at the generator's socket (RcvbufErrors){busy}"),
    )
}

/// Nothing was dropped, and one side had no CPU time left: answers were late or, in a closed loop,
/// not faster.
pub fn server_busy(e: &Measurements) -> Option<Verdict> {
    let busy = |side: &Option<SideUse>| side.as_ref().map(|side| side.busy(e.load.seconds));
    let (server, generator) = (busy(&e.server)?, busy(&e.generator));
    let figure = format!(
        "the server's CPU was {} busy, the generator's {} (schedstat){}",
        percent(server),
        generator.map_or("unknown".into(), percent),
        of_ceiling(e)
    );
    match (server >= BUSY, generator.is_some_and(|g| g >= BUSY)) {
        (true, false) => say(Cause::Server, figure),
        (true, true) if !e.load.open => both_busy(e, figure),
        (false, true) if !e.load.open => say(Cause::Generator, figure),
        (false, false) if !e.load.open && share(e.load.answered, e.load.planned) >= IN_TIME => {
            say(Cause::Offered, format!("no more were asked at once (closed loop): {figure}"))
        }
        _ => None,
    }
}

/// Neither side of a closed loop had CPU left: only an echo tells which side decided, as
/// the same generator gets more unless it is itself at its end.
fn both_busy(e: &Measurements, figure: String) -> Option<Verdict> {
    let Some(share) = share_of_ceiling(e) else {
        let hint = "which of them decides would show beside an echo";
        return say(Cause::Undetermined, format!("{figure}; {hint} (--against-echo)"));
    };
    match share < HEADROOM {
        true => say(Cause::Server, figure),
        false => say(Cause::Generator, format!("{figure}: it gets no more from an echo")),
    }
}

/// No rule applies: the counts, and the unknown values.
pub fn unexplained(e: &Measurements) -> Verdict {
    let absent: Vec<&str> = e
        .balance
        .places()
        .into_iter()
        .filter_map(|(place, count)| count.is_none().then_some(place))
        .chain(e.server.is_none().then_some("the server's CPU"))
        .chain(e.generator.is_none().then_some("the generator's CPU"))
        .chain(e.drops.server_socket.is_none().then_some("drops at the server's sockets"))
        .collect();
    let lost = of_planned(e.load.lost(), e);
    let known = match vanished(e).filter(|(count, _)| is_most(*count, e)) {
        Some((count, place)) => {
            let count = thousands(count);
            format!("{count} vanished {place}, which are too few to tell from others' packets")
        }
        None => "no place holds most of them".into(),
    };
    let why = match absent.is_empty() {
        true => known,
        false => format!("{known}; not known: {}", absent.join(", ")),
    };
    let because = format!("{lost} got no answer in time; {why}");
    Verdict { cause: Cause::Undetermined, because }
}
