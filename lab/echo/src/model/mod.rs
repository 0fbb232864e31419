//! The I/O models, one file each: the loop of a thread.

mod blocking;
mod epoll;
mod packet;
mod poll;
mod recvmmsg;
mod select;
mod spin;
mod uring;
mod worker;
mod xdp;

pub use packet::open as open_packet_sockets;
pub use uring::probe as probe_io_uring;
pub use xdp::{Device, Opened, open as open_xdp};

use crate::Model;
use crate::thread_context::ThreadContext;
use std::io;
use std::sync::Arc;

/// Answers until the shared counters says stop.
///
/// # Errors
/// The socket cannot be used any more, or the kernel lacks what the model needs.
pub fn run(model: Model, context: &Arc<ThreadContext>) -> io::Result<()> {
    match model {
        Model::Blocking => blocking::run(context),
        Model::Spin => spin::run(context),
        Model::Recvmmsg => recvmmsg::run(context),
        Model::Poll => poll::run(context),
        Model::Select => select::run(context),
        Model::Epoll => epoll::run(context),
        Model::IoUring => uring::run(context),
        Model::Packet => packet::run(context),
        Model::Worker => worker::run(context),
        Model::AfXdp | Model::XdpTx => xdp::run(context),
    }
}
