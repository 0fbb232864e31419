//! Findings of the originals, evaluated by today's runs.

use lab::record::RunRecord;
use lab::verdict::{Cause, percent, thousands};

use crate::statistics::line_through;

use super::{
    Finding, FindingOutcome, Group, Range, Step, StudyName, core_sets, interval_rates, kdns,
};

/// Seconds of the original's soak.
const SOAK_S: f64 = 1_200.0;

/// The findings of a study, in the original's order.
pub fn evaluate(name: StudyName, cpus: usize, steps: &[Step], runs: &[RunRecord]) -> Vec<Finding> {
    let study = Evaluation { cpus, steps, runs };
    match name {
        StudyName::Isc2015 => study.isc_2015(),
        StudyName::Bind2008 => study.bind_2008(),
        StudyName::Kdns => study.kdns(),
        // It measures no servers: `crate::fabric` has its statements.
        StudyName::Heretic2019 => Vec::new(),
    }
}

struct Evaluation<'a> {
    cpus: usize,
    steps: &'a [Step],
    runs: &'a [RunRecord],
}

pub(super) fn finding(claim: &str, outcome: FindingOutcome, because: impl Into<String>) -> Finding {
    Finding { claim: claim.into(), outcome, because: because.into() }
}

pub(super) fn holds(is_so: bool) -> FindingOutcome {
    if is_so { FindingOutcome::Holds } else { FindingOutcome::DoesNotHold }
}

/// The difference of two means that counts as none where the original calls a curve flat.
const FLAT: f64 = 0.2;

/// How the ranges of repeated runs of two settings lie.
pub(super) fn ranges(low: &Range, high: &Range) -> &'static str {
    match (high.is_above(low), low.is_above(high)) {
        (true, _) => "the ranges of their runs do not overlap",
        (_, true) => "all of its runs are below",
        _ => "the ranges of repeated runs overlap",
    }
}

pub(super) fn rate(range: Range) -> String {
    let [min, mean, max] = [range.min, range.mean, range.max].map(|v| thousands(v.round() as u64));
    format!("{mean}/s ({min} to {max})")
}

impl Evaluation<'_> {
    fn step(&self, key: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.key == key && step.skipped.is_empty())
    }

    /// Why a step has no result.
    fn missing(&self, claim: &str, key: &str) -> Finding {
        let step = self.steps.iter().find(|step| step.key == key);
        let why = step.map(|step| step.skipped.as_str()).filter(|why| !why.is_empty());
        finding(claim, FindingOutcome::NotVisible, why.unwrap_or("its step was not run"))
    }

    /// The finding, unless most runs of these steps were limited by what else the host did: then
    /// they support it as little as its contrary.
    fn unless_host(&self, keys: &[&str], finding: Finding) -> Finding {
        let groups = keys.iter().filter_map(|key| self.step(key)).flat_map(|step| &step.groups);
        self.unless_limited(groups, Cause::Host, ", which prove nothing", finding)
    }

    /// The finding, unless it does not hold and the generator limited most runs of a setting, which
    /// may then be faster than measured.
    fn unless_generator(&self, key: &str, label: &str, finding: Finding) -> Finding {
        if finding.outcome == FindingOutcome::Holds {
            return finding;
        }
        let groups = self.step(key).into_iter().flat_map(|step| &step.groups);
        let groups = groups.filter(|group| group.label == label);
        let so = format!(" of {label}, whose own rate may be higher");
        self.unless_limited(groups, Cause::Generator, &so, finding)
    }

    /// The finding, unless this limited most runs of these groups: then it is not visible, and `so`
    /// says what that means.
    fn unless_limited<'g>(
        &self,
        groups: impl Iterator<Item = &'g Group>,
        cause: Cause,
        so: &str,
        finding: Finding,
    ) -> Finding {
        let runs: Vec<&RunRecord> =
            groups.flat_map(|group| &group.runs).filter_map(|at| self.runs.get(*at)).collect();
        let limited = runs.iter().filter(|run| run.derived.verdict.cause == cause).count();
        if limited * 2 <= runs.len() || finding.outcome == FindingOutcome::NotVisible {
            return finding;
        }
        let because = format!(
            "the {} limited {limited} of {} runs{so}: {}",
            cause.name(),
            runs.len(),
            finding.because
        );
        Finding { outcome: FindingOutcome::NotVisible, because, ..finding }
    }

    /// Compares the best groups of two steps: whether the second is above the first.
    fn above(&self, claim: &str, first: &str, second: &str) -> Finding {
        let best = |key: &str| self.step(key).and_then(Step::best);
        let (Some((_, low)), Some((group, high))) = (best(first), best(second)) else {
            return self.missing(claim, if best(first).is_none() { first } else { second });
        };
        let more = percent((high.mean / low.mean - 1.0).abs());
        let word = if high.mean >= low.mean { "above" } else { "below" };
        let because = format!(
            "{} at {} is {more} {word} {}; {}",
            rate(high),
            group.label,
            rate(low),
            ranges(&low, &high)
        );
        let found = finding(claim, holds(high.is_above(&low)), because);
        self.unless_host(&[first, second], found)
    }

    /// Why the runs of a step were limited, by the most frequent verdict.
    fn cause(&self, key: &str, number: Option<f64>) -> String {
        let groups = self.step(key).into_iter().flat_map(|step| &step.groups);
        let groups = groups.filter(|group| number.is_none_or(|number| group.number == number));
        let runs = groups.flat_map(|group| &group.runs).filter_map(|index| self.runs.get(*index));
        let verdicts: Vec<_> = runs.map(|run| &run.derived.verdict).collect();
        match lab::compare::common(&verdicts) {
            Some(verdict) if !verdicts.is_empty() => format!("today's limit: {verdict}"),
            _ => "no run names a limit".into(),
        }
    }

    fn isc_2015(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        let flat = "With the default client, more processes give no more answers (flat, 239 k/s)";
        all.push(match self.step("default-client") {
            Some(step) if step.groups.len() > 1 => {
                let ranges: Vec<Range> = step.groups.iter().filter_map(|g| g.range).collect();
                let means: Vec<f64> = ranges.iter().map(|range| range.mean).collect();
                let spread = Range::of(&means).map_or(0.0, |all| all.max / all.min - 1.0);
                let because = format!(
                    "means of {} process counts differ by {} (up to {} counts as flat); {}",
                    means.len(),
                    percent(spread),
                    percent(FLAT),
                    self.cause("default-client", None)
                );
                let found = finding(flat, holds(spread <= FLAT), because);
                self.unless_host(&["default-client"], found)
            }
            _ => self.missing(flat, "default-client"),
        });
        let tuned = "A tuned client shows a higher maximum (348 k/s, +45 %): the first figure was \
                     the client's";
        all.push(match self.stayed_at_first_client() {
            true => finding(
                tuned,
                FindingOutcome::NotVisible,
                "no other client got more than the default one by more than equal runs differ, so \
                 the steps with the tuned client repeat it",
            ),
            false => self.above(tuned, "default-client", "tuned-client"),
        });
        let steered = "With all receive work on one core the maximum is lower";
        let mut steered_result = self.above(steered, "one-receive-core", "tuned-client");
        steered_result.claim = steered.into();
        all.push(steered_result);
        all.push(self.more_processes());
        for (key, claim, least) in [
            (
                "each-core",
                "The core that shares its cache with the receiving core is the fastest",
                3,
            ),
            ("pairs", "The best pair is the receiving core with its cache neighbor", 3),
            ("larger-sets", "Three or four cores are no better than the best pair", 4),
        ] {
            all.push(if self.cpus < least {
                let because = format!(
                    "servers have {} CPU here; {least} beside the generator's, and a cache that \
                     only some of them share, are needed",
                    self.cpus
                );
                finding(claim, FindingOutcome::NotVisible, because)
            } else {
                let found = match key {
                    "each-core" => self.step(key).map(|step| core_sets::nearest(claim, step)),
                    "pairs" => self.step(key).map(|step| core_sets::nearest_pair(claim, step)),
                    _ => self
                        .step(key)
                        .zip(self.step("pairs"))
                        .map(|(sets, pairs)| core_sets::larger(claim, sets, pairs)),
                };
                match found {
                    Some(found) => self.unless_host(&[key], found),
                    None => self.missing(claim, key),
                }
            });
        }
        all.push(self.queues());
        all
    }

    /// Whether the search for a client ended at the one that it began with.
    fn stayed_at_first_client(&self) -> bool {
        let first = self.step("client-search").and_then(|step| step.groups.first());
        let tuned = self.step("tuned-client").map(|step| step.title.as_str());
        first.zip(tuned).is_some_and(|(first, tuned)| tuned.contains(&format!("({})", first.label)))
    }

    /// ISC's open question: why four and more processes are slower.
    fn more_processes(&self) -> Finding {
        let claim = "Four and more processes are slower than two or three (cause unknown)";
        let Some(step) = self.step("tuned-client") else {
            return self.missing(claim, "tuned-client");
        };
        let many = step.groups.iter().filter(|group| group.number >= 4.0);
        let many = many.filter_map(|group| Some((group, group.range?)));
        let many = many.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        let few = step.groups.iter().filter(|group| group.number < 4.0);
        let few = few.filter_map(|group| group.range).max_by(|a, b| a.mean.total_cmp(&b.mean));
        match (few, many) {
            (Some(few), Some((group, many))) => {
                let because = format!(
                    "the best of one to three processes answers {}, {} {}; {}; {}",
                    rate(few),
                    group.label,
                    rate(many),
                    ranges(&few, &many),
                    self.cause("tuned-client", Some(group.number))
                );
                let found = finding(claim, holds(few.is_above(&many)), because);
                self.unless_host(&["tuned-client"], found)
            }
            _ => {
                let because = format!("process counts reach twice the CPUs, {}", 2 * self.cpus);
                finding(claim, FindingOutcome::NotVisible, because)
            }
        }
    }

    /// ISC's open question: why only three queues were used.
    fn queues(&self) -> Finding {
        let claim = "Only three of the queues received packets (cause unknown)";
        let used = |run: &RunRecord| {
            let cpus = run.interrupts.net_rx.iter();
            let most = cpus.clone().copied().max().unwrap_or(0);
            (cpus.clone().filter(|count| **count * 20 > most).count(), cpus.len())
        };
        let busiest = self.runs.iter().map(used).max();
        let Some((busy, all)) = busiest.filter(|_| self.cpus > 1) else {
            return finding(
                claim,
                FindingOutcome::NotVisible,
                "the wire between two hosts of one machine has one queue for each direction. The \
                 original's client had one address and at most eight ports: a hash puts eight \
                 flows on about five of eight queues. A network card with several queues is needed",
            );
        };
        let because = format!("at most {busy} of {all} CPUs received (NET_RX)");
        finding(claim, holds(busy < all), because)
    }

    fn bind_2008(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        for (key, claim) in [
            ("hits-cores", "Hits: eight cores answer 3.2 times as much as one"),
            ("unique-cores", "Unique names: eight cores answer 2.5 times as much as one"),
        ] {
            all.push(match self.step(key).map(|step| (step.at(1.0), step.best())) {
                Some((Some(one), Some((best, range)))) if best.number > 1.0 => {
                    let speedup = range.mean / one.mean;
                    let because = format!(
                        "{speedup:.2} times with {}; {}",
                        best.label,
                        self.cause(key, Some(best.number))
                    );
                    let found = finding(claim, holds(range.is_above(&one)), because);
                    self.unless_host(&[key], found)
                }
                Some((Some(one), _)) => {
                    let because = format!("one core answers {}; no more are to be had", rate(one));
                    finding(claim, FindingOutcome::NotVisible, because)
                }
                _ => self.missing(claim, key),
            });
        }
        all.push(self.above(
            "Hits are answered faster than unique names",
            "unique-cores",
            "hits-cores",
        ));
        let delay = "With 20 ms to the authoritative server, unique names are answered more slowly";
        all.push(self.above(delay, "delay", "relay"));
        let pool = "The pool of source ports costs throughput of unique names";
        all.push(self.above(pool, "random-ports", "one-port"));
        all.push(self.processes());
        all
    }

    /// The sum of pinned processes beside one process on all cores.
    fn processes(&self) -> Finding {
        let claim = "Processes pinned to a core each do about as much as one on all cores";
        let one = self.step("hits-cores").and_then(Step::best);
        let (Some(step), Some((group, one))) = (self.step("processes"), one) else {
            return self.missing(claim, "processes");
        };
        let ranges: Vec<Range> = step.groups.iter().filter_map(|group| group.range).collect();
        let sum: f64 = ranges.iter().map(|range| range.mean).sum();
        let because = format!(
            "{} processes answer {}/s together, {} {}",
            ranges.len(),
            thousands(sum.round() as u64),
            group.label,
            rate(one)
        );
        let found = finding(claim, holds((sum / one.mean - 1.0).abs() <= 0.2), because);
        self.unless_host(&["hits-cores", "processes"], found)
    }

    fn kdns(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        for (other, times) in [("bind", 20.0), ("coredns", 50.0)] {
            let claim = format!("KDNS answers {times} times as much as {other}");
            let step = self.step("one-name");
            let find = |name: &str| {
                let groups = step.into_iter().flat_map(|step| &step.groups);
                groups.filter(|group| group.label == name).find_map(|group| group.range)
            };
            all.push(match (find("dunlin"), find(other)) {
                (Some(ours), Some(theirs)) => {
                    let ratio = ours.mean / theirs.mean;
                    let because = format!(
                        "dunlin {}, {other} {}: {ratio:.2} times, on the same CPUs",
                        rate(ours),
                        rate(theirs)
                    );
                    let found = finding(&claim, holds(ratio >= times), because);
                    let found = self.unless_generator("one-name", "dunlin", found);
                    self.unless_host(&["one-name"], found)
                }
                (Some(_), None) => {
                    let because = format!("{other} was not measured; the limits say why");
                    finding(&claim, FindingOutcome::NotVisible, because)
                }
                _ => self.missing(&claim, "one-name"),
            });
        }
        let claim = "50,000 names are answered nearly as fast as one (8.36 of 8.80 M/s)";
        let best = |key: &str| {
            let groups = self.step(key)?.groups.iter();
            groups.filter(|group| group.label == "dunlin").find_map(|group| group.range)
        };
        all.push(match (best("one-name"), best("many-names")) {
            (Some(one), Some(many)) => {
                let ratio = many.mean / one.mean;
                let because = format!("{ratio:.2} of one name's rate");
                let found = finding(claim, holds(ratio >= 0.9), because);
                let found = self.unless_generator("many-names", "dunlin", found);
                self.unless_host(&["one-name", "many-names"], found)
            }
            _ => self.missing(claim, "many-names"),
        });
        all.push(self.mean_time());
        all.push(kdns::slowest(self.step("one-client"), self.runs));
        all.push(self.soak());
        all.push(kdns::with_hanging_queries(self.step("hanging"), self.runs));
        all.push(self.records());
        all
    }

    /// Mean response time of one client.
    fn mean_time(&self) -> Finding {
        let claim = "A query takes less time at KDNS than at BIND (68 against 102 µs, one client)";
        let mean_us = |label: &str| {
            let step = self.step("one-client")?;
            let group = step.groups.iter().find(|group| group.label == label)?;
            let runs = group.runs.iter().filter_map(|index| self.runs.get(*index));
            let times: Vec<f64> = runs.filter_map(mean_ns).collect();
            (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64 / 1e3)
        };
        match (mean_us("dunlin"), mean_us("bind")) {
            (Some(ours), Some(theirs)) => {
                let because = format!("dunlin {ours:.0} µs, bind {theirs:.0} µs on average");
                let found = finding(claim, holds(ours < theirs), because);
                self.unless_host(&["one-client"], found)
            }
            _ => self.missing(claim, "one-client"),
        }
    }

    fn soak(&self) -> Finding {
        let claim = "Answers stay steady over 20 minutes";
        let run =
            self.step("soak").and_then(|step| self.runs.get(*step.groups.first()?.runs.first()?));
        let Some(run) = run else { return self.missing(claim, "soak") };
        let worst = interval_rates(run).fold(f64::INFINITY, f64::min);
        let planned = run.rate.unwrap_or(run.derived.answered_rate);
        let because = format!(
            "{:.0} s at {}/s: the worst interval has {} of that, {} of all queries were answered \
             in time",
            run.seconds,
            thousands(planned.round() as u64),
            percent(worst / planned),
            percent(run.derived.in_time)
        );
        let outcome = match worst >= 0.9 * planned {
            true if run.seconds < SOAK_S => FindingOutcome::NotVisible,
            is_steady => holds(is_steady),
        };
        let found = finding(claim, outcome, because);
        self.unless_host(&["soak"], self.unless_generator("soak", "dunlin", found))
    }

    /// Memory of a record, by a line through the sizes that were loaded.
    fn records(&self) -> Finding {
        let claim = "2 billion records fit into one server";
        let Some(step) = self.step("records") else { return self.missing(claim, "records") };
        let resident = |group: &Group| {
            let run = self.runs.get(*group.runs.first()?)?;
            Some((group.number, run.resident? as f64))
        };
        let points: Vec<(f64, f64)> = step.groups.iter().filter_map(resident).collect();
        let Some((bytes, base)) = line_through(&points) else {
            return self.missing(claim, "records");
        };
        let miss = |(n, y): &(f64, f64)| (y - base - bytes * n).abs() / y.max(1.0);
        let error = points.iter().map(miss).reduce(f64::max).unwrap_or(0.0);
        let of_size =
            |(n, y): &(f64, f64)| format!("{} in {:.2} GB", thousands(*n as u64), y / 1e9);
        let loaded: Vec<String> = points.iter().map(of_size).collect();
        let because = format!(
            "{bytes:.0} bytes for each record ({}): 2 billion need about {:.0} GB ± {}. They were \
             not loaded",
            loaded.join(", "),
            (bytes * 2e9 + base) / 1e9,
            percent(error)
        );
        finding(claim, FindingOutcome::NotVisible, because)
    }
}

/// The mean response time of a run, ns.
pub fn mean_ns(run: &RunRecord) -> Option<f64> {
    let count = run.response.count();
    let sum: f64 = run.response.0.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
    (count > 0).then(|| sum / count as f64)
}
