//! Permits of a fleet: how many servers may be without the addresses at once.

/// Why a server is, or wants to be, withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitRequest {
    /// For the other servers.
    pub reason: String,
    /// It is withdrawn, or will be whatever the others are: the permit only says so.
    pub is_forced: bool,
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PermitState {
    /// There is none.
    #[default]
    Unneeded,
    /// It is not answered yet.
    Waiting,
    /// The server may be withdrawn.
    Granted,
    /// It may not, and why.
    Refused(String),
}

/// What gives permits. Neither function waits.
pub trait Permits: Send + Sync {
    /// Asks for a permit, or (`None`) gives it back. What is asked for is asked again until it is
    /// given.
    fn request(&self, wanted: Option<PermitRequest>);

    /// What became of the last request.
    fn state(&self) -> PermitState;
}
