//! The stage of the server's life.
use data_plane::{ENDING, STARTING};
use server_status::ServerState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Error while a new process, which has read config and zones already, is starting.
const OFFERED: &str =
    "a hot restart is in progress, and its new process would miss the change: reload after it";

/// Where the server is between its start and its end.
pub struct Stage {
    state: Mutex<ServerState>,
    /// Whether the server was ready once.
    was_ready: AtomicBool,
    /// Notified when a new process serves: HTTP clients must reach that one.
    handed_over: Notify,
    /// Held during a reload: one at a time.
    reloading: tokio::sync::Mutex<()>,
}

impl Stage {
    /// The server is starting.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(ServerState::Starting),
            was_ready: AtomicBool::new(false),
            handed_over: Notify::new(),
            reloading: tokio::sync::Mutex::default(),
        }
    }

    fn current(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state that the status reports.
    pub fn state(&self) -> ServerState {
        *self.current()
    }

    /// Changes the state.
    pub fn set(&self, state: ServerState) {
        *self.current() = state;
    }

    /// Notes whether the server is ready now; returns whether it was once.
    pub fn note_readiness(&self, is_ready: bool) -> bool {
        self.was_ready.fetch_or(is_ready, Ordering::Relaxed) || is_ready
    }

    /// Whether the server was ready once.
    pub fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    /// Reports that a new process serves.
    pub fn hand_over(&self) {
        self.handed_over.notify_one();
    }

    /// Waits until a new process serves.
    pub async fn handed_over(&self) {
        self.handed_over.notified().await;
    }

    /// Waits for the end of a reload in progress. The next one waits for the guard.
    pub async fn reload(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reloading.lock().await
    }

    /// Why a reload is not possible now. `is_offered`: a new process has, or is about to have, the
    /// sockets.
    pub fn reload_refusal(&self, is_offered: bool) -> Option<&'static str> {
        match self.state() {
            ServerState::Starting => Some(STARTING),
            ServerState::Draining => Some(ENDING),
            ServerState::Serving => is_offered.then_some(OFFERED),
        }
    }
}
