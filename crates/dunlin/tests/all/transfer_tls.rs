//! Transfers over TLS (RFC 9103): to and from BIND, to NSD, and to kdig.
use crate::served::{Process, Served, binary, short_socket, text};
use crate::transfer::{records, served};
use crate::update::{Scene, lacks_tools};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::ports::free_address;
use test_support::skip::skip;
use test_support::wait::{until_ok, until_true};

/// A folder with a CA and certificates that it signed.
struct Certificates(PathBuf);

impl Certificates {
    /// With a certificate for each name.
    fn create(test: &str, names: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_certificates"));
        fs::create_dir_all(&folder).expect("a folder");
        // OpenSSL takes equal names of subject and issuer for a certificate that signs itself.
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "CA of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("a root");
        let issuer: &Issuer<'_, KeyPair> = &ca;
        for name in names {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new([(*name).to_owned()]).expect("a name");
            params.distinguished_name.push(DnType::CommonName, *name);
            let signed = params.signed_by(&key, issuer).expect("signed");
            fs::write(folder.join(format!("{name}.pem")), signed.pem()).expect("a file");
            fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("a file");
        }
        fs::write(folder.join("ca.pem"), ca.pem()).expect("a file");
        Self(folder)
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    /// `[transfer.tls]` with the certificate of a name.
    fn section(&self, name: &str) -> String {
        let [cert, key, ca] = [format!("{name}.pem"), format!("{name}.key"), "ca.pem".to_owned()];
        let [cert, key, ca] = [cert, key, ca].map(|file| self.path(&file));
        format!("[transfer.tls]\ncert = {cert:?}\nkey = {key:?}\nclient_ca = {ca:?}\n")
    }
}

/// Starts a server of other software with its config in a folder; `None`: it is not installed.
fn start(folder: &Path, program: &[&str], config: &str) -> Option<Process> {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("config"), config).expect("a file");
    let log = File::create(folder.join("log")).expect("a log");
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg("config").current_dir(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
    command.spawn().ok().map(Process)
}

const BIND: &[&str] = &["/usr/sbin/named", "-g", "-n", "1", "-c"];
const NSD: &[&str] = &["/usr/sbin/nsd", "-d", "-c"];

/// The options of a BIND without files elsewhere.
fn bind_options(folder: &Path) -> String {
    format!(
        "directory \"{}\"; listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; \
         recursion no; dnssec-validation no; ",
        folder.display()
    )
}

struct TlsScene {
    scene: Scene,
    certificates: Certificates,
    private: SocketAddrV4,
}

impl TlsScene {
    /// A server that serves `z.example` over TLS to the certificate `secondary.test`.
    fn start(test: &str) -> Self {
        let private = free_address(Ipv4Addr::LOCALHOST);
        let names = ["ns.dunlin.test", "secondary.test", "other.test"];
        let certificates = Certificates::create(test, &names);
        let section = certificates.section("ns.dunlin.test");
        let config = format!("[transfer]\nenabled = true\ntls_listen = [\"{private}\"]\n{section}");
        let scene = Scene::start_with(test, &config);
        let grant = ["--grant", "read z.example", "--subject", "secondary.test"];
        scene.local(&[&["token", "create", "secondary"], &grant[..]].concat());
        Self { scene, certificates, private }
    }

    /// Asks over TLS with the certificate of a name.
    fn kdig(&self, certificate: Option<&str>, args: &[&str]) -> String {
        let mut command = Command::new("kdig");
        command.arg(format!("@{}", self.private.ip())).arg("-p");
        command.arg(self.private.port().to_string()).arg("+tls-hostname=ns.dunlin.test");
        command.arg(format!("+tls-ca={}", self.certificates.path("ca.pem")));
        if let Some(name) = certificate {
            let path = |end: &str| self.certificates.path(&format!("{name}.{end}"));
            command.arg(format!("+tls-certfile={}", path("pem")));
            command.arg(format!("+tls-keyfile={}", path("key")));
        }
        text(&command.args(args).output().expect("kdig runs").stdout)
    }
}

#[test]
fn certificate_with_read_for_a_zone_gets_it_over_tls_and_no_other_client_does() {
    if lacks_tools() {
        return;
    }
    let scene = TlsScene::start("transfer-tls");
    let whole = ["z.example", "AXFR"];
    let quiet = ["+noall", "+answer"];
    let transferred = scene.kdig(Some("secondary.test"), &[&quiet[..], &whole].concat());
    assert_eq!(records(&transferred), served(&scene.scene), "{transferred}");
    for certificate in [None, Some("other.test")] {
        let refused = scene.kdig(certificate, &whole);
        assert!(!refused.contains("192.0.2.1"), "{certificate:?}: {refused}");
    }
    let soa = scene.kdig(Some("secondary.test"), &["+noall", "+answer", "z.example", "SOA"]);
    assert!(soa.contains(&scene.scene.serial()), "{soa}");
    // RFC 9103 §6.5: a connection for transfers answers nothing else.
    let other = scene.kdig(Some("secondary.test"), &["+edns", "ns.z.example", "A"]);
    assert!(other.contains("REFUSED") && other.contains("Not Supported"), "{other}");
    let status = scene.scene.local(&["status", "-o", "json"]);
    assert!(status.contains("[transfer.tls] cert"), "{status}");
}

#[test]
fn bind_and_nsd_follow_changes_over_tls() {
    if lacks_tools() {
        return;
    }
    let scene = TlsScene::start("transfer-tls-secondaries");
    let (port, file) = (scene.private.port(), |file: &str| scene.certificates.path(file));
    let folders = ["bind", "nsd"].map(|name| scene.scene.file(name));
    let [bind, nsd] = [(); 2].map(|()| free_address(Ipv4Addr::LOCALHOST));
    let [ca, cert, key] = ["ca.pem", "secondary.test.pem", "secondary.test.key"].map(file);
    let options = bind_options(&folders[0]);
    let of_bind = format!(
        "tls dunlin {{ ca-file \"{ca}\"; remote-hostname \"ns.dunlin.test\"; \
         cert-file \"{cert}\"; key-file \"{key}\"; }};\n\
         options {{ {options} listen-on port {} {{ 127.0.0.1; }}; allow-transfer {{ any; }}; }};\n\
         controls {{}};\nzone \"z.example\" {{ type secondary; file \"z\"; max-refresh-time 1; \
         min-refresh-time 1; primaries {{ 127.0.0.1 port {port} tls dunlin; }}; }};\n",
        bind.port()
    );
    let folder = folders[1].display();
    let of_nsd = format!(
        "server:\n  ip-address: 127.0.0.1\n  port: {}\n  username: \"\"\n  zonesdir: {folder}\n  \
         xfrdir: {folder}\n  xfrdfile: {folder}/xfrd\n  zonelistfile: {folder}/list\n  \
         pidfile: {folder}/pid\n  database: \"\"\n  cookie-secret-file: \"\"\n  \
         tls-cert-bundle: {ca:?}\nremote-control:\n  control-enable: no\n\
         tls-auth:\n  name: dunlin\n  auth-domain-name: ns.dunlin.test\n  \
         client-cert: {cert:?}\n  client-key: {key:?}\n\
         zone:\n  name: z.example\n  zonefile: z\n  max-refresh-time: 1\n  max-retry-time: 1\n  \
         request-xfr: 127.0.0.1@{port} NOKEY dunlin\n  provide-xfr: 127.0.0.1 NOKEY\n",
        nsd.port()
    );
    let mut running = Vec::new();
    let others = [("bind", BIND, of_bind, bind), ("nsd", NSD, of_nsd, nsd)];
    for ((name, program, config, address), folder) in others.into_iter().zip(&folders) {
        match start(folder, program, &config) {
            Some(process) => running.push((name, address, process)),
            None => skip(name),
        }
    }
    for round in 0..3 {
        let zone = scene.scene.file("one.zone");
        fs::write(&zone, format!("one-{round} 60 A 192.0.2.9\n")).expect("a file");
        let zone = zone.to_str().expect("UTF-8");
        scene.scene.api(&["records", "import", "z.example", zone, "--yes"]);
        let expected = served(&scene.scene);
        for (name, address, _) in &running {
            until_ok(&format!("{name} has the zone of round {round}"), || {
                let mut dig = Command::new("dig");
                dig.args(["@127.0.0.1", "-p", &address.port().to_string(), "+noall", "+answer"]);
                dig.args(["+onesoa", "+tries=1", "+time=2", "z.example", "AXFR"]);
                let found = records(&text(&dig.output().map_err(|why| why.to_string())?.stdout));
                if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
            });
        }
    }
}

#[test]
fn zone_of_bind_is_followed_over_tls_and_only_from_the_named_server() {
    let test = "secondary-tls";
    let certificates = Certificates::create(test, &["bind.test", "dunlin.test"]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("secondary-tls_primary");
    let [plain, private, listen] = [(); 3].map(|()| free_address(Ipv4Addr::LOCALHOST));
    let [ca, cert, key] =
        ["ca.pem", "bind.test.pem", "bind.test.key"].map(|file| certificates.path(file));
    let (options, port) = (bind_options(&folder), private.port());
    let config = format!(
        "tls own {{ ca-file \"{ca}\"; cert-file \"{cert}\"; key-file \"{key}\"; }};\n\
         options {{ {options} listen-on port {port} tls own {{ 127.0.0.1; }};\n\
         listen-on port {} {{ 127.0.0.1; }};\n\
         allow-transfer port {port} transport tls {{ any; }}; }};\ncontrols {{}};\n\
         zone \"z.example\" {{ type primary; file \"zone\"; ixfr-from-differences yes; }};\n",
        plain.port()
    );
    let zone = |serial: u32| {
        format!(
            "$TTL 60\n@ SOA ns root {serial} 1 1 1000 60\n@ NS ns\nns A 192.0.2.1\n\
             n{serial} A 192.0.2.2\n"
        )
    };
    // A journal of an earlier run has newer serials.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("zone"), zone(1)).expect("a file");
    let Some(bind) = start(&folder, BIND, &config) else { return skip("named") };
    until_ok("BIND listens", || TcpStream::connect(private));
    let socket = short_socket(test).to_str().expect("UTF-8").to_owned();
    let run = |args: &[&str]| {
        let mut command = binary();
        command.args(args).args(["--socket", &socket]);
        let output = command.output().expect("the binary runs");
        text(&output.stdout) + &text(&output.stderr)
    };
    let config = format!(
        "listen = [\"{listen}\"]\ndrain = \"0s\"\n[admin]\nsocket = \"{socket}\"\n\
         [upstream]\nca = {ca:?}\n[[zone]]\nname = \"z.example\"\n\
         primaries = [\"tls://{private}#other.test\"]\n{}",
        certificates.section("dunlin.test")
    );
    let mut dunlin = Served::start(test, &config, &[]);
    until_true("the wrong name is a fault", || {
        let status = run(&["status"]);
        status.contains("no TLS") && status.contains("other.test")
    });
    assert!(!run(&["zones", "dump", "z.example"]).contains("192.0.2.2"));
    let file = dunlin.folder.join("dunlin.toml");
    let written = fs::read_to_string(&file).expect("a file").replace("#other.test", "#bind.test");
    fs::write(&file, written).expect("a file");
    run(&["reload"]);
    for serial in [1, 2] {
        fs::write(folder.join("zone"), zone(serial)).expect("a file");
        let pid = rustix::process::Pid::from_child(&bind.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
        until_true(&format!("serial {serial} is here"), || {
            run(&["zones", "dump", "z.example"]).contains(&format!("n{serial}"))
        });
    }
    assert!(run(&["status"]).contains(&format!("tls://{private}#bind.test")));
    dunlin.end();
}
