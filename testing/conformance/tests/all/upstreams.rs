//! Faults of upstreams, one at a time, in the middle of a steady load of unique names: what clients
//! notice.
//!
//! Two Knots serve the names, each behind a link that does what its manner says. By itself this is
//! the short form: any build, two seconds of each fault, on a machine that may be doing other
//! things, so that no answer is judged by its time. `make campaign-floods-upstreams` is the
//! campaign, which judges by what docs/reliability.md promises.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_UPSTREAMS_SECONDS` | of each fault (2) |
//! | `DUNLIN_UPSTREAMS_RATE` | queries a second (100) |
//! | `DUNLIN_UPSTREAMS_SLACK` | answers of a hundred that may be late besides (none is judged) |
//! | `DUNLIN_UPSTREAMS_AT_ONCE` | scenarios that run beside each other (6) |
//! | `DUNLIN_UPSTREAMS_ONLY` | what the names of scenarios begin with (all) |

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use conformance::Result;
use conformance::environment::{TestFolder, all_present, number};
use conformance::faulty_link::{FORGED, FaultyLink, Forgery, LinkFault, VICTIM};
use conformance::names::name;
use conformance::paced_client::{Outcome, Sum, ask, wait_for};
use conformance::server::{Launch, Server, Software};
use conformance::zone::Zone;
use test_support::wait;

/// Whose servers are at their worst.
const ZONE: &str = "fleet.test";
/// All there is to know.
const TRUTH: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// An address that the kernel sends nothing to.
const UNREACHABLE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::BROADCAST, 53);

/// What happens in the middle of the load.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The first server's process is killed.
    Kill,
    /// The first server could never be sent to.
    Unreachable,
    /// Links get these manners.
    Links(LinkFault, LinkFault),
}

/// What clients may notice.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    /// Nothing but this share of late answers, per cent.
    Right(f64),
    /// Nothing but late answers, and SERVFAIL for this share, per cent.
    Patience(f64),
    /// SERVFAIL with a reason; no query is left without an answer.
    Failure,
    /// Answers that are too old.
    Stale,
}

struct Scenario {
    name: &'static str,
    fault: Fault,
    promise: Promise,
}

const fn scenario(name: &'static str, fault: Fault, promise: Promise) -> Scenario {
    Scenario { name, fault, promise }
}

const SLOW: LinkFault = LinkFault::Slow(Duration::from_millis(300));

/// One answer in a hundred, of which issue and documents speak.
const LITTLE: Promise = Promise::Right(1.0);

fn scenarios() -> Vec<Scenario> {
    use Fault::{Kill, Links, Unreachable};
    use LinkFault::{Cutting, Failing, Fair, Lossy, Lying, OnlyLying, Silent, Truncating};
    let mut all = vec![
        scenario("no fault", Fault::None, LITTLE),
        scenario("no fault, again", Fault::None, LITTLE),
        scenario("one is killed", Kill, LITTLE),
        scenario("one falls silent", Links(Silent, Fair), LITTLE),
        scenario("one is unreachable", Unreachable, LITTLE),
        scenario("one is slow: 300 ms", Links(SLOW, Fair), LITTLE),
        scenario("both are slow: 300 ms", Links(SLOW, SLOW), Promise::Patience(0.0)),
        scenario("one loses 20 %", Links(Lossy(20), Fair), Promise::Right(3.0)),
        scenario("both lose 20 %", Links(Lossy(20), Lossy(20)), Promise::Patience(0.5)),
        scenario("one replies SERVFAIL", Links(Failing, Fair), LITTLE),
        scenario("both truncate everything", Links(Truncating, Truncating), LITTLE),
        scenario("one cuts TCP replies short", Links(Cutting, Fair), LITTLE),
        scenario("both cut TCP replies short", Links(Cutting, Cutting), Promise::Failure),
    ];
    let lies = [
        (Forgery::Id, "both send a wrong ID first", "one sends only wrong IDs"),
        (Forgery::Port, "both send a wrong port first", "one sends only wrong ports"),
        (Forgery::Query, "both send a wrong question first", "one sends only wrong questions"),
    ];
    for (lie, both, one) in lies {
        all.push(scenario(both, Links(Lying(lie), Lying(lie)), LITTLE));
        all.push(scenario(one, Links(OnlyLying(lie), Fair), LITTLE));
    }
    let others = LinkFault::OnlyLying(Forgery::Bailiwick);
    all.push(scenario("both send foreign records", Links(others, others), LITTLE));
    all.push(scenario("both fall silent", Links(Silent, Silent), Promise::Failure));
    all.push(scenario(
        "both fall silent, stale answers cached",
        Links(Silent, Silent),
        Promise::Stale,
    ));
    all.push(scenario(
        "both reply SERVFAIL, stale answers cached",
        Links(Failing, Failing),
        Promise::Stale,
    ));
    all
}

#[test]
#[ignore = "slow: statistical, under load"]
fn faults_of_upstreams_do_not_reach_clients() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let folder = TestFolder::new("upstreams").unwrap();
    let zones = [zone(&folder.path, ZONE, 1).unwrap(), zone(&folder.path, VICTIM, 2).unwrap()];
    println!("{HEAD}");
    let only = std::env::var("DUNLIN_UPSTREAMS_ONLY").unwrap_or_default();
    let mut all = scenarios();
    all.retain(|scenario| scenario.name.starts_with(&only));
    let start = |which| Server::start(Software::Knot, &zones, &folder.path.join(which)).unwrap();
    let knots = [start("first"), start("second")];
    let mut wrong = Vec::new();
    for some in all.chunks(number("DUNLIN_UPSTREAMS_AT_ONCE", 6) as usize) {
        std::thread::scope(|scope| {
            let trials: Vec<_> = some
                .iter()
                .map(|scenario| scope.spawn(|| scenario.judged(&folder.path, &zones, &knots)))
                .collect();
            for trial in trials {
                let (row, faults) = trial.join().expect("a scenario panicked");
                println!("{row}");
                wrong.extend(faults);
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every name below `origin` has an address; below `brief` in it, for a second.
fn zone(directory: &Path, origin: &str, last: u8) -> Result<Zone> {
    let text = format!(
        "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.{last}\n\
         * A 192.0.2.{last}\n*.brief 1 A 192.0.2.{last}\n"
    );
    Zone::write(directory, name(origin), &text)
}

impl Scenario {
    /// Runs it; its row, and what is not as promised.
    fn judged(&self, folder: &Path, zones: &[Zone], knots: &[Server]) -> (String, Vec<String>) {
        match self.run(&folder.join(self.name), zones, knots) {
            Ok((sum, seconds)) => (row(self.name, &sum), self.judge(&sum, seconds)),
            Err(error) => (String::new(), vec![error]),
        }
    }

    /// Has everything run without the fault, and then with it; what came of the latter, and how
    /// many seconds it was.
    fn run(&self, directory: &Path, zones: &[Zone], knots: &[Server]) -> Result<(Sum, f64)> {
        let [first, second] = knots else { return Err("two Knots".into()) };
        let links = [FaultyLink::open(first.address)?, FaultyLink::open(second.address)?];
        // A server of its own: its end must not affect the others.
        let mortal = match self.fault {
            Fault::Kill => Some(Server::start(Software::Knot, zones, directory)?),
            _ => None,
        };
        let asked = match (self.fault, &mortal) {
            (_, Some(mortal)) => [mortal.address, links[1].address],
            (Fault::Unreachable, _) => [UNREACHABLE, links[1].address],
            _ => [links[0].address, links[1].address],
        };
        let sections = format!(
            "[forward]\n\"{ZONE}\" = [\"{}\", \"{}\"]\n\"{VICTIM}\" = [\"{}\"]\n",
            asked[0], asked[1], second.address
        );
        let keys = "workers = 1";
        let launch = Launch { sections: &sections, keys, ..Launch::new(Software::Dunlin, &[]) };
        let mut dunlin = launch.start(directory)?;
        wait_for(&mut dunlin, &self.name("ready", 0))?;
        let rate = number("DUNLIN_UPSTREAMS_RATE", 100) as u32;
        let count = number("DUNLIN_UPSTREAMS_SECONDS", 2) as u32 * rate;
        let names = |what: &str, count| -> Vec<String> {
            (0..count).map(|number| self.name(what, number)).collect()
        };
        let go = |names: &[String]| ask(dunlin.address, names, rate).map_err(|e| e.to_string());
        // The state of the servers is known after a load.
        let before = go(&names("now", count.max(rate)))?;
        if let Some(other) = before.iter().find(|outcome| !outcome.is_right(&TRUTH)) {
            return Err(format!("{}: before the fault: {other:?}", self.name));
        }
        match self.fault {
            Fault::None | Fault::Unreachable => {}
            Fault::Kill => drop(mortal),
            Fault::Links(one, other) => {
                links[0].set(one);
                links[1].set(other);
            }
        }
        let outcomes = match self.promise {
            Promise::Stale => {
                // The name that was cached last has expired last.
                let last = [self.name("now", count.max(rate) - 1)];
                wait::try_until_ok("an answer that is too old", || match go(&last)?.as_slice() {
                    [outcome] if outcome.is_stale() => Ok(()),
                    other => Err(format!("{other:?}")),
                })?;
                go(&names("now", count))?
            }
            _ => go(&names("then", count))?,
        };
        if matches!(self.fault, Fault::Links(LinkFault::OnlyLying(Forgery::Bailiwick), _)) {
            self.check_victims(&go(&self.victims(count))?)?;
        }
        Ok((Sum::of(&outcomes, &TRUTH), f64::from(count) / f64::from(rate)))
    }

    fn name(&self, what: &str, number: u32) -> String {
        let brief = if self.promise == Promise::Stale { "brief." } else { "" };
        format!("{what}-{number}.{brief}{ZONE}")
    }

    /// The names that lies were about.
    fn victims(&self, count: u32) -> Vec<String> {
        (0..count).map(|number| format!("then-{number}.{VICTIM}")).collect()
    }

    fn check_victims(&self, outcomes: &[Outcome]) -> Result<()> {
        match outcomes.iter().find(|outcome| !outcome.is_right(&TRUTH)) {
            None => Ok(()),
            Some(other) if other.addresses.contains(&FORGED) => {
                Err(format!("{}: a lie was believed: {other:?}", self.name))
            }
            Some(other) => Err(format!("{}: afterwards: {other:?}", self.name)),
        }
    }

    /// What is not as promised.
    fn judge(&self, sum: &Sum, seconds: f64) -> Vec<String> {
        // Without it the machine may do other things, and what is few is too few for a share.
        let slack = std::env::var("DUNLIN_UPSTREAMS_SLACK").ok();
        let slack = slack.map(|text| text.parse::<f64>().expect("a number"));
        let is_late = |share: f64, promised: f64| slack.is_some_and(|more| share > promised + more);
        let failed_max = |promised: f64| if slack.is_some() { promised } else { 10.0 * promised };
        let mut faults = Vec::new();
        let mut check = |right: bool, what: &str| {
            if !right {
                faults.push(format!("{}: {what}: {sum:?}", self.name));
            }
        };
        check(sum.silent == 0, "silence");
        check(sum.wrong == 0, "wrong answers");
        let (failed, late) = (sum.percent(sum.failed), sum.percent(sum.late));
        // Until the failure is known, clients wait; after this time none does.
        let found_out = 100.0 * (FOUND_OUT / seconds).min(1.0);
        match self.promise {
            Promise::Right(share) => {
                check(sum.failed == 0, "SERVFAIL");
                check(!is_late(late, share), "late answers");
            }
            Promise::Patience(share) => check(failed <= failed_max(share), "SERVFAIL"),
            Promise::Failure => {
                check(sum.failed == sum.all, "answers without an upstream");
                check(sum.explained == sum.failed, "no reason is given");
                check(!is_late(late, found_out), "late failures");
            }
            Promise::Stale => {
                check(sum.stale == sum.all, "answers that are not stale");
                check(!is_late(late, found_out), "stale answers that are late");
            }
        }
        faults
    }
}

/// Seconds until a dead upstream must be noticed.
const FOUND_OUT: f64 = 1.0;

const HEAD: &str = "\
| scenario | queries | wrong or no answer | SERVFAIL | stale | > 100 ms | p50, ms | p99, ms | \
most, ms |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |";

fn row(name: &str, sum: &Sum) -> String {
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    format!(
        "| {name} | {} | {} | {:.2} % | {:.2} % | {:.2} % | {} | {} | {} |",
        sum.all,
        sum.wrong + sum.silent,
        sum.percent(sum.failed),
        sum.percent(sum.stale),
        sum.percent(sum.late),
        ms(sum.p50),
        ms(sum.p99),
        ms(sum.most)
    )
}
