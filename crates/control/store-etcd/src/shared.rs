//! State that the store, its watch and the task that follows etcd share.
use crate::encoding::NO_COMMIT;
use crate::unreadable::{self, UnreadableKeys};
use keyspace::keys::Head;
use keyspace::{EtcdLink, EtcdSettings, LinkReport};
use records::{CommitId, Form, Revision, StoreError};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Default)]
struct SharedState {
    /// The newest known value of the key `revision`.
    head: Option<Head>,
    /// The commit with which the replica ends, and the revision after it.
    last: Option<(Revision, CommitId)>,
    /// The head with which what etcd has is not taken, and why, and what to do.
    held: Option<(Head, String)>,
    /// Why commits are not saved on the disk; `None`: they are.
    unsaved: Option<String>,
    /// The form of the keys; `None`: there are none, or they were not read yet.
    form: Option<Form>,
    /// Keys of zones and sets that cannot be read.
    unreadable: UnreadableKeys,
}

/// The shared state.
pub struct Shared {
    pub link: Arc<EtcdLink>,
    /// Whether the replica follows etcd, so that writes can be committed.
    pub report: Arc<LinkReport>,
    state: Mutex<SharedState>,
}

impl Shared {
    /// Starts the thread that runs requests.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(settings: EtcdSettings) -> io::Result<Arc<Self>> {
        let lost = "etcd is not followed; zones are served as they are, and writes are refused";
        let report = match settings.site.clone() {
            Some(site) => LinkReport::of_site(site),
            None => LinkReport::new(Some(lost.into()), "etcd is followed again".into()),
        };
        let link = EtcdLink::start_named(settings, "etcd")?;
        Ok(Arc::new(Self { link, report, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica has everything that etcd has: writes wait until it is followed again.
    pub fn was_read(&self) {
        self.state().held = None;
        self.report.connects();
    }

    /// What etcd has with this head is not taken.
    pub fn holds(&self, head: Head, why: String) {
        self.report.report_fault(&why);
        self.state().held = Some((head, why));
    }

    /// Why what etcd has with this head is not taken; `None`: it was not read yet.
    pub fn held(&self, head: &Head) -> Option<String> {
        let state = self.state();
        state.held.as_ref().filter(|(held, _)| held == head).map(|(_, why)| why.clone())
    }

    /// The newest value of the key `revision` that is known to have been in etcd: that of a commit
    /// of this server, too, before the watch brings it.
    pub fn newest(&self) -> Option<Head> {
        self.state().head.clone()
    }

    /// A newer value of the key `revision` is known.
    pub fn notes(&self, head: Head) {
        let mut state = self.state();
        if state.head.as_ref().is_none_or(|known| known.revision <= head.revision) {
            state.head = Some(head);
        }
    }

    /// The keys have this form, if there are any.
    pub fn has_form(&self, form: Option<Form>) {
        let mut state = self.state();
        state.form = form.or(state.form);
    }

    /// The copy has this form, and the keys have it at least.
    pub fn begins_with_form(&self, form: Form) {
        self.state().form.get_or_insert(form);
    }

    /// The form in which this server commits.
    pub fn form(&self) -> Form {
        self.state().form.unwrap_or(Form::PREVIOUS)
    }

    /// The replica ends with this commit; `None`: that is not known.
    pub fn ends_with(&self, revision: Revision, commit: Option<CommitId>) {
        self.state().last = commit.map(|commit| (revision, commit));
    }

    /// The replica has ended with this commit since its start.
    pub fn begins_with(&self, revision: Revision, commit: Option<CommitId>) {
        let mut state = self.state();
        state.last = state.last.or(commit.map(|commit| (revision, commit)));
    }

    /// The id of the commit with which the replica ends at this revision.
    ///
    /// # Errors
    /// It is not known.
    pub fn last_commit(&self, revision: Revision) -> Result<CommitId, StoreError> {
        match self.state().last {
            _ if revision == Revision::NONE => Ok(NO_COMMIT),
            Some((of, commit)) if of == revision => Ok(commit),
            _ => Err(StoreError::Unreachable(format!(
                "the commit of revision {revision} is not in etcd: its history is broken. If etcd \
                 is right, run `dunlin fleet adopt`"
            ))),
        }
    }

    /// The newest known value of the key `revision`, once etcd is followed.
    ///
    /// # Errors
    /// It is not followed, and why.
    pub fn head(&self, patience: Duration) -> Result<Head, StoreError> {
        let endpoint = self.link.connection.endpoint();
        let following = self.report.following(Instant::now() + patience, endpoint);
        self.link.runtime.block_on(following).map_err(StoreError::Unreachable)?;
        let unknown = || StoreError::Unreachable("the newest revision is not known yet".into());
        self.state().head.clone().ok_or_else(unknown)
    }

    /// Whether a write would be accepted now.
    ///
    /// # Errors
    /// Why not.
    pub fn writable(&self) -> Result<(), StoreError> {
        let fault = self.report.fault().or_else(|| self.unsaved());
        fault.map_or(Ok(()), |why| Err(StoreError::Unreachable(why)))
    }

    /// These keys of zones and sets cannot be read.
    pub fn notes_unreadable(&self, unreadable: UnreadableKeys) {
        self.state().unreadable = unreadable;
    }

    /// The keys that cannot be read, and what to do; `None`: all can.
    pub fn unreadable(&self) -> Option<String> {
        unreadable::text(&self.state().unreadable)
    }

    /// Whether the replica follows etcd.
    pub fn is_following(&self) -> bool {
        self.report.is_following()
    }

    /// Whether commits are saved on the disk, and why not.
    pub fn stores(&self, why_not: Option<String>) {
        let mut state = self.state();
        match &why_not {
            same if *same == state.unsaved => (),
            None => tracing::info!("the copy of etcd on this server is saved again"),
            Some(why) => tracing::error!("{why}"),
        }
        state.unsaved = why_not;
    }

    /// Why commits are not saved on the disk; `None`: they are.
    pub fn unsaved(&self) -> Option<String> {
        self.state().unsaved.clone()
    }
}
