//! Real etcd servers for tests, on loopback.
use crate::spaces::Host;
use crate::{ports, skip, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A member of the cluster.
struct Member {
    /// Its addresses for clients and for other members.
    client: SocketAddrV4,
    peer: SocketAddrV4,
    /// The network namespace it runs in; `None`: the test's.
    space: Option<String>,
    child: Option<Child>,
}

/// An etcd cluster that runs until it is dropped.
pub struct Etcd {
    folder: PathBuf,
    binary: PathBuf,
    members: Vec<Member>,
    /// Options of each member, such as `--quota-backend-bytes=…`.
    options: Vec<String>,
}

impl Etcd {
    /// Starts so many members and waits until they serve. Without etcd the test is skipped, or
    /// fails where nothing may be skipped.
    ///
    /// # Panics
    /// A member does not start.
    pub fn start_or_skip(members: usize) -> Option<Self> {
        Self::start_with(members, &[])
    }

    /// As [`Etcd::start_or_skip`], with options of each member. With `--cert-file=…` clients
    /// come over TLS.
    ///
    /// # Panics
    /// A member does not start.
    pub fn start_with(members: usize, options: &[&str]) -> Option<Self> {
        let free = || ports::free_address(Ipv4Addr::LOCALHOST);
        let member = |_| Member { client: free(), peer: free(), space: None, child: None };
        Self::start_members((0..members).map(member).collect(), options)
    }

    /// As [`Etcd::start_with`], with a member on each of these hosts.
    ///
    /// # Panics
    /// A member does not start.
    pub fn start_on(hosts: &[Host], options: &[&str]) -> Option<Self> {
        let member = |host: &Host| Member {
            client: SocketAddrV4::new(host.address, 2379),
            peer: SocketAddrV4::new(host.address, 2380),
            space: Some(host.space.clone()),
            child: None,
        };
        Self::start_members(hosts.iter().map(member).collect(), options)
    }

    fn start_members(members: Vec<Member>, options: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Some(binary) = find() else {
            skip::skip("no etcd here: `scripts/require test` installs it");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dunlin-etcd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // A killed process with this number may have left one.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder of its own");
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut etcd = Self { folder, binary, members, options };
        for member in 0..etcd.members.len() {
            etcd.spawn(member);
        }
        for member in 0..etcd.members.len() {
            etcd.wait(member);
        }
        Some(etcd)
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The URLs of all members.
    pub fn endpoints(&self) -> Vec<String> {
        let scheme = self.client_scheme();
        self.members.iter().map(|member| format!("{scheme}://{}", member.client)).collect()
    }

    fn client_scheme(&self) -> &'static str {
        let is_tls = self.options.iter().any(|option| option.starts_with("--cert-file="));
        if is_tls { "https" } else { "http" }
    }

    /// Starts a member that was killed, with what it has on its disk.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(&mut self, member: usize) {
        self.spawn(member);
        self.wait(member);
    }

    /// The same, without waiting until it serves.
    ///
    /// # Panics
    /// It does not start.
    pub fn spawn(&mut self, member: usize) {
        let url = |address: SocketAddrV4| format!("http://{address}");
        let all = self.members.iter().enumerate();
        let all = all.map(|(n, member)| format!("m{n}={}", url(member.peer)));
        let all = all.collect::<Vec<_>>().join(",");
        let Member { client, peer, ref space, .. } = self.members[member];
        let client = format!("{}://{client}", self.client_scheme());
        let log = File::create(self.folder.join(format!("m{member}.log"))).expect("a log");
        let mut command = match space {
            None => Command::new(&self.binary),
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(&self.binary);
                command
            }
        };
        let child = command
            .arg(format!("--name=m{member}"))
            .arg(format!("--data-dir={}", self.folder.join(format!("m{member}")).display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={}", url(peer)))
            .arg(format!("--initial-advertise-peer-urls={}", url(peer)))
            .arg(format!("--initial-cluster={all}"))
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.members[member].child = Some(child.expect("etcd starts"));
    }

    fn wait(&self, member: usize) {
        let client = self.members[member].client;
        wait::until_ok(&format!("etcd serves at {client}"), || {
            TcpStream::connect(client).map_err(|why| format!("{why}\n{}", self.log(member)))
        });
    }

    fn log(&self, member: usize) -> String {
        let log = fs::read_to_string(self.folder.join(format!("m{member}.log")));
        let log = log.unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Kills a member; its files stay.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            // It may have ended itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Removes the files of a killed member.
    ///
    /// # Panics
    /// They cannot be removed.
    pub fn empty(&mut self, member: usize) {
        fs::remove_dir_all(self.folder.join(format!("m{member}"))).expect("files of a member");
    }

    /// Copies the files of a killed member; returns where to.
    ///
    /// # Panics
    /// They cannot be copied.
    pub fn save(&self, member: usize) -> PathBuf {
        let to = self.folder.join(format!("m{member}.saved"));
        // Of an earlier time.
        let _ = fs::remove_dir_all(&to);
        copy(&self.folder.join(format!("m{member}")), &to);
        to
    }

    /// Replaces the files of a killed member by saved ones: it is set back.
    ///
    /// # Panics
    /// They cannot be copied.
    pub fn load(&self, member: usize, saved: &Path) {
        let to = self.folder.join(format!("m{member}"));
        fs::remove_dir_all(&to).expect("files of a member");
        copy(saved, &to);
    }

    /// Stops a member: its connections stay open and are silent.
    pub fn pause(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// Lets a stopped member continue.
    pub fn resume(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    fn signal(&self, member: usize, signal: Signal) {
        let child = self.members[member].child.as_ref();
        let pid = child.and_then(|child| Pid::from_raw(child.id() as i32));
        kill_process(pid.expect("a member that runs"), signal).expect("a process of ours");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
        // A file may still be written to.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(copied.success(), "files are copied");
}

/// The binary: the one that `DUNLIN_ETCD` names, or Debian's.
///
/// # Panics
/// It names no file.
fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("DUNLIN_ETCD").map(PathBuf::from) {
        assert!(named.is_file(), "DUNLIN_ETCD names no file: {}", named.display());
        return Some(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    folders.find(|path| path.is_file())
}
