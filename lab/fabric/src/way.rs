//! How two ends reach each other.

/// How two ends reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// A ring in shared memory between two threads.
    Threads,
    /// The same between two processes.
    Ring,
    /// Unix sockets.
    Unix,
    /// TCP and UDP on the loopback device.
    Loopback,
    /// TCP and UDP between two network namespaces on a bridge.
    Bridge,
    /// The same, with the packets moved by the switch of `dunlin fabric`.
    Switch,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Threads, Self::Ring, Self::Unix, Self::Loopback, Self::Bridge, Self::Switch];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "ring-threads",
            Self::Ring => "ring",
            Self::Unix => "unix",
            Self::Loopback => "loopback",
            Self::Bridge => "bridge",
            Self::Switch => "switch",
        }
    }

    /// That of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// What keeps the two ends apart.
    pub const fn isolation(self) -> &'static str {
        match self {
            Self::Threads => "same process",
            Self::Ring | Self::Unix | Self::Loopback => "process",
            Self::Bridge | Self::Switch => "namespace",
        }
    }

    /// Whether each byte is summed: the kernel leaves that out between ends of one machine, as long
    /// as their devices say that they would do it.
    pub const fn has_checksums(self) -> bool {
        false
    }

    /// Whether it needs two network namespaces.
    pub const fn has_spaces(self) -> bool {
        matches!(self, Self::Bridge | Self::Switch)
    }
}
