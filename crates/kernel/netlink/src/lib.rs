//! Queries to the kernel about interfaces, addresses, routes and neighbors (`netlink(7)`,
//! `rtnetlink(7)`), over one socket.
//!
//! A query is a method of [`Netlink`] in the file of its subject: it composes a message, sends it
//! by [`Netlink::request`] or [`Netlink::dump`], and reads each reply into a type.
#![forbid(unsafe_code)]

mod address;
mod link;
mod message;
mod namespace;
mod neighbor;
mod route;
mod socket;

pub use address::Address;
pub use link::{GET_LINK, Link, LinkAddress, LinkId, Peer, SET_LINK, Vlan, link_header};
pub use message::{attribute, attributes_of, cut_short, word};
pub use route::{Route, TableRoute};
pub use socket::{ACK, Netlink};
