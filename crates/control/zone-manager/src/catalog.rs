//! The catalog: which source owns which zone, with what content, and what it hides.
use crate::epoch::lower;
use crate::queue::SourceId;
use crate::source::{HoldPolicy, SourceKind, SourceSettings, Target, ZoneOwner};
use compile::Zone;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::{Name, NameBuf};

/// A source, as far as the catalog knows it.
pub(crate) struct SourceEntry {
    pub name: Arc<str>,
    pub kind: SourceKind,
    pub hold: HoldPolicy,
    /// Where members of its sets are that name no location.
    pub location: Option<Arc<str>>,
}

/// The content of a zone or layer of one source.
#[derive(Clone, Default)]
pub(crate) struct Content {
    /// `None`: nothing is known yet.
    pub served: Option<Arc<Zone>>,
    /// Newer content that lost too much.
    pub held: Option<Arc<Zone>>,
    /// When the held content is served without an operator.
    pub until: Option<Instant>,
    /// The file of a layer.
    pub file: Option<PathBuf>,
}

impl Content {
    /// With this to be served, and nothing held.
    pub fn with(self, zone: Arc<Zone>) -> Self {
        Self { served: Some(zone), held: None, until: None, ..self }
    }
}

/// A source's claim of a zone.
pub(crate) struct Claim {
    pub source: SourceId,
    kind: SourceKind,
    /// The file that the content comes from.
    file: Option<PathBuf>,
    pub content: Content,
}

/// Layers in the order in which they answer.
type LayerKey = (Reverse<SourceKind>, SourceId, u32);

#[derive(Default)]
pub(crate) struct CatalogState {
    pub sources: Vec<SourceEntry>,
    /// The claims of each zone, by its lower-case origin; the owner's first.
    zones: HashMap<Box<[u8]>, Vec<Claim>>,
    pub layers: BTreeMap<LayerKey, Content>,
}

/// The catalog of all zones.
#[derive(Default)]
pub struct Catalog(Mutex<CatalogState>);

/// A zone in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogZone {
    /// Its origin, in lower case.
    pub origin: NameBuf,
    /// The owner; its content is served.
    pub owner: ZoneOwner,
    /// Whether the owner has content.
    pub is_loaded: bool,
    /// Whether newer content of the owner is held.
    pub is_held: bool,
    /// Other sources that have this zone, which the owner hides.
    pub hidden: Vec<ZoneOwner>,
}

impl Catalog {
    pub(crate) fn state(&self) -> MutexGuard<'_, CatalogState> {
        // The lock is never held across code that can panic midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of a zone; `None`: no source has it. Clusters that have parts of a zone own none.
    pub fn owner(&self, origin: Name<'_>) -> Option<ZoneOwner> {
        let state = self.state();
        let mut claims = state.zones.get(&key(origin))?.iter();
        claims.find(|claim| claim.kind != SourceKind::Parts).map(|claim| state.owner(claim))
    }

    /// All zones that a source has, in any order.
    pub fn zones(&self) -> Vec<CatalogZone> {
        let state = self.state();
        let zone = |origin: &[u8], claims: &[Claim]| {
            let (first, hidden) = claims.split_first()?;
            Some(CatalogZone {
                origin: Name::parse(origin).ok()?.into(),
                owner: state.owner(first),
                is_loaded: first.content.served.as_ref().is_some_and(|zone| zone.facts().loaded),
                is_held: first.content.held.is_some(),
                hidden: hidden.iter().map(|claim| state.owner(claim)).collect(),
            })
        };
        state.zones.iter().filter_map(|(origin, claims)| zone(origin, claims)).collect()
    }

    /// The origins of all zones whose owner is of this kind, in any order.
    pub fn origins(&self, kind: SourceKind) -> Vec<NameBuf> {
        let state = self.state();
        let is_it = |claims: &Vec<Claim>| claims.first().is_some_and(|claim| claim.kind == kind);
        let of_kind = state.zones.iter().filter(|(_, claims)| is_it(claims));
        of_kind.filter_map(|(origin, _)| Some(Name::parse(origin).ok()?.into())).collect()
    }

    pub(crate) fn register(&self, settings: &SourceSettings) -> SourceId {
        let mut state = self.state();
        let SourceSettings { name, kind, hold, .. } = settings;
        let (name, location) = (name.as_str().into(), None);
        state.sources.push(SourceEntry { name, kind: *kind, hold: *hold, location });
        SourceId(state.sources.len() - 1)
    }
}

/// The key of a zone.
pub(crate) fn key(origin: Name<'_>) -> Box<[u8]> {
    lower(&origin.into())
}

impl CatalogState {
    fn owner(&self, claim: &Claim) -> ZoneOwner {
        match (claim.kind, &claim.file) {
            (SourceKind::Store, _) => ZoneOwner::Store,
            (SourceKind::BuiltIn, _) => ZoneOwner::BuiltIn,
            (_, Some(file)) => ZoneOwner::File(file.clone()),
            (_, None) => ZoneOwner::Source(Arc::clone(&self.sources[claim.source.0].name)),
        }
    }

    /// The claim of a source; made if there is none.
    ///
    /// # Errors
    /// Another source of the same kind, or another home, has the zone.
    pub fn claim(
        &mut self,
        source: SourceId,
        origin: Name<'_>,
        file: Option<PathBuf>,
    ) -> Result<&mut Claim, ZoneOwner> {
        let (kind, key) = (self.sources[source.0].kind, key(origin));
        let claims = self.zones.entry(key.clone()).or_default();
        let other =
            claims.iter().position(|claim| claim.kind.excludes(kind) && claim.source != source);
        if let Some(other) = other {
            return Err(self.owner(&self.zones[&key][other]));
        }
        let claims = self.zones.entry(key).or_default();
        let known = claims.iter().position(|claim| claim.source == source);
        let at = known.unwrap_or_else(|| {
            let at = claims.iter().take_while(|claim| claim.kind > kind).count();
            claims.insert(at, Claim { source, kind, file: None, content: Content::default() });
            at
        });
        let claim = &mut claims[at];
        claim.file = file.or(claim.file.take());
        Ok(claim)
    }

    /// The content of a zone of this source.
    pub fn zone_of(&mut self, source: SourceId, origin: Name<'_>) -> Option<&mut Content> {
        let claims = self.zones.get_mut(&key(origin))?;
        claims.iter_mut().find(|claim| claim.source == source).map(|claim| &mut claim.content)
    }

    /// Takes back the claim of a source.
    pub fn remove(&mut self, source: SourceId, origin: Name<'_>) {
        let key = key(origin);
        if let Some(claims) = self.zones.get_mut(&key) {
            claims.retain(|claim| claim.source != source);
            if claims.is_empty() {
                self.zones.remove(&key);
            }
        }
    }

    /// The key of a layer.
    pub fn layer_key(&self, source: SourceId, number: u32) -> LayerKey {
        (Reverse(self.sources[source.0].kind), source, number)
    }

    /// Replaces the files of a source's layers; returns those that are gone.
    pub fn set_layers(&mut self, source: SourceId, files: Vec<PathBuf>) -> Vec<PathBuf> {
        let (mut known, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.layers).into_iter().partition(|(key, _)| key.1 == source);
        self.layers = others;
        for (number, file) in (0..).zip(files) {
            let at = known.iter().find(|(_, content)| content.file.as_ref() == Some(&file));
            let content = at.map(|(key, _)| *key).and_then(|key| known.remove(&key));
            let new = || Content { file: Some(file), ..Content::default() };
            let key = self.layer_key(source, number);
            self.layers.insert(key, content.unwrap_or_else(new));
        }
        known.into_values().filter_map(|content| content.file).collect()
    }

    /// The content of a target that is served for a source.
    pub fn content(&mut self, source: SourceId, target: &Target) -> Option<Arc<Zone>> {
        match target {
            Target::Zone(origin) => self.zone_of(source, origin.as_name())?.served.clone(),
            Target::Layer(number) => {
                let key = self.layer_key(source, *number);
                self.layers.get(&key)?.served.clone()
            }
        }
    }

    /// What is to be served of a zone: the content of the greatest kind that has any. `Some(None)`:
    /// it is claimed, and there is no content.
    pub fn served(&self, origin: Name<'_>) -> Option<Option<Arc<Zone>>> {
        let claims = self.zones.get(&key(origin))?;
        Some(claims.iter().find_map(|claim| claim.content.served.clone()))
    }

    /// What the greatest of the lesser kinds has of a zone of this source.
    pub fn hidden(&self, source: SourceId, origin: Name<'_>) -> Option<Arc<Zone>> {
        let kind = self.sources[source.0].kind;
        let lesser = self.zones.get(&key(origin))?.iter().filter(|claim| claim.kind < kind);
        lesser.filter_map(|claim| claim.content.served.clone()).next()
    }

    /// Where members of the sets of a zone are that name no location, if its home says so.
    pub fn location(&self, origin: Name<'_>) -> Option<Arc<str>> {
        let claims = self.zones.get(&key(origin))?;
        let claim = claims.iter().find(|claim| claim.content.served.is_some())?;
        self.sources[claim.source.0].location.clone()
    }

    /// How a target is called in the list of holds, and by who accepts it: a zone by its name, a
    /// layer by its file, or by the name of its source in the form of a name.
    pub fn hold_key(&self, source: SourceId, target: &Target) -> String {
        match target {
            Target::Zone(origin) => origin.to_string().to_ascii_lowercase(),
            Target::Layer(number) => {
                let layer = self.layers.get(&self.layer_key(source, *number));
                match layer.and_then(|content| content.file.as_ref()) {
                    Some(file) => file.display().to_string(),
                    None => {
                        format!("{}/{number}.", self.sources[source.0].name).to_ascii_lowercase()
                    }
                }
            }
        }
    }

    /// The layers of a source with held content.
    pub fn held_layers(&self, source: SourceId) -> Vec<Target> {
        let held = self.targets(|content| content.held.is_some());
        let of_source = held.into_iter().filter(|(of, _)| *of == source);
        of_source.map(|(_, target)| target).filter(|it| matches!(it, Target::Layer(_))).collect()
    }

    /// The target with held content that is called so.
    pub fn held(&self, key: &str) -> Option<(SourceId, Target)> {
        self.targets(|content| content.held.is_some())
            .into_iter()
            .find(|(source, target)| self.hold_key(*source, target) == key)
    }

    /// All targets with held content that is due.
    pub fn due(&self, now: Instant) -> Vec<(SourceId, Target)> {
        self.targets(|content| content.until.is_some_and(|until| until <= now))
    }

    fn targets(&self, is_it: impl Fn(&Content) -> bool) -> Vec<(SourceId, Target)> {
        let mut targets = Vec::new();
        for (origin, claims) in &self.zones {
            let Ok(origin) = Name::parse(origin) else { continue };
            let these = claims.iter().filter(|claim| is_it(&claim.content));
            targets.extend(these.map(|claim| (claim.source, Target::Zone(origin.into()))));
        }
        let layers = self.layers.iter().filter(|(_, content)| is_it(content));
        targets.extend(layers.map(|((_, source, number), _)| (*source, Target::Layer(*number))));
        targets
    }

    /// When the next held content is due.
    pub fn next_due(&self) -> Option<Instant> {
        let zones = self.zones.values().flatten().map(|claim| &claim.content);
        zones.chain(self.layers.values()).filter_map(|content| content.until).min()
    }
}
