//! Whose names others are asked about: what each thread needs for it.
use crate::config::{Cache, Config, Forward};
use answer::Lifetimes;
use image::{ForwardRule, Forwards};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use upstream::{Asker, Plan, Servers};

/// What all threads share.
#[derive(Clone, Debug)]
pub struct Abroad {
    rules: Arc<[ForwardRule]>,
    plan: Plan,
}

impl Abroad {
    /// As a config says, for so many threads; nothing where nobody is asked.
    pub fn new(config: &Config, threads: usize) -> Option<Self> {
        let Config { forwards, cache, .. } = config;
        if forwards.is_empty() {
            return None;
        }
        let rule = |(group, forward): (usize, &Forward)| ForwardRule {
            suffix: forward.suffix.clone(),
            group: group as u16,
        };
        let mut rules: Vec<_> = forwards.iter().enumerate().map(rule).collect();
        Forwards::sort(&mut rules);
        Some(Self { rules: rules.into(), plan: plan(forwards, cache, threads) })
    }

    /// The names.
    pub fn forwards(&self) -> Forwards<'_> {
        Forwards::new(&self.rules)
    }

    /// Who asks, for one thread.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn asker(&self) -> io::Result<Asker> {
        Asker::new(self.plan.clone())
    }
}

fn plan(forwards: &[Forward], cache: &Cache, threads: usize) -> Plan {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let servers = |forward: &Forward| Servers {
        suffix: forward.suffix.clone(),
        addresses: forward.servers.clone(),
        mixes_case: true,
        caches: true,
    };
    Plan {
        groups: forwards.iter().map(servers).collect(),
        cache_len: usize::try_from(cache.memory).unwrap_or(usize::MAX) / threads.max(1),
        lifetimes: Lifetimes {
            ttl_min: seconds(cache.ttl_min),
            ttl_max: seconds(cache.ttl_max),
            negative_ttl_max: seconds(cache.negative_ttl_max),
        },
        stale_max: seconds(cache.stale),
    }
}
