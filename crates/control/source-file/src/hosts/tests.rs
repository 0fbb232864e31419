use super::*;
use std::fs;
use std::net::Ipv4Addr;
use test_support::folder::Folder;

fn key() -> Arc<HashKey> {
    Arc::new(HashKey::new(std::array::from_fn(|word| word as u64 * 7 + 1)))
}

/// Loads a text as a hosts file. Errors are a line each, without the file.
fn load_text(test: &str, text: impl AsRef<[u8]>) -> Result<(Zone, u64), String> {
    let folder = Folder::new(test);
    let file = folder.join("hosts");
    fs::write(&file, &text).expect("a file");
    let loaded = load_hosts(&file, 60, &key(), None);
    let loaded = loaded.map(|loaded| {
        assert_eq!(loaded.cut_off.is_none(), text.as_ref().ends_with(b"\n"));
        (loaded.zone, loaded.names)
    });
    loaded.map_err(|failure| failure.to_string().replace(&*file.to_string_lossy(), ""))
}

/// The data of a set, each record in brackets; `None` if there is none.
fn set(zone: &Zone, owner: &str, rtype: Rtype) -> Option<String> {
    let owner = NameBuf::from_text(owner.as_bytes(), Name::ROOT).expect("a name");
    let set = zone.set(owner.as_name(), rtype)?;
    assert_eq!(set.ttl(), 60);
    Some(set.records().map(|data| format!("{data:?}")).collect())
}

#[test]
fn addresses_and_pointers_are_read() {
    let text = "\u{feff}127.0.0.1 localhost\n\
        # a comment\n\
        \n\
        192.0.2.1\twww.Example.org  www # the web\r\n\
        192.0.2.2 www.example.org mail\n\
        2001:db8::1 www.example.org\n\
        192.0.2.1 other b\u{fc}cher.example \u{ad}.example\n\
        fe80::1%eth0 linked\n\
        0.0.0.0 ads.example ads.example\n   ";
    let (zone, names) = load_text("good", text).expect("a hosts file");
    assert_eq!(names, 8);
    let a = |owner| set(&zone, owner, Rtype::A);
    assert_eq!(a("www.example.org").as_deref(), Some("[192, 0, 2, 1][192, 0, 2, 2]"));
    assert_eq!(a("WWW").as_deref(), Some("[192, 0, 2, 1]"));
    assert_eq!(a("other").as_deref(), Some("[192, 0, 2, 1]"));
    assert_eq!(a("ads.example").as_deref(), Some("[0, 0, 0, 0]"));
    assert_eq!(a("xn--bcher-kva.example").as_deref(), Some("[192, 0, 2, 1]"), "a U-label");
    assert!(a("\\194\\173.example").is_some(), "what has no A-label stays as it is");
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
fn errors_have_their_position() {
    let text = "192.0.2.1 good\n\
        \twww.example.org 192.0.2.1\n\
        192.0.2.256 a\n\
        192.0.2.1 a..b\n\
        192.0.2.1 # no name\n\
        192.0.2.1  a *.b\n\
        fe80::1%x\n\
        192.0.2.1 .\n";
    let labels = "(labels of up to 63 bytes, with dots between)";
    let help = "(write an address and its names, such as: 192.0.2.1 www.example.org www)";
    let expected = format!(
        ":2:2: `www.example.org` is not an address {help}\n\
         :3:1: `192.0.2.256` is not an address {help}\n\
         :4:11: `a..b` is not a name: a label is empty {labels}\n\
         :5:1: 192.0.2.1 has no name (write its names after it)\n\
         :6:14: `*.b` is not a name: it would be a wildcard (write a zone file for wildcards)\n\
         :8:11: `.` is not a name: it is the root (remove it)"
    );
    assert_eq!(load_text("bad", text).map(drop).expect_err("errors"), expected);
    let messages = load_text("control", b"192.0.2.1 a..\x1b[2J").map(drop).expect_err("an error");
    assert!(messages.contains("`a..\\u{1b}[2J` is not a name"), "{messages}");
}

#[test]
fn missing_file_is_an_error() {
    let failure = load_hosts(Path::new("/missing/hosts"), 60, &key(), None).map(drop);
    let failure = failure.expect_err("no file");
    assert!(failure.to_string().starts_with("/missing/hosts: cannot be read: "), "{failure}");
    assert_eq!(failure.files, [Path::new("/missing/hosts")], "it may come");
}

#[test]
fn lines_errors_and_sets_are_limited() {
    let long = format!("192.0.2.1 {}\n", "a ".repeat(HOSTS_LINE_LEN_MAX / 2));
    let messages = load_text("long", &long).map(drop).expect_err("too long");
    assert!(messages.starts_with(":1: the line is longer than 65536 bytes"), "{messages}");
    assert_eq!(load_text("just", &long[..HOSTS_LINE_LEN_MAX]).expect("a line").1, 1);
    let messages = load_text("many", "x\n".repeat(1_000)).map(drop).expect_err("errors");
    assert_eq!(messages.lines().filter(|line| line.starts_with(':')).count(), HOSTS_ERRORS_MAX);
    let crowd: String = (0..6_000u32).map(|n| format!("{} a\n", Ipv4Addr::from(n + 1))).collect();
    let messages = load_text("crowd", &crowd).map(drop).expect_err("no message carries it");
    assert!(messages.contains("the A set of 6000 records"), "{messages}");
}

/// Measures the load of an ad-block list; `--nocapture` prints it.
#[test]
fn large_file_loads_fast_and_shares_unchanged_leaves() {
    let count = if cfg!(debug_assertions) { 20_000 } else { 500_000 };
    let mut text: String =
        (0..count).map(|n| format!("0.0.0.0 ads{n}.example{}.test\n", n % 5_000)).collect();
    let folder = Folder::new("large");
    let file = folder.join("hosts");
    fs::write(&file, &text).expect("a file");
    let began = std::time::Instant::now();
    let load = |old: Option<&Zone>| {
        let loaded = load_hosts(&file, 60, &key(), old).expect("a hosts file");
        (loaded.zone, loaded.names)
    };
    let (zone, names) = load(None);
    println!("{names} names in {:?}", began.elapsed());
    assert_eq!(names, count);
    text += "0.0.0.0 one.more.test\n";
    fs::write(&file, &text).expect("a file");
    let (next, names) = load(Some(&zone));
    assert_eq!(names, count + 1);
    let leaves = |zone: &Zone| zone.names().leaves().iter().cloned().collect::<Vec<_>>();
    let (old, new) = (leaves(&zone), leaves(&next));
    let shared = old.iter().zip(&new).filter(|(old, new)| Arc::ptr_eq(old, new)).count();
    assert!(shared + 4 >= old.len(), "{shared} of {} leaves are shared", old.len());
}

#[test]
fn last_line_without_a_newline_is_noted() {
    let folder = Folder::new("cut");
    let file = folder.join("hosts");
    fs::write(&file, "192.0.2.1 a\n192.0.2.2 b").expect("a file");
    let loaded = load_hosts(&file, 60, &key(), None).expect("a hosts file");
    let cut_off = loaded.cut_off.expect("no newline");
    assert_eq!((cut_off.place().line, cut_off.rule), (2, BrokenRule::CUT_OFF));
}

#[path = "../../../../../testing/fuzz/checks/hosts.rs"]
mod check;
#[path = "../../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;

#[test]
fn fuzz_corpus_of_hosts_files_passes() {
    corpus::replay("hosts", check::check);
    corpus::search("hosts", check::check);
}
