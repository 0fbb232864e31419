//! The health of the store: set by the writer thread, read by all ownership.
use crate::limits::UNREADABLE_MAX;
use crate::{Form, Refused, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Name, NameBuf};

/// The health of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// Why the store cannot be used, and what to do; `None`: it can.
    pub unavailable: Option<Arc<str>>,
    /// Whether the store was read before it failed. If so, its zones are served as they were;
    /// otherwise they answer SERVFAIL.
    pub was_read: bool,
    /// Zones of the store that answer SERVFAIL, with the reason: at most `limits::UNREADABLE_MAX`.
    pub unreadable: Vec<(NameBuf, Arc<str>)>,
    /// How many zones of the store answer SERVFAIL.
    pub unreadable_count: usize,
    /// Why the list of zones is incomplete; `None`: it is complete.
    pub list: Option<Arc<str>>,
    /// The form that the store has, and how many writes need a newer one and were refused.
    pub form: Form,
    /// See `form`.
    pub form_refusals: u64,
}

#[derive(Default)]
struct HealthState {
    unavailable: Option<Arc<str>>,
    /// Whether the disk is full.
    is_full: bool,
    was_read: bool,
    unreadable: BTreeMap<Box<[u8]>, Arc<str>>,
    list: Option<Arc<str>>,
    /// `None`: not known yet.
    form: Option<Form>,
    form_refusals: u64,
}

/// Health shared between threads.
#[derive(Default)]
pub struct Health(Mutex<HealthState>);

impl Health {
    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current health.
    pub fn now(&self) -> StoreHealth {
        let state = self.state();
        let named = state.unreadable.iter().take(UNREADABLE_MAX);
        let named = named
            .filter_map(|(at, why)| Some((NameBuf::from(Name::parse(at).ok()?), Arc::clone(why))));
        StoreHealth {
            unavailable: state.unavailable.clone(),
            was_read: state.was_read,
            unreadable: named.collect(),
            unreadable_count: state.unreadable.len(),
            list: state.list.clone(),
            form: state.form.unwrap_or(Form::PREVIOUS),
            form_refusals: state.form_refusals,
        }
    }

    /// Why reads are refused; `None`: try them.
    pub fn read_refusal(&self) -> Option<Refused> {
        self.state().unavailable.clone().map(Refused::Unavailable)
    }

    /// Why writes are refused; `None`: try them.
    pub fn write_refusal(&self) -> Option<Refused> {
        let is_full = self.state().is_full;
        self.read_refusal().map(|why| if is_full { Refused::Full } else { why })
    }

    /// Marks the store as failed. Returns whether it worked before.
    pub fn fail(&self, why: &StoreError) -> bool {
        let is_full = matches!(why, StoreError::Full);
        let why: Arc<str> = advice(why).into();
        let mut state = self.state();
        let is_news = state.unavailable.as_ref() != Some(&why);
        (state.unavailable, state.is_full) = (Some(why), is_full);
        is_news
    }

    /// Marks the store as working. Returns whether it had failed.
    pub fn recover(&self) -> bool {
        self.state().unavailable.take().is_some()
    }

    /// All zones were read except these.
    pub fn read(&self, unreadable: BTreeMap<Box<[u8]>, Arc<str>>) {
        let mut state = self.state();
        (state.was_read, state.unreadable) = (true, unreadable);
    }

    /// No zone was read; these are known by name.
    pub fn unread(&self, zones: impl Iterator<Item = Box<[u8]>>) {
        let why: Arc<str> = "the store cannot be used".into();
        self.state().unreadable = zones.map(|zone| (zone, Arc::clone(&why))).collect();
    }

    /// A zone was written, so its content is known.
    pub fn written(&self, zone: &[u8]) {
        self.state().unreadable.remove(zone);
    }

    /// Sets the form of the store.
    pub fn form(&self, form: Form) {
        self.state().form = Some(form);
    }

    /// A write needs a newer form, and was refused.
    pub fn refused_form(&self) {
        self.state().form_refusals += 1;
    }

    /// Sets what is wrong with the list of zones.
    pub fn list(&self, fault: Option<String>) {
        self.state().list = fault.map(Into::into);
    }
}

/// Why the store cannot be used, and what to do.
fn advice(why: &StoreError) -> String {
    match why {
        StoreError::Full => "the disk of [server] data_dir is full, and the store must write \
                             before it can be read: make room on it"
            .to_owned(),
        why => why.to_string(),
    }
}
