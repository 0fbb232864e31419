//! When a server replaces the one that runs.

/// When a server replaces the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotRestart {
    /// Always: without one it does not start.
    Always,
    /// If one runs.
    IfRunning,
}

impl HotRestart {
    /// The flag of the command line.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Always => "--hot-restart",
            Self::IfRunning => "--hot-restart=if-running",
        }
    }
}
