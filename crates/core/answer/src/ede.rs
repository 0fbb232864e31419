//! Extended DNS errors (RFC 8914).

/// An extended DNS error (RFC 8914).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ede(u16);

impl Ede {
    /// A stale answer, because no server replied.
    pub(crate) const STALE: Self = Self(3);
    /// An address of the operator's in place of that of a denied name.
    pub(crate) const FORGED: Self = Self(4);
    /// A cached failure.
    pub(crate) const CACHED_ERROR: Self = Self(13);
    /// The zone was never loaded.
    pub(crate) const NOT_READY: Self = Self(14);
    /// The name is denied to this client.
    pub(crate) const BLOCKED: Self = Self(15);
    /// The client may not send this query.
    pub(crate) const PROHIBITED: Self = Self(18);
    /// A stale NXDOMAIN, because no server replied.
    pub(crate) const STALE_NXDOMAIN: Self = Self(19);
    /// This server does not serve the name.
    pub(crate) const NOT_AUTHORITATIVE: Self = Self(20);
    /// The query is refused by policy.
    pub(crate) const NOT_SUPPORTED: Self = Self(21);
    /// No upstream server replied.
    pub(crate) const NO_REACHABLE_AUTHORITY: Self = Self(22);

    pub(crate) const fn code(self) -> u16 {
        self.0
    }
}
