//! Limits of figures, such as `best dunlin/knot >= 1.25`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Comparison, Round, ServerResult};
use crate::Result;
use crate::output::Table;
use crate::statistics::median;

/// A figure of one server, or its ratio to another's, and its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Limit {
    figure: String,
    server: String,
    other: Option<String>,
    is_least: bool,
    number: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitResult {
    /// The limit.
    pub limit: Limit,
    /// Unknown where a round does not give the figure; then the limit is missed.
    pub measured: Option<f64>,
}

type OfRound = fn(&Round) -> Option<f64>;

/// Figures by name. `kept` is the share of the best rate that remains under overload.
const FIGURES: [(&str, OfRound); 7] = [
    ("best", |round| Some(round.best.as_ref().map_or(0.0, |best| best.answered))),
    ("most", |round| Some(round.most.answered)),
    ("kept", |round| {
        let best = round.best.as_ref().map_or(0.0, |best| best.answered);
        Some(round.most.answered / best.max(round.most.answered)).filter(|share| share.is_finite())
    }),
    ("p50", |round| round.common.p50_ns.map(|ns| ns as f64 / 1e3)),
    ("p99", |round| round.common.p99_ns.map(|ns| ns as f64 / 1e3)),
    ("cpu", |round| round.common.cpu_us),
    ("upstream", |round| round.common.upstream),
];

/// Every server that has the figure.
const ALL: &str = "all";
/// Every server whose name before a hyphen differs: `dunlin-xdp` does not count as another server
/// than `dunlin`.
const OTHERS: &str = "others";
/// The echo in the server's place.
const ECHO: &str = "echo";

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let names = FIGURES.map(|(name, _)| name).join(", ");
        let wrong = || {
            format!(
                "`{text}` is not a limit such as `best dunlin/knot >= 1.25`: one of {names}; a \
                 server or {ALL}; perhaps / and a server, {OTHERS} or {ECHO}; >= or <=; a number"
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [figure, who, sign @ (">=" | "<="), number] = words[..] else { return Err(wrong()) };
        FIGURES.iter().find(|(name, _)| *name == figure).ok_or_else(wrong)?;
        let (server, other) = match who.split_once('/') {
            Some((server, other)) => (server.to_owned(), Some(other.to_owned())),
            None => (who.to_owned(), None),
        };
        let number = number.parse().map_err(|_| wrong())?;
        Ok(Self { figure: figure.to_owned(), server, other, is_least: sign == ">=", number })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_least { ">=" } else { "<=" };
        write!(f, "{} {}", self.figure, self.server)?;
        self.other.iter().try_for_each(|other| write!(f, "/{other}"))?;
        write!(f, " {sign} {}", self.number)
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}

impl Limit {
    /// The names of servers that it applies to.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let names = [Some(&self.server), self.other.as_ref()].into_iter().flatten();
        names.map(String::as_str).filter(|name| ![ALL, OTHERS, ECHO].contains(name))
    }

    /// The worst of all servers that it applies to.
    fn measured(&self, comparison: &Comparison) -> Option<f64> {
        let of = FIGURES.iter().find(|(name, _)| *name == self.figure)?.1;
        let has_it = |server: &&ServerResult| server.rounds.iter().all(|r| of(r).is_some());
        let is_it = |server: &&ServerResult| self.server == server.name;
        let servers = comparison.servers.iter();
        let own: Vec<&ServerResult> = match self.server == ALL {
            true => servers.filter(has_it).collect(),
            false => servers.filter(is_it).collect(),
        };
        let all = own.into_iter().map(|server| self.beside(server, of, comparison));
        self.worst(all.collect::<Option<Vec<f64>>>()?)
    }

    fn beside(&self, server: &ServerResult, of: OfRound, all: &Comparison) -> Option<f64> {
        let Some(other) = self.other.as_deref() else {
            return median(&server.rounds.iter().map(of).collect::<Option<Vec<_>>>()?);
        };
        let echo: OfRound = |round| Some(round.most.measurements.ceiling.as_ref()?.middle());
        let ratio = |theirs: &ServerResult, of_theirs: OfRound| {
            let pairs = server.rounds.iter().zip(&theirs.rounds);
            let one = |(own, theirs): (&Round, &Round)| {
                Some(of(own)? / of_theirs(theirs)?).filter(|ratio| ratio.is_finite())
            };
            median(&pairs.map(one).collect::<Option<Vec<_>>>()?)
        };
        if other == ECHO {
            return ratio(server, echo);
        }
        let family = |name: &str| name.split('-').next().map(ToOwned::to_owned);
        let is_meant = |one: &&ServerResult| match other == OTHERS {
            true => family(&one.name) != family(&server.name),
            false => one.name == other,
        };
        let all = all.servers.iter().filter(is_meant).map(|theirs| ratio(theirs, of));
        self.worst(all.collect::<Option<Vec<f64>>>()?)
    }

    fn worst(&self, values: Vec<f64>) -> Option<f64> {
        let all = values.into_iter();
        if self.is_least { all.reduce(f64::min) } else { all.reduce(f64::max) }
    }
}

impl LimitResult {
    /// Whether the limit is met.
    pub fn is_kept(&self) -> bool {
        let Limit { is_least, number, .. } = self.limit;
        self.measured.is_some_and(|value| if is_least { value >= number } else { value <= number })
    }
}

/// The result of the comparison for each of its limits.
pub fn limit_results(comparison: &Comparison) -> Vec<LimitResult> {
    let result = |limit: &Limit| {
        let measured = limit.measured(comparison);
        LimitResult { limit: limit.clone(), measured }
    };
    comparison.limits.iter().map(result).collect()
}

/// The same as a table.
pub(super) fn table(comparison: &Comparison) -> Table {
    let mut table = Table::new(["limit", "measured", ""]).texts(1);
    for result in limit_results(comparison) {
        let measured = result.measured.map_or("unknown".into(), |value| format!("{value:.2}"));
        let kept = if result.is_kept() { "kept" } else { "MISSED" };
        table.row([result.limit.to_string(), measured, kept.into()]);
    }
    table
}
