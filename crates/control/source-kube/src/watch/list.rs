//! A list in pages, for servers without streaming lists, and the bounds of a list.
use super::{End, Sink, Stream, StreamEvent};
use crate::body::{ReadError, read_whole};
use crate::failure::{Cause, Failure};
use crate::limits::{Bounds, PAGE_LEN_MAX};
use crate::objects::Kind;
use kube_api::encode;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

#[derive(Deserialize)]
#[serde(bound = "R: serde::de::DeserializeOwned")]
pub(super) struct Page<R> {
    kind: Box<str>,
    pub metadata: PageMeta,
    #[serde(default)]
    items: Option<Vec<R>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    pub resource_version: Box<str>,
    #[serde(rename = "continue", default)]
    next: Option<Box<str>>,
}

impl<R> Page<R> {
    /// The objects of a list. An answer that is not a list is not an empty one.
    pub fn objects(self, kind: &str) -> Result<(Vec<R>, PageMeta), Failure> {
        match &*self.kind == kind && !self.metadata.resource_version.is_empty() {
            true => Ok((self.items.unwrap_or_default(), self.metadata)),
            false => Err(Failure::new(Cause::Malformed, format!("the response is no {kind}"))),
        }
    }
}

/// The remaining budget of a list. A server can list without end.
pub(super) struct Budget {
    until: Instant,
    bytes: u64,
    objects: u64,
}

impl Budget {
    pub fn new(bounds: &Bounds) -> Self {
        let until = Instant::now() + bounds.list_time_max;
        Self { until, bytes: bounds.list_len_max, objects: bounds.objects_max }
    }

    /// Takes bytes and objects from it.
    pub fn take(&mut self, bytes: usize, objects: usize) -> Result<(), Failure> {
        let left = self
            .bytes
            .checked_sub(bytes as u64)
            .zip(self.objects.checked_sub(objects as u64).filter(|_| Instant::now() < self.until));
        let endless = || Failure::new(Cause::Endless, "the list has no end: it is given up");
        (self.bytes, self.objects) = left.ok_or_else(endless)?;
        Ok(())
    }

    /// The time that is left.
    fn left(&self) -> std::time::Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl<K: Kind> Stream<K> {
    /// Lists all objects in pages.
    pub(super) async fn list_pages<E>(&mut self, sink: &mut Sink<K::Entry, E>) -> Result<(), End> {
        let mut next: Option<Box<str>> = None;
        let mut budget = Budget::new(&self.bounds);
        sink.send(StreamEvent::ListBegins).await?;
        for _ in 0..self.bounds.pages_max {
            let mut query = format!("limit={}", self.page_objects);
            if let Some(next) = &next {
                query += &format!("&continue={}", encode(next));
            }
            let path = self.path(&query);
            let body = self.open(&path, "list", K::RESOURCE).await?;
            let read = timeout(budget.left(), read_whole(body, PAGE_LEN_MAX)).await;
            let bytes = match read {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(ReadError::Failed(failure))) => return Err(failure.into()),
                Ok(Err(ReadError::TooLong)) if self.page_objects > 1 => {
                    self.page_objects /= 2;
                    continue;
                }
                Ok(Err(ReadError::TooLong)) => {
                    let what = format!("one object has more than {PAGE_LEN_MAX} bytes");
                    return Err(Failure::new(Cause::Endless, what).into());
                }
                Err(_) => return Err(Failure::new(Cause::Endless, "a list takes too long").into()),
            };
            let page: Page<K::Raw> = serde_json::from_slice(&bytes).map_err(|error| {
                Failure::new(Cause::Malformed, format!("a page is not a list: {error}"))
            })?;
            let (objects, meta) = page.objects(K::LIST)?;
            budget.take(bytes.len(), objects.len())?;
            for object in objects {
                self.put(object, sink).await?;
            }
            let before = next;
            next = meta.next.filter(|next| !next.is_empty());
            if next.is_none() {
                self.revision = Some(meta.resource_version);
                return Ok(sink.send(StreamEvent::ListEnds).await?);
            }
            if next == before {
                let what = "a page leads back to itself: the list is given up";
                return Err(Failure::new(Cause::Endless, what).into());
            }
        }
        let what = format!("the list has more than {} pages", self.bounds.pages_max);
        Err(Failure::new(Cause::Endless, what).into())
    }
}
