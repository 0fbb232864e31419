use super::*;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

fn key() -> Arc<HashKey> {
    Arc::new(HashKey::new(std::array::from_fn(|word| word as u64 * 7 + 1)))
}

/// Loads a text as a hosts file; its errors a line each, the file left out.
fn load_text(test: &str, text: impl AsRef<[u8]>) -> Result<(Zone, u64), String> {
    let file = file(test);
    fs::write(&file, text).expect("a file");
    let loaded = load_hosts(&file, 60, &key(), None);
    fs::remove_file(&file).expect("the file goes");
    loaded.map_err(|failure| failure.to_string().replace(&*file.to_string_lossy(), ""))
}

fn file(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("hosts-{test}-{}", std::process::id()))
}

/// The data of a set, each record's in brackets; nothing where there is none.
fn set(zone: &Zone, owner: &str, rtype: Rtype) -> Option<String> {
    let owner = NameBuf::from_text(owner.as_bytes(), Name::ROOT).expect("a name");
    let set = zone.set(owner.as_name(), rtype)?;
    assert_eq!(set.ttl(), 60);
    Some(set.records().map(|data| format!("{data:?}")).collect())
}

#[test]
fn names_have_their_addresses_and_addresses_their_first_name() {
    let text = "\u{feff}127.0.0.1 localhost\n\
        # a comment\n\
        \n\
        192.0.2.1\twww.Example.org  www # the web\r\n\
        192.0.2.2 www.example.org mail\n\
        2001:db8::1 www.example.org\n\
        192.0.2.1 other\n\
        fe80::1%eth0 linked\n\
        0.0.0.0 ads.example ads.example\n   ";
    let (zone, names) = load_text("good", text).expect("a hosts file");
    assert_eq!(names, 6);
    let a = |owner| set(&zone, owner, Rtype::A);
    assert_eq!(a("www.example.org").as_deref(), Some("[192, 0, 2, 1][192, 0, 2, 2]"));
    assert_eq!(a("WWW").as_deref(), Some("[192, 0, 2, 1]"));
    assert_eq!(a("other").as_deref(), Some("[192, 0, 2, 1]"));
    assert_eq!(a("ads.example").as_deref(), Some("[0, 0, 0, 0]"));
    assert_eq!((a("linked"), a("example.org")), (None, None));
    assert!(set(&zone, "www.example.org", Rtype::AAAA).is_some());
    let pointer = |owner| {
        let owner = NameBuf::from_text(owner, Name::ROOT).expect("a name");
        let set = zone.set(owner.as_name(), Rtype::PTR)?;
        set.records()
            .map(|data| Name::parse(data).expect("a name").to_string())
            .reduce(|a, b| a + &b)
    };
    assert_eq!(pointer(b"1.2.0.192.in-addr.arpa").as_deref(), Some("www.Example.org."));
    assert_eq!(pointer(b"1.0.0.127.in-addr.arpa").as_deref(), Some("localhost."));
    let six = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
    assert_eq!(pointer(six.as_bytes()).as_deref(), Some("www.example.org."));
    assert_eq!(pointer(b"0.0.0.0.in-addr.arpa"), None, "it stands for none");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let text = "192.0.2.1 good\n\
        \twww.example.org 192.0.2.1\n\
        192.0.2.256 a\n\
        192.0.2.1 a..b\n\
        192.0.2.1 # nobody\n\
        192.0.2.1  a *.b\n\
        fe80::1%x\n\
        192.0.2.1 .\n";
    let labels = "(labels of up to 63 octets, with dots between)";
    let help = "(a line is an address and its names, such as: 192.0.2.1 www.example.org www)";
    let expected = format!(
        ":2:2: `www.example.org` is no address {help}\n\
         :3:1: `192.0.2.256` is no address {help}\n\
         :4:11: `a..b` is no name: a label is empty {labels}\n\
         :5:1: 192.0.2.1 has no name (write its names behind it)\n\
         :6:14: `*.b` is no name: it would stand for others (write a zone file for wildcards)\n\
         :8:11: `.` is no name: it is the root (take it out)"
    );
    assert_eq!(load_text("bad", text).map(drop).expect_err("errors"), expected);
    let told = load_text("control", b"192.0.2.1 a..\x1b[2J").map(drop).expect_err("an error");
    assert!(told.contains("`a..\\u{1b}[2J` is no name"), "{told}");
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let failure = load_hosts(Path::new("/nowhere/hosts"), 60, &key(), None).map(drop);
    let failure = failure.expect_err("no file");
    assert!(failure.to_string().starts_with("/nowhere/hosts: cannot be read: "), "{failure}");
    assert_eq!(failure.files, [Path::new("/nowhere/hosts")], "it may come");
}

#[test]
fn lines_errors_and_sets_have_an_end() {
    let long = format!("192.0.2.1 {}\n", "a ".repeat(HOSTS_LINE_LEN_MAX / 2));
    let told = load_text("long", &long).map(drop).expect_err("too long");
    assert!(told.starts_with(":1: the line is longer than 65536 octets"), "{told}");
    assert_eq!(load_text("just", &long[..HOSTS_LINE_LEN_MAX]).expect("a line").1, 1);
    let told = load_text("many", "x\n".repeat(1_000)).map(drop).expect_err("errors");
    assert_eq!(told.lines().filter(|line| line.starts_with(':')).count(), HOSTS_ERRORS_MAX);
    let crowd: String = (0..6_000u32).map(|n| format!("{} a\n", Ipv4Addr::from(n + 1))).collect();
    let told = load_text("crowd", &crowd).map(drop).expect_err("no message carries it");
    assert!(told.contains("the A set of 6000 records"), "{told}");
}

/// What an ad-block list costs; `--nocapture` tells.
#[test]
fn a_large_file_is_loaded_fast_and_shares_what_stays() {
    let count = if cfg!(debug_assertions) { 20_000 } else { 500_000 };
    let mut text: String =
        (0..count).map(|n| format!("0.0.0.0 ads{n}.example{}.test\n", n % 5_000)).collect();
    let file = file("large");
    fs::write(&file, &text).expect("a file");
    let began = std::time::Instant::now();
    let (zone, names) = load_hosts(&file, 60, &key(), None).expect("a hosts file");
    println!("{names} names in {:?}", began.elapsed());
    assert_eq!(names, count);
    text += "0.0.0.0 one.more.test\n";
    fs::write(&file, &text).expect("a file");
    let (next, names) = load_hosts(&file, 60, &key(), Some(&zone)).expect("a hosts file");
    fs::remove_file(&file).expect("the file goes");
    assert_eq!(names, count + 1);
    let leaves = |zone: &Zone| zone.names().leaves().iter().cloned().collect::<Vec<_>>();
    let (old, new) = (leaves(&zone), leaves(&next));
    let shared = old.iter().zip(&new).filter(|(old, new)| Arc::ptr_eq(old, new)).count();
    assert!(shared + 4 >= old.len(), "{shared} of {} leaves are shared", old.len());
}
