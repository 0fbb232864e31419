//! A port on a kernel UDP socket: recvmmsg and sendmmsg, up to 64 datagrams a call.

mod address;
mod bind;
mod deferred;
pub mod limits;
mod ring;
mod socket;
mod steer;

pub use bind::{adopt, bind};
pub use socket::SocketPort;
pub use steer::{confine, steer, unsteer};
