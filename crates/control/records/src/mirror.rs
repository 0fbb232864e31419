//! A store with the records of another site, some of whose zones are served here.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use wire::{Name, NameBuf};

/// What is served of another site.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// The name of the site.
    pub site: String,
    /// The zones, in lower case. Until they are known, they answer SERVFAIL.
    pub zones: Vec<NameBuf>,
    /// Where it is: members of its sets that name no location are there.
    pub location: Option<String>,
    /// How long writes of the site take to get here.
    pub delay: Arc<WriteDelay>,
}

impl Mirror {
    /// The name of its source.
    pub(crate) fn source(&self) -> String {
        source_of_site(&self.site)
    }

    pub(crate) fn has(&self, origin: Name<'_>) -> bool {
        self.zones.iter().any(|zone| zone.as_name() == origin)
    }
}

/// The name of the source with the zones of a site.
pub fn source_of_site(site: &str) -> String {
    format!("site {site}")
}

/// How long the last write took from its writer to this server, by the clocks of both.
#[derive(Debug, Default)]
pub struct WriteDelay(AtomicU64);

impl WriteDelay {
    pub(crate) fn record(&self, written: SystemTime) {
        let delay = SystemTime::now().duration_since(written).unwrap_or_default();
        self.0.store(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    /// The delay; `None`: nothing was written since the start.
    pub fn last(&self) -> Option<Duration> {
        Some(self.0.load(Relaxed)).filter(|delay| *delay > 0).map(Duration::from_millis)
    }
}
