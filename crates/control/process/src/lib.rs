//! The process of the server: its user and capabilities, its signals, its service manager or the
//! holder of its sockets, its log.

pub mod holder;
pub mod limits;
pub mod log;
mod peer;
mod privileges;
mod signals;
mod systemd;

pub use peer::groups;
pub use privileges::{Identity, PrivilegeError, drop_to, ignore_signals, keep_only};
pub use signals::{Action, Signals};
pub use systemd::{HeldSockets, Manager, Notify, PassError, own_command};
