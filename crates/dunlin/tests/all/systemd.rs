//! The systemd units, and notifications to a simulated service manager that checks every word.
//! `managed` runs the units under the real one.
use crate::served::{HEAD, Served, binary, zone};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketType, recvmsg, sockopt,
};
use rustix::process::Signal;
use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use test_support::wait::deadline;

const UNIT: &str = include_str!("../../../../packaging/systemd/dunlin.service");
const OF_ANYCAST: &str = include_str!("../../../../examples/anycast/systemd.conf");
const OF_DPDK: &str = include_str!("../../../../examples/dpdk/systemd.conf");
/// Maximum of `systemd-analyze security`, in tenths: 2.0 is "OK", 10 "unsafe".
const EXPOSURE_MAX: u32 = 20;

/// Standard output of a command; `None`, with a message, if the command is missing.
fn output(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {told}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            let strict = std::env::var_os("DUNLIN_REQUIRE_ALL").is_some();
            assert!(!strict, "{command:?}: {error}");
            eprintln!("SKIPPED: {command:?}: {error}");
            None
        }
    }
}

/// The values of a key of the unit, in order.
fn values(key: &str) -> impl Iterator<Item = &str> {
    UNIT.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

/// Also with what announced addresses need (CAP_NET_ADMIN, one device, netlink), or DPDK.
#[test]
fn exposure_of_the_unit_is_low() {
    expect_low_exposure(packaging().join("dunlin.service"));
    for (name, text) in [("anycast", OF_ANYCAST), ("dpdk", OF_DPDK)] {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("units-of-{name}"));
        let more = folder.join("dunlin.service.d");
        fs::create_dir_all(&more).expect("a folder");
        fs::write(folder.join("dunlin.service"), UNIT).expect("a file");
        fs::write(more.join(format!("{name}.conf")), text).expect("a file");
        expect_low_exposure(folder.join("dunlin.service"));
    }
}

fn expect_low_exposure(unit: PathBuf) {
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    // It fails if the exposure is higher.
    let arguments = ["security", "--offline=true", "--no-pager", &threshold];
    let Some(told) = output(Command::new("systemd-analyze").args(arguments).arg(unit)) else {
        return;
    };
    println!("{}", told.lines().last().unwrap_or_default());
}

/// systemd knows every line of the units, and dunlin knows every command in them.
#[test]
fn systemd_knows_every_line_of_the_units() {
    for key in ["ExecStart", "ExecReload"] {
        let line = values(key).next().expect("a command");
        let Some(line) = line.strip_prefix("/usr/bin/dunlin ") else { continue };
        let mut words = line.split(' ');
        let subcommand = words.next().expect("a subcommand");
        let help = output(binary().args([subcommand, "--help"])).expect("our own binary");
        for option in words.filter(|word| word.starts_with('-')) {
            assert!(help.contains(option), "{line}: {help}");
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("units");
    fs::create_dir_all(&folder).expect("a folder");
    let service = UNIT.replace("/usr/bin/dunlin", env!("CARGO_BIN_EXE_dunlin"));
    fs::write(folder.join("dunlin.service"), service).expect("a file");
    let more = folder.join("dunlin.service.d");
    fs::create_dir_all(&more).expect("a folder");
    fs::write(more.join("anycast.conf"), OF_ANYCAST).expect("a file");
    fs::copy(packaging().join("dunlin.socket"), folder.join("dunlin.socket")).expect("a file");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=false"]).arg(folder.join("dunlin.service"));
    verify.arg(folder.join("dunlin.socket"));
    // It warns of unknown keys and continues.
    let Ok(told) = verify.output() else { return drop(output(&mut verify)) };
    let told = String::from_utf8_lossy(&told.stderr);
    let ours: Vec<&str> = told.lines().filter(|line| line.contains("dunlin")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

/// A simulated service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(test: &str) -> Self {
        // The path of a unix socket is short.
        let path = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(deadline())).expect("a timeout");
        Self { socket, path }
    }

    /// The next notification, and the socket that comes with it.
    fn told(&self) -> (String, Option<OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 4096];
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let len = recvmsg(&self.socket, into, &mut control, flags).expect("a word in time").bytes;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        assert!(fds.len() <= 1, "one each, so that each has its name");
        (String::from_utf8(bytes[..len].to_vec()).expect("UTF-8"), fds.pop())
    }

    /// The next notification that is not a heartbeat.
    fn next(&self) -> (String, Option<OwnedFd>) {
        loop {
            let told = self.told();
            if told.0 != "WATCHDOG=1" {
                return told;
            }
        }
    }

    /// Asserts that this is the next notification.
    fn expect(&self, text: &str) {
        assert_eq!(self.next().0, text);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Microseconds of CLOCK_MONOTONIC.
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

#[test]
fn manager_receives_start_reload_heartbeat_and_end() {
    const WATCHDOG: Duration = Duration::from_millis(600);
    let manager = Manager::new("notified");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("notified");
    let mut command = binary();
    command.env("NOTIFY_SOCKET", &manager.path);
    command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    let admin = format!("[admin]\nsocket = {:?}\n", folder.join("admin"));
    let config = "drain = \"0s\"\n".to_owned() + &admin + &zone("a.test");
    let mut served = Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]);
    for (name, kind) in [
        ("kept-0", SocketType::STREAM),
        ("kept-1", SocketType::DGRAM),
        ("kept-2", SocketType::DGRAM),
    ] {
        let (text, socket) = manager.next();
        assert_eq!(text, format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}"));
        let socket = socket.expect("a socket to keep");
        assert_eq!(sockopt::socket_type(socket), Ok(kind));
    }
    let status = format!("STATUS=1 of 1 zones current; listens on {}", served.address);
    manager.expect(&status);
    manager.expect("READY=1");

    fs::write(folder.join("a.test.zone"), "broken\n").expect("a file");
    let asked = monotonic_micros();
    served.signal(Signal::HUP);
    let (text, _) = manager.next();
    let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&text);
    let micros: u64 = micros.parse().expect("a number");
    assert!((asked..=monotonic_micros()).contains(&micros), "{micros}, and asked at {asked}");
    manager.expect(&status.replace("1 of 1", "0 of 1"));
    manager.expect("READY=1");

    (0..10).for_each(|_| assert_eq!(manager.told().0, "WATCHDOG=1"));

    served.signal(Signal::TERM);
    manager.expect("STOPPING=1");
    assert_eq!(served.status(), Some(0));
}

/// A supervised server refuses a hot restart and names the remedy.
#[test]
fn supervised_server_refuses_a_hot_restart() {
    let manager = Manager::new("watched");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("watched");
    let mut command = binary();
    command.env("NOTIFY_SOCKET", &manager.path);
    let admin = format!("[admin]\nsocket = {:?}\n", folder.join("admin"));
    let config = admin + &zone("a.test");
    let served = Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]);
    let new_process = binary()
        .args(["serve", "--hot-restart", "-c"])
        .arg(folder.join("dunlin.toml"))
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&new_process.stderr);
    assert_eq!(new_process.status.code(), Some(1), "{told}");
    assert!(
        told.contains("service manager") && told.contains("systemctl restart dunlin"),
        "{told}"
    );
    assert!(crate::served::holds(&served.ask("ns.a.test"), &[192, 0, 2, 1]), "the old one goes on");
}
