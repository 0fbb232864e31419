//! The loop every change goes through: mailbox, validation, compile, publish.
//!
//! Whoever knows of a change puts it into the mailbox. One thread takes all that is there, applies
//! it to the image, and publishes the new one by one pointer. Workers load it at their next burst;
//! what it replaced is freed here, when none of them can still hold it.
#![forbid(unsafe_code)]

pub mod command;
pub mod limits;
mod mailbox;
pub mod seats;
pub mod status;

pub use mailbox::{MailboxFull, Ticket};

use compile::{Image, Zone};
use door::{Publisher, Reader, ReadersFull};
use mailbox::{Letter, Mailbox, Taker};
use model::Change;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;
use wire::Name;

/// What all handles share.
struct Shared {
    mailbox: Mailbox,
    publisher: Mutex<Publisher<Image>>,
    /// When the newest image was published.
    published: Mutex<SystemTime>,
}

impl Shared {
    fn publisher(&self) -> MutexGuard<'_, Publisher<Image>> {
        // A panic while it was held can only have come before or after a whole step.
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on the loop. Clones are handles on the same one.
#[derive(Clone)]
pub struct Control(Arc<Shared>);

/// The loop's thread; stops it when told or dropped.
pub struct Running {
    control: Control,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the loop with a first image.
    ///
    /// # Errors
    /// When no thread could be started.
    pub fn start(image: Image) -> io::Result<(Self, Running)> {
        let publisher = Mutex::new(Publisher::new(image));
        let published = Mutex::new(SystemTime::now());
        let control = Self(Arc::new(Shared { mailbox: Mailbox::default(), publisher, published }));
        let shared = Arc::clone(&control.0);
        let thread = thread::Builder::new().name("control".into()).spawn(move || run(&shared))?;
        let running = Running { control: control.clone(), thread: Some(thread) };
        Ok((control, running))
    }

    /// A reader of what is published, for one worker.
    ///
    /// # Errors
    /// When there are too many.
    pub fn reader(&self) -> Result<Reader<Image>, ReadersFull> {
        self.0.publisher().reader()
    }

    /// The newest image.
    pub fn image(&self) -> Image {
        self.0.publisher().newest().clone()
    }

    /// Puts a change of a record set into the mailbox; an earlier one of the same set that was not
    /// yet applied is replaced.
    ///
    /// # Errors
    /// When the mailbox is full: try again later.
    pub fn put(&self, change: Change) -> Result<Ticket, MailboxFull> {
        self.0.mailbox.put(change)
    }

    /// Puts a whole zone into the mailbox, to take the place of the one of its origin.
    ///
    /// # Errors
    /// As [`Control::put`].
    pub fn put_zone(&self, zone: Zone) -> Result<Ticket, MailboxFull> {
        self.0.mailbox.put_zone(zone)
    }

    /// Takes the zone of this origin out of the image; where there is none, nothing changes.
    ///
    /// # Errors
    /// As [`Control::put`].
    pub fn remove_zone(&self, origin: Name<'_>) -> Result<Ticket, MailboxFull> {
        self.0.mailbox.remove_zone(origin)
    }

    /// Stands for all that was put into the mailbox so far; there need be nothing.
    pub fn last(&self) -> Ticket {
        self.0.mailbox.last()
    }

    /// Puts the zones that hosts files made into the mailbox, the first before the others, to take
    /// the place of those there are. With them, whose the names are is asked anew.
    ///
    /// # Errors
    /// As [`Control::put`].
    pub fn put_hosts(&self, hosts: Vec<Arc<Zone>>) -> Result<Ticket, MailboxFull> {
        self.0.mailbox.put_hosts(hosts)
    }

    /// Waits until what a ticket was given for is applied or refused, and published. Returns its
    /// generation, or nothing when the loop has stopped before.
    pub fn wait(&self, ticket: Ticket) -> Option<u64> {
        self.0.mailbox.wait(ticket)
    }

    /// The generation of the newest image, and when it was published.
    pub fn published(&self) -> (u64, SystemTime) {
        let when = *self.0.published.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.publisher().generation(), when)
    }

    /// Whether the loop has ended by itself: it panicked, and what is published stays as it is.
    pub fn has_failed(&self) -> bool {
        self.0.mailbox.has_failed()
    }

    /// Whether every reader has loaded this generation, or must before it reads anything again.
    pub fn is_live(&self, generation: u64) -> bool {
        self.0.publisher().is_live(generation)
    }
}

impl Running {
    /// Applies what is in the mailbox, and stops.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.control.0.mailbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked; the last published state was served");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(shared: &Shared) {
    let _taker = Taker(&shared.mailbox);
    let mut retired = 0;
    while let Some(letters) = shared.mailbox.take(retired > 0) {
        if !letters.is_empty() {
            let mut image = shared.publisher().newest().clone();
            letters.into_iter().for_each(|letter| apply(&mut image, letter));
            let generation = shared.publisher().publish(image);
            *shared.published.lock().unwrap_or_else(PoisonError::into_inner) = SystemTime::now();
            shared.mailbox.done(generation);
        }
        retired = shared.publisher().collect();
    }
}

fn apply(image: &mut Image, letter: Letter) {
    match letter {
        Letter::Zone(zone) => image.put_zone(Arc::new(*zone)),
        Letter::Removed(origin) => image.remove_zone(origin.as_name()),
        Letter::Hosts(hosts) => image.set_hosts(hosts),
        Letter::Changes(changes) => {
            let Some(first) = changes.first() else { return };
            let origin = first.zone.as_name();
            let Some(zone) = image.zone(origin) else {
                let count = changes.len();
                tracing::warn!(zone = %origin, count, "changes refused: there is no such zone");
                return;
            };
            let mut zone = Zone::clone(zone);
            for change in &changes {
                apply_change(&mut zone, change, origin);
            }
            image.put_zone(Arc::new(zone));
        }
    }
}

/// A refused change leaves the zone as it was.
fn apply_change(zone: &mut Zone, change: &Change, origin: Name<'_>) {
    let records: Vec<&[u8]> =
        change.set.as_ref().map(|set| set.records().collect()).unwrap_or_default();
    let set = change.set.as_ref().map(|set| (set.ttl(), &records[..]));
    if let Err(why) = zone.change(change.name.as_name(), change.rtype, set) {
        tracing::warn!(zone = %origin, rtype = %change.rtype, "change refused: {why}");
    }
}

#[cfg(test)]
mod tests;
