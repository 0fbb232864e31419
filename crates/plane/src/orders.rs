//! What a worker is told while it runs, besides to stop.

use crate::OnStop;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Orders that wait for a worker; it takes them at its next turn.
const WAITING_MAX: usize = 4;

/// Other ports beside those that a worker began with, in place of those it was lent before.
pub struct Order<P> {
    pub ports: Vec<P>,
    /// Hangs up when the order is carried out.
    _done: Sender<()>,
}

/// Where a worker finds its orders.
pub type Orders<P> = Receiver<Order<P>>;

/// Where a worker's orders are given.
#[derive(Debug)]
pub struct Desk<P> {
    orders: SyncSender<Order<P>>,
    bell: OnStop,
}

impl<P> Desk<P> {
    /// A desk for the worker that looks when `bell` is rung.
    pub fn new(bell: OnStop) -> (Self, Orders<P>) {
        let (orders, taken) = sync_channel(WAITING_MAX);
        (Self { orders, bell }, taken)
    }

    /// Gives an order; what is waited for with [`wait`].
    ///
    /// # Errors
    /// The worker has ended, or takes none.
    pub fn give(&self, ports: Vec<P>) -> io::Result<Receiver<()>> {
        let (done, carried_out) = channel();
        self.orders
            .try_send(Order { ports, _done: done })
            .map_err(|_| io::Error::other("a worker takes no orders"))?;
        self.bell.ring();
        Ok(carried_out)
    }

    /// Tells the worker to stop.
    pub fn stop(&self) {
        self.bell.stop();
    }
}

/// Waits until an order is carried out, or its worker has ended.
///
/// # Errors
/// It takes too long.
pub fn wait(carried_out: &Receiver<()>, time: Duration) -> io::Result<()> {
    match carried_out.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}
