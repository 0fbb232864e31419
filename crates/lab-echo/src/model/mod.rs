//! The models, a file each: what a thread does from its first datagram to its last.

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
use crate::seat::Seat;
use std::io;
use std::sync::Arc;

/// Answers until the board says stop.
///
/// # Errors
/// The socket cannot be used any more, or the kernel lacks what the model needs.
pub fn run(model: Model, seat: &Arc<Seat>) -> io::Result<()> {
    match model {
        Model::Blocking => blocking::run(seat),
        Model::Spin => spin::run(seat),
        Model::Recvmmsg => recvmmsg::run(seat),
        Model::Poll => poll::run(seat),
        Model::Select => select::run(seat),
        Model::Epoll => epoll::run(seat),
        Model::IoUring => uring::run(seat),
        Model::Packet => packet::run(seat),
        Model::Worker => worker::run(seat),
        Model::AfXdp | Model::XdpTx => xdp::run(seat),
    }
}
