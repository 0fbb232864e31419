//! Targets of the scaler: `kind/name[,kind/name…]`.
use crate::limits::TARGETS_MAX;
use crate::members::Dialect;
use serde::Serialize;
use std::fmt;

/// A kind of object with a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// v1 ReplicationController.
    ReplicationController,
    /// apps/v1 StatefulSet.
    StatefulSet,
}

impl TargetKind {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::Deployment, Self::ReplicaSet, Self::ReplicationController, Self::StatefulSet];

    /// The word before the slash.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::ReplicationController => "replicationcontroller",
            Self::StatefulSet => "statefulset",
        }
    }
}

/// An object with a scale.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

/// Reads targets; upper case and blanks around each do not matter.
///
/// # Errors
/// A target is not `kind/name`, or its kind has no scale that is written. The
/// cluster-proportional-autoscaler knows no StatefulSets.
pub fn parse(text: &str, dialect: Dialect) -> Result<Vec<Target>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > TARGETS_MAX {
        return Err(format!("{} targets, {TARGETS_MAX} at most", parts.len()));
    }
    let mut targets = Vec::new();
    for part in parts {
        let target = parse_one(&part.to_ascii_lowercase(), dialect)?;
        if targets.contains(&target) && dialect != Dialect::Cpa {
            return Err(format!("{target} is named twice; keep one"));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn parse_one(text: &str, dialect: Dialect) -> Result<Target, String> {
    let expected = "expected kind/name such as deployment/coredns";
    let (kind, name) =
        text.split_once('/').ok_or_else(|| format!("\"{text}\" has no kind; {expected}"))?;
    let is_known = |known: &TargetKind| {
        known.name() == kind && (dialect != Dialect::Cpa || *known != TargetKind::StatefulSet)
    };
    let Some(kind) = TargetKind::ALL.into_iter().find(is_known) else {
        let names = TargetKind::ALL.map(TargetKind::name);
        let guess = match command_line::nearest(kind, &names) {
            Some(known) if dialect != Dialect::Cpa => format!("did you mean {known}?"),
            _ => format!("known are {}", names.join(", ")),
        };
        return Err(format!("\"{text}\": {kind} is not a kind that can be scaled; {guess}"));
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if name.is_empty() || name.len() > 253 || !name.bytes().all(is_name) {
        return Err(format!("\"{text}\": {name:?} is not a valid object name; {expected}"));
    }
    Ok(Target { kind, name: name.to_owned() })
}
