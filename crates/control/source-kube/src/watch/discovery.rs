//! Finds the version of an optional kind of object in a cluster.
use super::{End, Stream};
use crate::failure::{Cause, Failure};
use crate::objects::{Kind, Optional};
use serde::Deserialize;

/// What a server has: groups of kinds, or the kinds of a group.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Discovered {
    kind: Box<str>,
    groups: Vec<Group>,
    resources: Vec<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    name: Box<str>,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    version: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: Box<str>,
}

impl<K: Kind> Stream<K> {
    /// Finds out where the objects of an optional kind are. Only a server that lists what it has,
    /// and does not list this kind, lacks it: HTTP 404 can come from anything before it.
    pub(super) async fn discover(&mut self, optional: Optional) -> Result<(), End> {
        let Optional { group, versions, plural } = optional;
        let groups = match self.discovered("/apis", "APIGroupList").await {
            // Who may not know uses the version that most clusters have.
            Err(failure) if failure.status() == Some(403) => {
                self.base = K::PATH.into();
                return Ok(());
            }
            groups => groups?.groups,
        };
        let known = groups.into_iter().find(|known| &*known.name == group);
        let has = |version: &str| {
            known.as_ref().is_some_and(|it| it.versions.iter().any(|v| &*v.version == version))
        };
        for version in versions.iter().filter(|version| has(version)) {
            let path = format!("/apis/{group}/{version}");
            let resources = self.discovered(&path, "APIResourceList").await?.resources;
            if resources.iter().any(|resource| &*resource.name == plural) {
                (self.was_found, self.absences) = (true, 0);
                self.base = format!("{path}/{plural}");
                return Ok(());
            }
        }
        let what = format!("the cluster has no `{}`: is its definition installed?", K::RESOURCE);
        Err(End::Absent(Failure::new(Cause::Absent, what)))
    }

    async fn discovered(&mut self, path: &str, kind: &str) -> Result<Discovered, Failure> {
        let found: Discovered = self.get_small(path, "get", "the API groups").await?;
        match &*found.kind == kind {
            true => Ok(found),
            false => {
                let what = format!("the response to {path} is no {kind} of an API server");
                Err(Failure::new(Cause::Malformed, what))
            }
        }
    }
}
