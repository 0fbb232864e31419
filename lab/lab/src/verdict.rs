//! The limiting cause of a figure, with its proof.
//!
//! [`judge`] is a pure function: the same measurements give the same verdict. Its rules stand in
//! one list, in their order; each checks one cause, and gives a sentence with figures and their
//! sources. The rules run in order: CPU starvation, packet loss, overload. The first match wins,
//! because a cause hides the next one.

use serde::{Deserialize, Serialize};

mod measurements;
mod number;
mod rules;

pub use measurements::{
    Balance, Ceiling, CompetingProcess, Drops, LoadResult, Measurements, SideUse, SocketSpread,
};
pub use number::{percent, thousands};
pub use rules::{CHANGED, HEADROOM};

/// The limiting cause of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// None: all offered queries were answered in time.
    Offered,
    /// The server.
    Server,
    /// The generator: it fell behind its plan, lost answers, or used too few sources.
    Generator,
    /// The network between both hosts.
    Network,
    /// The machine: another process used the CPU, or the kernel dropped packets.
    Host,
    /// The measurements do not show the cause.
    Undetermined,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 6] = [
        Self::Offered,
        Self::Server,
        Self::Generator,
        Self::Network,
        Self::Host,
        Self::Undetermined,
    ];

    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Server => "server",
            Self::Generator => "generator",
            Self::Network => "network",
            Self::Host => "host",
            Self::Undetermined => "undetermined",
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The limiting cause of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The cause.
    pub cause: Cause,
    /// The reason: a sentence with its figures and their sources.
    pub because: String,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.cause, self.because)
    }
}

/// A rule: returns a verdict, or `None`.
type Rule = fn(&Measurements) -> Option<Verdict>;

/// The rules, in the order of evaluation.
const RULES: [(&str, Rule); 17] = [
    ("nothing was asked", rules::nothing_asked),
    ("all was answered", rules::all_answered),
    ("the machine changed meanwhile", rules::machine_changed),
    ("the counters contradict each other", rules::contradiction),
    ("another process used the generator's CPU", rules::generator_displaced),
    ("the link queued or dropped", rules::link_full),
    ("the generator fell behind", rules::generator_behind),
    ("the server was stopped", rules::server_stopped),
    ("too few sources for the server's sockets", rules::few_flows),
    ("another process used the server's CPU", rules::server_displaced),
    ("questions or answers vanished on the way", rules::link_lost),
    ("the server's socket was full", rules::server_socket),
    ("a kernel dropped", rules::kernel_dropped),
    ("the server read and did not answer", rules::server_silent),
    ("the generator's socket was full", rules::generator_socket),
    ("the server was busy", rules::server_busy),
    ("the generator was a little late", rules::generator_late),
];

/// The limiting cause of the figure that `measurements` describe.
pub fn judge(measurements: &Measurements) -> Verdict {
    let measurements = measurements.without_foreign_datagrams();
    let said = RULES.iter().find_map(|(_, rule)| rule(&measurements));
    said.unwrap_or_else(|| rules::unexplained(&measurements))
}

/// The inputs of the rules, in their order.
pub fn order() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(what, _)| *what)
}

#[cfg(test)]
mod tests;
