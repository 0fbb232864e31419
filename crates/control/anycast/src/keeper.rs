//! The keeper: a process with CAP_NET_ADMIN and nothing else, which holds the routes while the
//! server says so. It reads nothing but the heartbeats of the server.
use crate::limits::{HEARTBEAT_AGE_MAX, MESSAGE_LEN_MAX, REPAIR_INTERVAL};
use crate::message::{Heartbeat, KeeperState, Report, now};
use crate::tun::Tun;
use crate::{Announcement, PROTOCOL};
use netlink::{LinkId, Netlink, TableRoute};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The keeper of the routes of one server.
pub struct Keeper {
    /// Its socket to the server.
    server: OwnedFd,
    announcement: Announcement,
    /// The last heartbeat.
    heartbeat: Option<Heartbeat>,
    held: Held,
    /// When the routes were last seen, or tried to be added.
    tried: Duration,
}

/// The state of the keeper.
enum Held {
    Nothing,
    /// The device, its number, and the routes on it.
    Routes(Tun, u32),
    /// Why there are no routes, although there should be.
    Failed(String),
}

impl Keeper {
    /// A keeper that holds nothing yet.
    pub fn new(server: OwnedFd, announcement: Announcement) -> Self {
        let (heartbeat, tried) = (None, Duration::ZERO);
        Self { server, announcement, heartbeat, held: Held::Nothing, tried }
    }

    /// Announces and withdraws until the server has closed its end.
    ///
    /// # Errors
    /// The socket fails. The routes are gone then, too.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            if self.receive()? {
                self.withdraw();
                return Ok(());
            }
            match self.is_wanted() {
                true => self.announce(),
                false => self.withdraw(),
            }
            self.report();
        }
    }

    /// Waits for a heartbeat, for the end of the server, or until the last heartbeat is too old.
    fn wait(&self) -> io::Result<()> {
        let left = match (&self.held, self.heartbeat) {
            (Held::Nothing, _) | (_, None) => None,
            (_, Some(beat)) => {
                let left = (beat.sent + HEARTBEAT_AGE_MAX).saturating_sub(now());
                // Time of the kernel is coarser; without heartbeats it ends at once.
                Some(left.max(Duration::from_millis(1)).try_into().map_err(io::Error::other)?)
            }
        };
        match poll(&mut [PollFd::new(&self.server, PollFlags::IN)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Receives all waiting heartbeats: the last one holds. Returns whether the server is gone.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MESSAGE_LEN_MAX];
        loop {
            match recv(&self.server, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(true),
                Ok((len, _)) => self.heartbeat = Heartbeat::from_bytes(&buffer[..len]),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Whether the server wants the routes, and has said so lately.
    fn is_wanted(&self) -> bool {
        let is_recent = |beat: Heartbeat| now().saturating_sub(beat.sent) < HEARTBEAT_AGE_MAX;
        self.heartbeat.is_some_and(|beat| beat.is_announced && is_recent(beat))
    }

    /// Adds the routes, unless they are there. What others removed is repaired, and what failed
    /// tried again, once in a while.
    fn announce(&mut self) {
        let is_due = now().saturating_sub(self.tried) >= REPAIR_INTERVAL;
        let is_done = match &self.held {
            Held::Nothing => false,
            Held::Failed(_) => !is_due,
            Held::Routes(_, link) => !is_due || self.has_routes(*link),
        };
        if is_due {
            self.tried = now();
        }
        if is_done {
            return;
        }
        // The old device goes before the new one comes: a prefix has one route.
        self.held = Held::Nothing;
        self.held = match hold(&self.announcement) {
            Ok((tun, link)) => Held::Routes(tun, link),
            Err(why) => Held::Failed(why),
        };
        self.tried = now();
    }

    /// Closes the device, which removes the routes. Of a route that goes with its device the kernel
    /// informs no routing daemon, which then has to look by itself; so they are removed first.
    fn withdraw(&mut self) {
        if let Held::Routes(_, link) = &self.held
            && let Ok(mut netlink) = Netlink::open()
        {
            for route in routes(&self.announcement, *link) {
                // What others have removed is gone, too.
                let _ = netlink.delete_route(&route);
            }
        }
        self.held = Held::Nothing;
    }

    /// Whether the device still has all routes.
    fn has_routes(&self, link: u32) -> bool {
        let Announcement { addresses, table } = &self.announcement;
        let routes = Netlink::open().and_then(|mut netlink| netlink.routes(*table));
        let routes = routes.unwrap_or_default();
        let has =
            |address: &IpAddr| routes.iter().any(|one| one.to == *address && one.link == link);
        addresses.iter().all(has)
    }

    fn state(&self) -> KeeperState {
        match &self.held {
            Held::Nothing => KeeperState::Withdrawn,
            Held::Routes(..) => KeeperState::Announced,
            Held::Failed(_) => KeeperState::Failed,
        }
    }

    /// Tells the server. One that does not read gets nothing.
    fn report(&self) {
        let text = match &self.held {
            Held::Nothing => String::new(),
            Held::Routes(tun, _) => tun.name.clone(),
            Held::Failed(why) => why.clone(),
        };
        let report = Report { state: self.state(), text };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A server that is gone is seen when the next heartbeat is received.
        let _ = send(&self.server, &report.to_bytes(), flags);
    }
}

/// The routes to all addresses, on this device.
fn routes(announcement: &Announcement, link: u32) -> impl Iterator<Item = TableRoute> {
    let table = announcement.table;
    announcement.addresses.iter().copied().map(move |to| {
        let len = if to.is_ipv4() { 32 } else { 128 };
        TableRoute { to, len, table, protocol: PROTOCOL, link }
    })
}

/// Makes the device and adds all routes.
fn hold(announcement: &Announcement) -> Result<(Tun, u32), String> {
    let tun = Tun::open()?;
    let name = &tun.name;
    let of_kernel = |why: io::Error| format!("the kernel does not set up {name}: {why}");
    let mut netlink = Netlink::open().map_err(of_kernel)?;
    let link = netlink.link(LinkId::Name(name)).map_err(of_kernel)?.index;
    netlink.set_up(link).map_err(of_kernel)?;
    for route in routes(announcement, link) {
        netlink.add_route(&route).map_err(|why| refusal(&route, &why))?;
    }
    Ok((tun, link))
}

/// Why there is no route, and what to do.
fn refusal(route: &TableRoute, why: &io::Error) -> String {
    let TableRoute { to, table, .. } = route;
    let hint = match Errno::from_io_error(why) {
        Some(Errno::EXIST) => format!(
            ": another process has added it; `ip route show table {table}` shows by which device"
        ),
        Some(Errno::INVAL | Errno::ACCESS | Errno::NODEV | Errno::NETUNREACH) if to.is_ipv6() => {
            ": is IPv6 off for new devices? see net.ipv6.conf.default.disable_ipv6".to_owned()
        }
        _ => String::new(),
    };
    format!("table {table} gets no route to {to}: {why}{hint}")
}

#[cfg(test)]
mod tests;
