//! The forwarded names, and their rules.
use image::{ForwardRule, Forwards};
use std::io;
use upstream::{ResolverPlan, UpstreamClient};

/// The forward rules, and the servers of all threads.
#[derive(Clone, Debug)]
pub struct Forwarding {
    rules: Vec<ForwardRule>,
    plan: ResolverPlan,
}

impl Forwarding {
    /// Forwarding by these rules, in any order, to the servers of a plan.
    pub fn new(mut rules: Vec<ForwardRule>, plan: ResolverPlan) -> Self {
        Forwards::sort(&mut rules);
        Self { rules, plan }
    }

    /// The rules, as `answer` reads them.
    pub fn rules(&self) -> Forwards<'_> {
        Forwards::new(&self.rules)
    }

    /// The servers.
    pub fn plan(&self) -> &ResolverPlan {
        &self.plan
    }

    /// The upstream client of one thread.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn client(&self) -> io::Result<UpstreamClient> {
        UpstreamClient::new(self.plan.clone())
    }
}
