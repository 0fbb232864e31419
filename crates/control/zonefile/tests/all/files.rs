//! Zones in files: includes, endless and unusual files, and a comparison with BIND.
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::{Name, NameBuf, Rtype};
use zonefile::{LoadFailure, LoadSummary};

fn origin() -> NameBuf {
    NameBuf::from_text(b"example.", Name::ROOT).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/include")
}

/// Makes paths relative to the folder, so that expected texts hold on every machine.
fn shorten(text: &str) -> String {
    text.replace(&format!("{}/", folder().display()), "")
}

/// Reads a file of the folder: a line for each record, and the result.
fn read(name: &str) -> (String, Result<LoadSummary, LoadFailure>) {
    let mut out = String::new();
    let result = zonefile::read(&folder().join(name), origin().as_name(), &mut |record| {
        let place = shorten(&record.place.to_string());
        writeln!(out, "{place} {} {} {}", record.owner, record.ttl, record.rtype)
            .map_err(|error| error.to_string())
    });
    (out, result)
}

#[test]
fn included_file_restores_origin_and_owner() {
    let (out, result) = read("zone");
    assert_eq!(
        out,
        "zone:2:1 example. 60 NS
zone:3:1 ns.example. 60 A
deeper/sub.inc:1:2 ns.example. 60 TXT
deeper/sub.inc:2:1 sub.example. 60 A
deeper/sub.inc:3:1 www.sub.example. 60 A
deeper/../same.inc:1:1 same.far.sub.example. 60 A
deeper/sub.inc:7:1 last.far.sub.example. 5 A
zone:5:2 ns.example. 5 TXT
zone:6:1 www.example. 5 A
same.inc:1:1 same.example. 5 A
zone:8:2 www.example. 5 TXT
"
    );
    let summary = result.unwrap();
    assert_eq!(summary.records, 11);
    let files: Vec<_> = summary.files.iter().map(|file| shorten(&file.to_string_lossy())).collect();
    assert_eq!(files, ["zone", "deeper/sub.inc", "deeper/../same.inc", "same.inc"]);
}

#[test]
fn bytes_beyond_ascii_in_a_name_are_a_warning() {
    let text = "bücher 60 A 192.0.2.1\nwww 60 CNAME bücher\n\"\" 60 TXT ü\nt 60 TXT ü ; ü\n\
                $ORIGIN straße.example.\n\u{ad} 60 A 192.0.2.1\n\\195\\188 60 A 192.0.2.1\n";
    let text = text.replace("\"\" 60", "s 60");
    let read = zonefile::read_stream(&mut text.as_bytes(), origin().as_name(), &mut |_| Ok(()));
    let warnings = read.expect("a zone").warnings;
    let messages: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let place = |messages: &String| messages.split(": ").next().unwrap_or_default().to_owned();
    let places: Vec<_> = messages.iter().map(place).collect();
    assert_eq!(places, ["-:1:1", "-:2:14", "-:5:9", "-:6:1"], "{messages:?}");
    assert!(messages[0].contains("`bücher` has bytes beyond ASCII"), "{messages:?}");
    assert!(messages[0].contains("clients query for `xn--bcher-kva`"), "{messages:?}");
}

#[test]
fn unreadable_include_is_an_error_at_its_directive() {
    let (_, result) = read("bad");
    let failure = result.unwrap_err();
    let error = "No such file or directory (os error 2)";
    let from = "its path is relative to the folder of the including file";
    assert_eq!(
        shorten(&failure.to_string()),
        format!(
            "bad:2:10: `bad` is already open: it would include itself without end
loop.inc:1:10: `bad` is already open: it would include itself without end
bad:4:10: `missing.inc` cannot be read: {error} ({from})
bad:5:10: `deeper` cannot be read: it is not a regular file ({from})
faulty.inc:3:3: `10.0.0.256` is not an IPv4 address (write four numbers from 0 to 255, as in \
             192.0.2.1)
same.inc:1:1: `same.far.example.org.` is outside of the zone `example.` (is `name` in the \
             config right? owners of this zone end in `example.`, or in no dot)"
        )
    );
    // A missing file is watched as well: it may appear later.
    assert!(failure.files.contains(&folder().join("missing.inc")));
    let (_, result) = read("missing");
    assert_eq!(
        shorten(&result.unwrap_err().to_string()),
        format!(
            "missing: cannot be read: {error} (check `file`, which is relative to the config \
             file, and the permissions)"
        )
    );
}

/// Yields `bytes` a few at a time, then `repeat` without end, or an error.
struct Slow<'a> {
    bytes: &'a [u8],
    step: usize,
    repeat: Option<u8>,
}

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.step.min(into.len());
        if self.bytes.is_empty() {
            return match self.repeat {
                Some(byte) => {
                    into.fill(byte);
                    Ok(into.len())
                }
                None => Err(io::Error::other("the disk is gone")),
            };
        }
        let len = self.bytes.take(len as u64).read(&mut into[..len])?;
        self.bytes = &self.bytes[len..];
        Ok(len)
    }
}

fn read_slowly(
    text: &str,
    step: usize,
    repeat: Option<u8>,
) -> (u64, Result<LoadSummary, LoadFailure>) {
    let mut count = 0;
    let mut slow = Slow { bytes: text.as_bytes(), step, repeat };
    let result = zonefile::read_stream(&mut slow, origin().as_name(), &mut |_| {
        count += 1;
        Ok(())
    });
    (count, result)
}

#[test]
fn endless_entry_is_refused() {
    for (text, place) in [
        ("a 1 A 192.0.2.1\n; comment\nb (", "-:3:3: "),
        ("a 1 A 192.0.2.1\n;", "-:2:1: "),
        ("a 1 A 192.0.2.1\nb TXT \"", "-:2:7: "),
    ] {
        let (count, result) = read_slowly(text, 1, Some(b'x'));
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with(place) && message.contains("too long"), "{message}");
        assert_eq!(count, 1);
    }
}

#[test]
fn read_error_names_the_line() {
    let text = "a 1 A 192.0.2.1\n".repeat(8200);
    let (count, result) = read_slowly(&text, 3, None);
    let message = result.unwrap_err().to_string();
    assert_eq!(message, format!("-:{}: cannot be read: the disk is gone", count + 1));
    assert_eq!(count, 8192);
}

#[test]
fn unquoted_text_gives_a_warning() {
    for (text, warning) in [
        ("t 5 TXT v=DKIM1; k=rsa\n", "-:1:9: the text ends before the `;`: the rest is a comment"),
        ("t 5 TXT v=spf1 -all\n", "-:1:9: 2 strings, without blanks between them"),
        ("t 5 TXT \"v=DKIM1; k=rsa\"; comment\n", ""),
        ("t 5 TXT one ; comment\n", ""),
        ("t 5 TXT \"two \" words\n", ""),
        ("t 5 A 192.0.2.1; comment\n", ""),
    ] {
        let mut input = text.as_bytes();
        let summary =
            zonefile::read_stream(&mut input, origin().as_name(), &mut |_| Ok(())).unwrap();
        let messages: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), usize::from(!warning.is_empty()), "{text}: {messages:?}");
        assert!(messages.concat().starts_with(warning), "{text}: {messages:?}");
    }
}

#[test]
fn reading_stops_after_the_maximum_of_errors() {
    let failure = read_slowly(&"x\n".repeat(1000), 7, Some(b'\n')).1.unwrap_err();
    assert_eq!((failure.errors.len(), failure.stopped), (100, true));
    assert!(failure.to_string().ends_with("reading stopped here; there may be more"));
}

#[test]
fn record_refused_by_the_sink_is_an_error_at_its_line() {
    let mut text =
        &b"$TTL 5\n\n  ; comment\na ( A\n 192.0.2.1 )\n$GENERATE 1-2 b A 192.0.2.$\n"[..];
    let failure = zonefile::read_stream(&mut text, origin().as_name(), &mut |record| {
        Err(format!("no {}", record.owner))
    })
    .unwrap_err();
    assert_eq!(failure.to_string(), "-:4:1: no a.example.\n-:6:1: no b.example., where `$` is 1");
}

/// A zone with the shapes of a fleet's zones and more; some entries are longer than a read.
fn big_zone() -> String {
    let mut text =
        String::from("$TTL 1h\n@ SOA ns hostmaster 1 2h 1h 2w 5m\n@ NS ns\nns A 192.0.2.1\n");
    for i in 0..20_000 {
        let (a, b) = (i / 250, i % 250);
        match i % 8 {
            0 => writeln!(text, "svc-{i}.ns-{b} 30 IN A 10.0.{a}.{b}"),
            1 => writeln!(text, "svc-{i}.ns-{b} IN 60 AAAA 2001:db8::{a:x}:{b:x}"),
            2 => writeln!(text, "_http._tcp.svc-{i} SRV 0 {b} 80 svc-{i}.ns-{b} ; comment ("),
            3 => writeln!(text, " MX {a} (mail-{b}\n)"),
            4 => writeln!(text, "A{i}.Case CNAME Svc-{i}.ns-{b}.Example."),
            5 => writeln!(text, "txt-{i} TXT \"text {i}; \\\"x\\\"\" plain\\032\\;\\000"),
            6 => writeln!(text, "$ORIGIN sub-{a}.example.\n@ PTR {i}.x\n$ORIGIN example."),
            _ => writeln!(text, "unknown-{i} TYPE65400 \\# 4 {i:08x}"),
        }
        .unwrap();
    }
    write!(text, "big TXT").unwrap();
    for i in 0..250 {
        write!(text, " {}", format!("\\{i:03}").repeat(255)).unwrap();
    }
    text.push_str("\n$GENERATE 0-255/5 ${0,3,n}.rev PTR host-${-0,4,x}.$\n");
    text + "$GENERATE 1-9 g$ 7 MX \"5 m\\$$\"\n"
}

/// Owner in lower case, TTL, type and data of all records, sorted, without duplicates.
type Records = Vec<(Vec<u8>, u32, u16, Vec<u8>)>;

fn ours(text: &str) -> Records {
    let mut records = Vec::new();
    zonefile::read_stream(&mut text.as_bytes(), origin().as_name(), &mut |record| {
        let owner = record.owner.as_bytes().to_ascii_lowercase();
        records.push((owner, record.ttl, record.rtype.0, record.rdata.to_vec()));
        Ok(())
    })
    .unwrap();
    sorted(records)
}

fn sorted(mut records: Records) -> Records {
    records.sort();
    records.dedup();
    records
}

#[test]
fn read_size_does_not_change_the_records() {
    let text = big_zone();
    let whole = ours(&text);
    assert_eq!(whole.len(), 20_000 + 4 + 52 + 9);
    let mut count = 0;
    let mut slow = Slow { bytes: text.as_bytes(), step: 61, repeat: Some(b'\n') };
    let mut input = (&mut slow).take(text.len() as u64);
    let summary = zonefile::read_stream(&mut input, origin().as_name(), &mut |record| {
        count += usize::from(record.rtype == Rtype::A);
        Ok(())
    });
    assert_eq!((summary.unwrap().records, count), (whole.len() as u64, 2_501));
}

/// BIND's records of the same text; `None` if BIND is not installed.
fn theirs(text: &str) -> Option<Records> {
    let name = format!("zonefile-{}-{}", std::process::id(), text.len());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let (zone, out) = (folder.join("zone"), folder.join("out"));
    fs::write(&zone, text).unwrap();
    let ran = Command::new("named-compilezone")
        .args(["-i", "none", "-k", "ignore", "-n", "ignore", "-r", "ignore", "-m", "ignore"])
        .args(["-M", "ignore", "-S", "ignore", "-F", "raw=1", "-o"])
        .args([&out, Path::new("example."), &zone])
        .output();
    let records = match ran {
        Ok(ran) => {
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
            Some(raw_records(&fs::read(&out).unwrap()))
        }
        Err(why) => {
            assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "named-compilezone: {why}");
            eprintln!("SKIPPED: named-compilezone is not installed (bind9-utils): {why}");
            None
        }
    };
    fs::remove_dir_all(&folder).unwrap();
    records
}

/// Parses BIND's raw format, version 1: a header of 24 bytes. Then for each record set its length,
/// class, type, covered type, TTL and count, its owner, and each record's data with its length.
fn raw_records(mut raw: &[u8]) -> Records {
    fn number<const N: usize>(from: &mut &[u8]) -> usize {
        let (bytes, rest) = from.split_first_chunk::<N>().expect("more of the file");
        *from = rest;
        bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
    }
    fn bytes(from: &mut &[u8]) -> Vec<u8> {
        let (bytes, rest) = from[2..].split_at(u16::from_be_bytes([from[0], from[1]]).into());
        *from = rest;
        bytes.to_vec()
    }
    assert_eq!((number::<4>(&mut raw), number::<4>(&mut raw)), (2, 1), "format and version");
    raw = &raw[16..];
    let mut records = Vec::new();
    while !raw.is_empty() {
        let (_len, _class) = (number::<4>(&mut raw), number::<2>(&mut raw));
        let (rtype, _covered) = (number::<2>(&mut raw) as u16, number::<2>(&mut raw));
        let (ttl, count) = (number::<4>(&mut raw) as u32, number::<4>(&mut raw));
        let owner = bytes(&mut raw).to_ascii_lowercase();
        records.extend((0..count).map(|_| (owner.clone(), ttl, rtype, bytes(&mut raw))));
    }
    sorted(records)
}

#[test]
fn bind_reads_the_same_records() {
    let apex = "$TTL 5\n@ SOA ns hostmaster 1 2h 1h 2w 5m\n@ NS ns\nns A 192.0.2.1\n";
    let case = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
        let text = fs::read_to_string(path).unwrap();
        text.split_once(";; expect").unwrap().0.to_owned()
    };
    for text in [
        big_zone(),
        case("rfc1035.case"),
        case("types.case"),
        apex.to_owned() + &case("ttl.case"),
        apex.to_owned() + &case("escapes.case"),
    ] {
        let Some(theirs) = theirs(&text) else { return };
        let ours = ours(&text);
        let differ: Vec<_> = ours.iter().zip(&theirs).filter(|(a, b)| a != b).take(3).collect();
        assert_eq!((ours.len(), differ), (theirs.len(), vec![]));
    }
}

/// The first refused record ends a directive, but all its records count. So this test need not make
/// a million records.
#[test]
fn records_generated_beyond_the_limit_of_a_zone_are_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&folder).unwrap();
    let zone = "$TTL 60\n$GENERATE 1-1048560 a$ A 192.0.2.1\n$INCLUDE more\n  $GENERATE 1-7 e$ A \
                192.0.2.1\n$GENERATE 1-6 d$ A 192.0.2.1\n";
    fs::write(folder.join("zone"), zone).unwrap();
    fs::write(folder.join("more"), "$GENERATE 1-10 b$ A 192.0.2.1\n").unwrap();
    let mut owners = Vec::new();
    let failure = zonefile::read(&folder.join("zone"), origin().as_name(), &mut |record| {
        owners.push(record.owner.to_string());
        Err("refused".into())
    })
    .unwrap_err();
    assert_eq!(owners, ["a1.example.", "b1.example.", "d1.example."], "no record of the third");
    let limit: Vec<_> = failure.errors.iter().filter(|error| error.rule.id == "limit").collect();
    let [limit] = limit[..] else { panic!("{failure}") };
    let messages = limit.to_string().replace(&format!("{}/", folder.display()), "");
    assert_eq!(
        messages,
        "zone:4:13: this $GENERATE makes 7 records, but only 6 more are allowed (the $GENERATE \
         lines of a zone make at most 1048576 records)"
    );
}

#[test]
fn generated_text_beyond_the_limit_of_a_zone_is_refused() {
    let data = format!("\"{}\" ", "x".repeat(250)).repeat(240);
    let text = format!("$TTL 60\n$GENERATE 1-1048576 a$ TXT {data}\n");
    let mut records = 0_usize;
    let read = zonefile::read_stream(&mut text.as_bytes(), origin().as_name(), &mut |record| {
        records += record.rdata.len();
        Ok(())
    });
    let messages = read.unwrap_err().to_string();
    assert!(messages.starts_with("-:2:1: the records of this $GENERATE are too long from number "));
    assert!(
        messages.ends_with("(the $GENERATE lines of a zone make at most 128 MiB of text)"),
        "{messages}"
    );
    assert!((100 << 20..128 << 20).contains(&records), "{records} bytes of data");
}

#[test]
fn other_encoding_is_one_error_that_names_it() {
    let text = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n";
    let utf_16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf_16_be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for (bytes, expected) in [
        ([b"\xef\xbb\xbf", text.as_bytes()].concat(), "begins with a byte order mark"),
        ([b"\xff\xfe", &*utf_16].concat(), "is UTF-16"),
        ([b"\xfe\xff", &*utf_16_be].concat(), "is UTF-16"),
        (utf_16, "is UTF-16 without"),
        (utf_16_be, "is UTF-16 without"),
    ] {
        let origin = origin();
        let result = zonefile::read_stream(&mut &*bytes, origin.as_name(), &mut |_| Ok(()));
        let errors = result.expect_err(expected).errors;
        let [error] = &errors[..] else { panic!("{errors:?}") };
        let message = error.to_string();
        assert!(message.contains(expected) && message.contains("-:1:1: "), "{message}");
    }
}
