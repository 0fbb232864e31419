//! The forward rules in use, and the numbers of their groups and servers in the threads.
use crate::limits::GROUP_RETIRED;
use answer::TtlLimits;
use config::{Config, Forward, Mode};
use forward::limits::UPSTREAMS_MAX;
use handler::Forwarding;
use image::ForwardRule;
use std::time::{Duration, Instant};
use upstream::{ResolverPlan, ServerMarks, TrustAnchors, UpstreamServers};
use wire::NameBuf;

/// The rules in use. A group that stays keeps its numbers, so that its queries continue; a new one
/// gets numbers that no query under way has.
#[derive(Clone, Debug)]
pub struct ForwardTable {
    rules: Vec<Forward>,
    plan: ResolverPlan,
    /// When each group of the plan was retired.
    retired_at: Vec<Option<Instant>>,
}

/// What a change means for the threads.
#[derive(Debug, Default)]
pub struct ForwardChange {
    /// The threads have to follow the plan with this serial; `None`: nothing has changed.
    pub serial: Option<u16>,
    /// Names at and below these suffixes are answered by other rules: what is cached of them is
    /// wrong.
    pub flush: Vec<NameBuf>,
}

impl ForwardTable {
    /// The rules of a config, for this many threads.
    pub fn new(
        config: &Config,
        rules: &[Forward],
        threads: usize,
        trust: Option<TrustAnchors>,
    ) -> Self {
        let cache = &config.cache;
        let plan = ResolverPlan {
            serial: 0,
            marks: ServerMarks::new(UPSTREAMS_MAX),
            groups: Vec::new(),
            cache_len: usize::try_from(cache.memory).unwrap_or(usize::MAX) / threads.max(1),
            lifetimes: TtlLimits {
                ttl_min: seconds(cache.ttl_min),
                ttl_max: seconds(cache.ttl_max),
                negative_ttl_max: seconds(cache.negative_ttl_max),
            },
            stale_max: seconds(cache.stale),
            failure_ttl: seconds(cache.failure_ttl),
            trust,
        };
        let mut table = Self { rules: Vec::new(), plan, retired_at: Vec::new() };
        table.change(rules, None, Instant::now()).expect("the config has no more servers than fit");
        table
    }

    /// Uses other rules from now on. `trust`: anchors that were not known before.
    ///
    /// # Errors
    /// Too many servers change at once: the old ones, whose queries are in progress, leave no room.
    /// Then nothing has changed.
    pub fn change(
        &mut self,
        rules: &[Forward],
        trust: Option<TrustAnchors>,
        now: Instant,
    ) -> Result<ForwardChange, String> {
        if self.plan.trust.is_none() {
            self.plan.trust = trust;
        }
        if rules == self.rules {
            return Ok(ForwardChange::default());
        }
        let mut groups = self.plan.groups.clone();
        let mut retired_at = self.retired_at.clone();
        let wanted: Vec<_> = rules.iter().filter(|rule| rule.mode.asks()).map(servers).collect();
        for (group, at) in groups.iter_mut().zip(&mut retired_at) {
            if !group.is_retired && !wanted.iter().any(|one| one.is_like(group)) {
                (group.is_retired, *at) = (true, Some(now));
            }
            // Its numbers are free again.
            if at.is_some_and(|at| now - at >= GROUP_RETIRED) {
                group.addresses.clear();
            }
        }
        let mut begun = Vec::new();
        for servers in wanted {
            if groups.iter().any(|group| !group.is_retired && servers.is_like(group)) {
                continue;
            }
            let first = free_range(&groups, servers.addresses.len()).ok_or_else(no_room)?;
            begun.extend((first..).take(servers.addresses.len()));
            let new = UpstreamServers { first, ..servers };
            match groups.iter().position(|group| group.is_retired && group.addresses.is_empty()) {
                Some(number) => (groups[number], retired_at[number]) = (new, None),
                None => {
                    groups.push(new);
                    retired_at.push(None);
                }
            }
        }
        begun.into_iter().for_each(|server| self.plan.marks.begin(server));
        let flush = other_suffixes(&self.rules, rules);
        self.plan.serial += 1;
        (self.plan.groups, self.retired_at, self.rules) = (groups, retired_at, rules.to_vec());
        Ok(ForwardChange { serial: Some(self.plan.serial as u16), flush })
    }

    /// What the threads read; `None` if no rule ever had a server.
    pub fn forwarding(&self) -> Option<Forwarding> {
        if self.plan.groups.is_empty() {
            return None;
        }
        let rule = |rule: &Forward| {
            let group = match rule.mode {
                Mode::Cache | Mode::Direct => self.group(rule)?,
                Mode::Off => ForwardRule::NO_GROUP,
                Mode::Local => return None,
            };
            Some(ForwardRule { suffix: rule.suffix.clone(), group })
        };
        Some(Forwarding::new(self.rules.iter().filter_map(rule).collect(), self.plan.clone()))
    }

    /// Whether there are no trust anchors yet.
    pub fn lacks_trust(&self) -> bool {
        self.plan.trust.is_none()
    }

    /// The suffix of a group of the plan, and its servers.
    pub fn upstreams(&self, group: u16) -> Option<(&NameBuf, Vec<String>)> {
        let rule = self.rules.iter().find(|rule| self.group(rule) == Some(group))?;
        Some((&rule.suffix, rule.servers.iter().map(ToString::to_string).collect()))
    }

    fn group(&self, rule: &Forward) -> Option<u16> {
        let wanted = servers(rule);
        let is_it = |group: &UpstreamServers| !group.is_retired && wanted.is_like(group);
        self.plan.groups.iter().position(is_it).map(|number| number as u16)
    }

    /// The upstreams: number in the threads, suffix, and name.
    pub fn servers(&self) -> impl Iterator<Item = (u16, String, String)> {
        self.rules.iter().flat_map(|rule| {
            let first =
                self.group(rule).map_or(0, |group| self.plan.groups[usize::from(group)].first);
            let suffix = rule.suffix.as_name();
            let server = move |(number, server): (u16, &config::ServerAddress)| {
                (number, suffix.to_string(), server.to_string())
            };
            (first..).zip(&rule.servers).map(server)
        })
    }

    /// The numbers of an upstream, one for each suffix. A port of 53 may be left out.
    ///
    /// # Errors
    /// The config has no such upstream; the error lists those that it has.
    pub fn find_server(&self, text: &str) -> Result<Vec<(u16, String)>, String> {
        let texts = [text.to_owned(), format!("{text}:53"), format!("[{text}]:53")];
        let found: Vec<_> = self
            .servers()
            .filter(|(_, _, server)| texts.contains(server))
            .map(|(number, suffix, _)| (number, suffix))
            .collect();
        if found.is_empty() {
            let mut known: Vec<String> = self.servers().map(|(_, _, server)| server).collect();
            known.sort_unstable();
            known.dedup();
            let known = known.join(", ");
            return Err(format!("[forward] names no server {text}; those that it names: {known}"));
        }
        Ok(found)
    }
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// The servers of a rule, without their numbers.
fn servers(rule: &Forward) -> UpstreamServers {
    UpstreamServers {
        first: 0,
        suffix: rule.suffix.clone(),
        addresses: rule.servers.iter().map(|server| server.address.clone()).collect(),
        mixes_case: rule.mix_case,
        fixed_ports: rule.fixed_ports,
        caches: rule.mode == Mode::Cache,
        ttl_max: rule.ttl_max.map(seconds),
        is_retired: false,
    }
}

/// The first of so many numbers in a row that no group has.
fn free_range(groups: &[UpstreamServers], len: usize) -> Option<u16> {
    let mut is_free = [true; UPSTREAMS_MAX];
    for group in groups {
        let first = usize::from(group.first);
        is_free[first..first + group.addresses.len()].fill(false);
    }
    let first = is_free.windows(len.max(1)).position(|range| range.iter().all(|free| *free));
    first.map(|first| first as u16)
}

fn no_room() -> String {
    let seconds = GROUP_RETIRED.as_secs();
    format!(
        "[forward]: too many servers change at once: old and new ones together are more than \
         {UPSTREAMS_MAX}; change some of them, and reload the rest after {seconds} s, or restart"
    )
}

/// The suffixes whose names are treated in another way now, except by other servers.
fn other_suffixes(old: &[Forward], new: &[Forward]) -> Vec<NameBuf> {
    fn treated(rule: &Forward) -> (&NameBuf, Mode, Option<Duration>) {
        (&rule.suffix, rule.mode, rule.ttl_max)
    }
    let has = |rules: &[Forward], rule: &Forward| {
        rules.iter().any(|other| treated(other) == treated(rule))
    };
    let gone = old.iter().filter(|rule| !has(new, rule));
    let come = new.iter().filter(|rule| !has(old, rule));
    let mut suffixes: Vec<NameBuf> = gone.chain(come).map(|rule| rule.suffix.clone()).collect();
    suffixes.dedup();
    suffixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn rules(text: &str) -> Vec<Forward> {
        Config::parse(Path::new("f"), text).expect("a config").forwards
    }

    fn table(text: &str) -> ForwardTable {
        ForwardTable::new(&Config::parse(Path::new("f"), "").expect("one"), &rules(text), 1, None)
    }

    fn numbers(table: &ForwardTable) -> Vec<(u16, String)> {
        table.servers().map(|(number, _, server)| (number, server)).collect()
    }

    const OLD: &str = "forward.\".\" = [\"192.0.2.1\", \"192.0.2.2\"]\n\
                       forward.corp = [\"192.0.2.3\"]";

    #[test]
    fn group_that_stays_keeps_its_numbers_and_a_new_one_takes_none_in_use() {
        let (mut table, now) = (table(OLD), Instant::now());
        let new = rules("forward.\".\" = [\"192.0.2.2\"]\nforward.corp = [\"192.0.2.3\"]");
        let change = table.change(&new, None, now).expect("room");
        assert!(change.serial.is_some() && change.flush.is_empty(), "{change:?}");
        assert_eq!(numbers(&table), [(3, "192.0.2.2".into()), (2, "192.0.2.3".into())]);
        let again = table.change(&new, None, now).expect("room");
        assert_eq!(again.serial, None);
        // Old numbers are free once no query can have them.
        table.change(&rules(OLD), None, now).expect("room");
        assert_eq!(numbers(&table)[0], (4, "192.0.2.1".into()));
        table.change(&new, None, now + GROUP_RETIRED).expect("room");
        assert_eq!(numbers(&table)[0], (0, "192.0.2.2".into()));
    }

    #[test]
    fn names_with_another_rule_are_flushed() {
        let mut table = table(OLD);
        let new = rules("forward.\".\" = [\"192.0.2.1\"]\nforward.corp = { mode = \"off\" }");
        let change = table.change(&new, None, Instant::now()).expect("room");
        let flushed: Vec<_> = change.flush.iter().map(|it| it.as_name().to_string()).collect();
        assert_eq!(flushed, ["corp."]);
        assert_eq!(table.forwarding().expect("rules").plan().groups.len(), 3);
        let shorter = rules("forward.\".\" = { servers = [\"192.0.2.1\"], ttl_max = \"1s\" }");
        let change = table.change(&shorter, None, Instant::now()).expect("room");
        assert!(change.flush.iter().any(|it| it.as_name().is_root()), "{change:?}");
        let plan = table.forwarding().expect("rules").plan().clone();
        let limits: Vec<_> = plan.groups.iter().filter_map(|group| group.ttl_max).collect();
        assert_eq!(limits, [1]);
    }

    #[test]
    fn too_many_changes_at_once_are_refused() {
        let many = |net: u8| {
            let rule = |group: u8| {
                let servers: Vec<_> =
                    (0..16).map(|host| format!("\"192.0.{net}.{}\"", group * 16 + host)).collect();
                format!("forward.z{group} = [{}]\n", servers.join(", "))
            };
            rules(&(0..9).map(rule).collect::<String>())
        };
        let (mut table, now) = (table(""), Instant::now());
        table.change(&many(1), None, now).expect("room");
        let error = table.change(&many(2), None, now).expect_err("no room");
        assert!(error.contains("256"), "{error}");
        assert_eq!(table.rules, many(1));
        // The previous ones are still in use: their numbers are not free after any time.
        table.change(&many(2), None, now + GROUP_RETIRED).expect_err("no room");
    }
}
