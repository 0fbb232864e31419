use super::*;
use rustix::io::fcntl_dupfd_cloexec;
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;

fn from(variables: &[(&'static str, &str)]) -> impl Fn(&'static str) -> Option<String> {
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

#[test]
fn descriptors_start_at_three_and_have_names() {
    let ours = [("LISTEN_PID", "41"), ("LISTEN_FDS", "3"), ("LISTEN_FDNAMES", "dunlin.socket:ops")];
    let named = |fd, name: &str| (fd, name.to_owned());
    let expected = vec![named(3, "dunlin.socket"), named(4, "ops"), named(5, "")];
    assert_eq!(passed(from(&ours), 41), Ok(expected));
    assert_eq!(passed(from(&ours), 42), Ok(vec![]), "passed to another process");
    assert_eq!(passed(from(&ours[1..]), 41), Ok(vec![]), "passed to no process");
    assert_eq!(passed(from(&[]), 41), Ok(vec![]));
}

#[test]
fn invalid_variables_are_errors() {
    for count in ["-1", "many", "4097", "99999999999999999999"] {
        let error = passed(from(&[("LISTEN_PID", "41"), ("LISTEN_FDS", count)]), 41);
        let error = error.expect_err("not a number of sockets").to_string();
        assert!(error.contains("LISTEN_FDS") && error.contains(count), "{error}");
    }
    assert!(passed(from(&[("LISTEN_PID", "x")]), 41).is_err());
    assert!(watchdog(from(&[("WATCHDOG_USEC", "soon")]), 41).is_err());
}

#[test]
fn watchdog_interval_is_half_of_the_configured_one() {
    let seconds = |variables: &[(&'static str, &str)]| {
        watchdog(from(variables), 41).expect("numbers").map(|half| half.as_secs_f64())
    };
    assert_eq!(seconds(&[("WATCHDOG_USEC", "30000000")]), Some(15.0));
    assert_eq!(seconds(&[("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "41")]), Some(15.0));
    assert_eq!(seconds(&[("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "42")]), None);
    assert_eq!(seconds(&[("WATCHDOG_USEC", "0")]), None);
    assert_eq!(seconds(&[]), None);
}

#[test]
fn kind_and_address_of_a_passed_socket_are_found() {
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (address, fd) = (udp.local_addr().expect("bound"), OwnedFd::from(udp));
    fcntl_setfd(&fd, FdFlags::empty()).expect("a descriptor");
    let shared = adopt(fd, "dunlin.socket").expect("a UDP socket");
    assert_eq!((shared.kind, shared.address, shared.given), (SocketKind::Udp, address, true));
    assert_eq!(fcntl_getfd(&shared.fd).expect("open"), FdFlags::CLOEXEC);
    for (name, kind) in [("", SocketKind::Tcp), ("ops", SocketKind::Ops), ("api", SocketKind::Api)]
    {
        let tcp = TcpListener::bind("[::1]:0").expect("a socket");
        let address = tcp.local_addr().expect("bound");
        let shared = adopt(tcp.into(), name).expect("a listener");
        assert_eq!((shared.kind, shared.address), (kind, address));
    }
}

#[test]
fn kept_socket_has_its_index_and_kind_and_is_not_a_passed_one() {
    for (index, kind) in
        [SocketKind::Tcp, SocketKind::Udp, SocketKind::Ops, SocketKind::Api].into_iter().enumerate()
    {
        let fd = || -> OwnedFd {
            match kind {
                SocketKind::Udp => UdpSocket::bind("127.0.0.1:0").expect("a socket").into(),
                _ => TcpListener::bind("127.0.0.1:0").expect("a socket").into(),
            }
        };
        let address = "127.0.0.1:53".parse().expect("an address");
        let name =
            descriptor_name::name(index, &SharedSocket { kind, address, given: false, fd: fd() });
        let named = [SocketKind::Ops, SocketKind::Api].contains(&kind).then_some(kind);
        assert_eq!(
            (descriptor_name::index(&name), descriptor_name::kind(&name)),
            (Some(index), named)
        );
        let shared = adopt(fd(), &name).expect("a socket of ours");
        assert_eq!((shared.kind, shared.given), (kind, false));
    }
    for name in ["kept-", "kept-ops", "kept-1-opsy", "kept", "ops", "dunlin.socket", ""] {
        assert_eq!(
            (descriptor_name::index(name), descriptor_name::kind(name)),
            (None, None),
            "{name}"
        );
    }
}

#[test]
fn socket_that_cannot_be_used_is_an_error_with_a_remedy() {
    let unbound = |kind| rustix::net::socket(AddressFamily::INET, kind, None).expect("a socket");
    let stream = unbound(SocketType::STREAM);
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    rustix::net::bind(&stream, &any).expect("a free port");
    let local = std::env::temp_dir().join(format!("dunlin-passed-{}", std::process::id()));
    let cases: [(OwnedFd, &str); 5] = [
        (File::open("/dev/null").expect("a file").into(), "is not a bound IPv4"),
        (UnixListener::bind(&local).expect("a socket").into(), "is not a bound IPv4"),
        (unbound(SocketType::DGRAM), "is not a bound IPv4"),
        (stream, "does not listen; set Accept=no"),
        (UdpSocket::bind("[::]:0").expect("a socket").into(), "BindIPv6Only=ipv6-only"),
    ];
    for (fd, word) in cases {
        let number = fd.as_raw_fd();
        let error = adopt(fd, "dunlin.socket").expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
        assert!(error.contains(&format!("descriptor {number} (dunlin.socket)")), "{error}");
    }
    std::fs::remove_file(local).expect("ours");
}

#[test]
fn notifications_are_sent_to_a_path_and_to_an_abstract_name() {
    let path = std::env::temp_dir().join(format!("dunlin-notify-{}", std::process::id()));
    let name = format!("dunlin-notify-{}", std::process::id());
    let hidden =
        std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name that fits");
    for (manager, to) in [
        (UnixDatagram::bind(&path), path.to_str().expect("UTF-8").to_owned()),
        (UnixDatagram::bind_addr(&hidden), format!("@{name}")),
    ] {
        let manager = manager.expect("a socket");
        let received = || {
            let mut room = [0; 256];
            let len = manager.recv(&mut room).expect("a message");
            String::from_utf8(room[..len].into()).expect("UTF-8")
        };
        let notify = Notify::to(Some(&to), vec!["kept-7".to_owned()]);
        notify.ready();
        assert_eq!(received(), "READY=1");
        notify.status("serving\nREADY=0");
        assert_eq!(received(), "STATUS=serving READY=0");
        notify.watchdog();
        assert_eq!(received(), "WATCHDOG=1");
        let socket = |given| {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let address = udp.local_addr().expect("bound");
            SharedSocket { kind: SocketKind::Udp, address, given, fd: udp.into() }
        };
        notify.keep(&[socket(true), socket(false)]);
        assert_eq!(received(), "FDSTOREREMOVE=1\nFDNAME=kept-7", "old sockets are removed first");
        assert_eq!(
            received(),
            "FDSTORE=1\nFDPOLL=0\nFDNAME=kept-1",
            "passed sockets are not stored"
        );
        notify.stopping();
        assert_eq!(received(), "STOPPING=1");
        notify.reloading();
        let text = received();
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("the time");
        assert!(micros.parse::<u64>().expect("a number") > 0);
    }
    // The manager is gone, or never existed: that is not an error.
    Notify::to(path.to_str(), Vec::new()).ready();
    Notify::to(Some("vsock:2:1"), Vec::new()).ready();
    Notify::to(None, Vec::new()).ready();
    std::fs::remove_file(path).expect("ours");
}

#[test]
fn descriptor_keeps_its_number() {
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let fd = fcntl_dupfd_cloexec(&udp, 700).expect("a descriptor");
    let number = fd.as_raw_fd();
    let shared = adopt(fd, "").expect("a UDP socket");
    assert_eq!(shared.fd.as_raw_fd(), number, "errors name a descriptor by its number");
}

/// Run in a process of its own by `passed_socket_is_used_and_hidden_from_children`.
#[test]
#[ignore = "part: another test starts it as a process"]
fn process() {
    // SAFETY: it runs as the only test, on the only thread, which has opened nothing.
    let manager = unsafe { Manager::take() }.expect("the passed sockets are valid");
    for SharedSocket { kind, address, fd, .. } in &manager.sockets {
        println!("\ntaken: {kind:?} {address} {} {:?}", fd.as_raw_fd(), fcntl_getfd(fd));
    }
    println!("watchdog: {:?}", manager.watchdog);
    let left = VARIABLES.iter().filter(|name| env::var_os(name).is_some()).count();
    println!("left: {left}");
    manager.notify.ready();
}

#[test]
fn passed_socket_is_used_and_hidden_from_children() {
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = udp.local_addr().expect("bound");
    let path = std::env::temp_dir().join(format!("dunlin-passing-{}", std::process::id()));
    let manager = UnixDatagram::bind(&path).expect("a socket");
    // A shell does what systemd does: it knows its process ID, and moves the socket to descriptor
    // 3.
    let output = Command::new("sh")
        .arg("-c")
        .arg(
            "LISTEN_PID=$$ exec \"$0\" --exact systemd::tests::process --ignored --nocapture \
             --test-threads=1 3<&0",
        )
        .arg(env::current_exe().expect("this test"))
        .env("LISTEN_FDS", "1")
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "10000000")
        .stdin(OwnedFd::from(udp))
        .output()
        .expect("a shell");
    let output_text = String::from_utf8_lossy(&output.stdout);
    let taken = format!("taken: Udp {address} 3 Ok(FdFlags(CLOEXEC))\n");
    for line in [taken.as_str(), "watchdog: Some(5s)\n", "left: 0\n"] {
        assert!(output.status.success() && output_text.contains(line), "{line}: {output:?}");
    }
    let mut room = [0; 16];
    let len = manager.recv(&mut room).expect("a notification");
    assert_eq!(&room[..len], b"READY=1");
    std::fs::remove_file(path).expect("ours");
}
