//! What other sources have of the zones of a source, which hides it.
use crate::Shared;
use crate::answer::Stopped;
use crate::queue::{Progress, SourceId};
use compile::Zone;
use std::sync::Arc;
use tokio::sync::watch;
use wire::NameBuf;

/// The content that sources of lesser kinds have of some zones, as it changes.
pub struct HiddenZones {
    shared: Arc<Shared>,
    source: SourceId,
    origins: Vec<NameBuf>,
    known: Vec<Option<Arc<Zone>>>,
    progress: watch::Receiver<Progress>,
}

impl HiddenZones {
    pub(crate) fn new(shared: Arc<Shared>, source: SourceId, origins: Vec<NameBuf>) -> Self {
        let (known, progress) = (vec![None; origins.len()], shared.queue.progress.subscribe());
        Self { shared, source, origins, known, progress }
    }

    /// The zones whose hidden content is another one, by their numbers, and that content. The first
    /// call returns at once what there is. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The zone manager has ended.
    pub async fn next(&mut self) -> Result<Vec<(usize, Option<Arc<Zone>>)>, Stopped> {
        loop {
            self.progress.borrow_and_update();
            let changed = self.changed();
            if !changed.is_empty() {
                for (at, content) in &changed {
                    self.known[*at] = content.clone();
                }
                return Ok(changed);
            }
            self.progress.changed().await.map_err(|_| Stopped)?;
            if self.progress.borrow().has_ended {
                return Err(Stopped);
            }
        }
    }

    fn changed(&self) -> Vec<(usize, Option<Arc<Zone>>)> {
        let state = self.shared.catalog.state();
        let now = self.origins.iter().map(|origin| state.hidden(self.source, origin.as_name()));
        let is_other = |(at, now): &(usize, Option<Arc<Zone>>)| match (&self.known[*at], now) {
            (Some(known), Some(now)) => !Arc::ptr_eq(known, now),
            (known, now) => known.is_some() != now.is_some(),
        };
        now.enumerate().filter(is_other).collect()
    }
}
