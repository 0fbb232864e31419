//! The report of a panic, and its receiver.
use std::fmt;
use std::sync::Arc;

/// A panic in the handling of a query, or of upstreams' answers: a defect.
#[derive(Debug)]
pub struct QueryPanic<'p> {
    /// Where it panicked, and the message.
    pub panic: &'p str,
    /// Name and type of the query, and its transport; `None`: not the query's handling panicked.
    pub query: Option<String>,
}

/// Called by the thread of the panic, and must not wait.
#[derive(Clone)]
pub struct OnPanic(Arc<dyn Fn(&QueryPanic<'_>) + Send + Sync>);

impl OnPanic {
    /// Has this function called.
    pub fn new(report: impl Fn(&QueryPanic<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(crate) fn call(&self, panic: &QueryPanic<'_>) {
        (self.0)(panic);
    }
}

impl Default for OnPanic {
    /// No report.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for OnPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnPanic")
    }
}
