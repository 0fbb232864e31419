//! Tells another server of transitions: signed requests, in order, from a bounded queue.
//!
//! The receiver may be slow or dead: the prober only puts transitions into the queue.
use crate::limits::{
    WEBHOOK_BATCH_MAX, WEBHOOK_PAUSE, WEBHOOK_PAUSE_MAX, WEBHOOK_QUEUE_MAX, WEBHOOK_SECRET_LEN,
    WEBHOOK_TIMEOUT, WEBHOOK_TRIES_MAX,
};
use crate::probe::post;
use crate::report::HealthCounters;
use http::Uri;
use ring::hmac;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Where transitions are sent, and the file of the secret that signs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// An http or https URL with a host.
    pub url: String,
    /// The file of the secret.
    pub secret: PathBuf,
}

/// A transition, as the receiver sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub check: String,
    pub address: IpAddr,
    pub before: &'static str,
    pub state: &'static str,
    /// Why it is down; empty: it is up.
    pub reason: String,
    pub since_seconds: u64,
}

#[derive(Serialize)]
struct Body<'e> {
    transitions: &'e [Event],
}

/// The sending end of the queue.
pub struct Webhook {
    queue: mpsc::Sender<Event>,
    counters: Arc<HealthCounters>,
}

/// What a task needs to send the events of a queue.
pub struct Sender {
    target: Uri,
    key: hmac::Key,
    queue: mpsc::Receiver<Event>,
    counters: Arc<HealthCounters>,
}

/// Reads the secret, and makes both ends of the queue.
///
/// # Errors
/// The URL or the secret cannot be used.
pub fn new(
    settings: &WebhookSettings,
    counters: &Arc<HealthCounters>,
) -> Result<(Webhook, Sender), String> {
    let target: Uri =
        settings.url.parse().map_err(|why| format!("[health] webhook is not a URL: {why}"))?;
    if target.host().is_none() || !matches!(target.scheme_str(), Some("http" | "https")) {
        return Err("[health] webhook is not an http or https URL with a host".into());
    }
    let key = read_secret(&settings.secret)
        .map_err(|why| format!("[health] webhook_secret: {}: {why}", settings.secret.display()))?;
    let (sender, queue) = mpsc::channel(WEBHOOK_QUEUE_MAX);
    let webhook = Webhook { queue: sender, counters: Arc::clone(counters) };
    Ok((webhook, Sender { target, key, queue, counters: Arc::clone(counters) }))
}

fn read_secret(file: &Path) -> Result<hmac::Key, String> {
    let mut secret = Vec::new();
    let most = *WEBHOOK_SECRET_LEN.end() as u64 + 2;
    File::open(file)
        .and_then(|file| file.take(most).read_to_end(&mut secret))
        .map_err(|error| format!("cannot be read: {error}"))?;
    let secret = secret.trim_ascii_end();
    if !WEBHOOK_SECRET_LEN.contains(&secret.len()) {
        let (least, most) = (WEBHOOK_SECRET_LEN.start(), WEBHOOK_SECRET_LEN.end());
        return Err(format!("a secret has {least} to {most} bytes: `openssl rand -hex 32`"));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, secret))
}

impl Webhook {
    /// Puts a transition into the queue. If it is full, the transition is dropped and counted.
    pub fn put(&self, event: Event) {
        if self.queue.try_send(event).is_err()
            && self.counters.webhook_dropped.fetch_add(1, Relaxed) == 0
        {
            tracing::warn!("the receiver of [health] webhook is too slow: transitions are dropped");
        }
    }
}

impl Sender {
    /// Sends events until the other end is dropped.
    pub async fn run(mut self) {
        let mut events = Vec::new();
        while self.queue.recv_many(&mut events, WEBHOOK_BATCH_MAX).await > 0 {
            let count = events.len() as u64;
            let counter = match self.send(&events).await {
                Ok(()) => &self.counters.webhook_sent,
                Err(why) => {
                    tracing::error!("{count} transitions are not sent to [health] webhook: {why}");
                    &self.counters.webhook_dropped
                }
            };
            counter.fetch_add(count, Relaxed);
            events.clear();
        }
    }

    /// Sends a batch, several times if it must be. Pauses double from one try to the next.
    async fn send(&self, events: &[Event]) -> Result<(), String> {
        let body = serde_json::to_vec(&Body { transitions: events });
        let body = body.map_err(|why| why.to_string())?;
        let mut pause = WEBHOOK_PAUSE;
        for attempt in 1.. {
            let late = || Err(format!("no response within {} s", WEBHOOK_TIMEOUT.as_secs()));
            let signature = sign(&self.key, SystemTime::now(), &body);
            let sending = post(&self.target, &signature, body.clone());
            let Err(why) = timeout(WEBHOOK_TIMEOUT, sending).await.unwrap_or_else(|_| late())
            else {
                break;
            };
            if attempt == WEBHOOK_TRIES_MAX {
                return Err(why);
            }
            tracing::debug!(attempt, "[health] webhook: {why}");
            sleep(pause).await;
            pause = (pause * 2).min(WEBHOOK_PAUSE_MAX);
        }
        Ok(())
    }
}

/// `t=TIME,v1=HMAC`: the HMAC-SHA256 of the time in seconds since 1970, a dot and the body. The
/// time keeps an old request from being sent again.
fn sign(key: &hmac::Key, now: SystemTime, body: &[u8]) -> String {
    let time = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let mut context = hmac::Context::with_key(key);
    context.update(format!("{time}.").as_bytes());
    context.update(body);
    let mut text = format!("t={time},v1=");
    for byte in context.sign().as_ref() {
        write!(text, "{byte:02x}").expect("a String takes all");
    }
    text
}

#[cfg(test)]
mod tests;
