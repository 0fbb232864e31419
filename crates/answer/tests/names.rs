//! Whose a name is: a zone's, a hosts file's, others', or nobody's; and what becomes of names that
//! are looked up as another one.
#![allow(missing_docs, reason = "a test has no callers")]

use answer::{Elsewhere, Lookup, Now, Policy, Scratch, Tally, batch};
use cache::{Found, Key};
use compile::{Image, Loader, Zone};
use domain::base::iana::OptRcode;
use domain::base::{Message, ParsedName};
use domain::rdata::AllRecordData;
use image::{ForwardRule, Forwards, HashKey};
use packet::{Packet, Transport, Verdict};
use std::fmt::Write as _;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

/// A world of zones, hosts files, and rules.
struct Scene {
    image: Image,
    rules: Vec<ForwardRule>,
    others: Others,
}

/// Other servers, who never answer.
#[derive(Default)]
struct Others {
    asked: Vec<(String, u16)>,
}

impl Elsewhere for Others {
    fn prefetch(&self, _key: &Key<'_>) {}

    fn find(&mut self, _key: &Key<'_>) -> Option<Found<'_>> {
        None
    }

    fn count(&mut self, _lookup: Lookup) {}

    fn ask(&mut self, key: &Key<'_>, group: u16, _packet: &Packet<'_>) -> bool {
        self.asked.push((Name::parse(key.name).unwrap().to_string(), group));
        true
    }

    fn renew(&mut self, _key: &Key<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &Key<'_>, _map: u32) {}
}

const HEAD: &str = "@ 60 SOA ns root 1 1 1 1 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n";
/// As the reader of hosts files makes it.
const HOSTS_HEAD: &str = "@ 60 SOA . nobody.invalid. 1 3600 1200 604800 60\n@ 60 NS .\n";

fn load(key: &Arc<HashKey>, origin: &str, text: &str) -> Zone {
    let origin = name(origin);
    let mut loader = Loader::new(Arc::clone(key), origin.as_name(), None);
    zonefile::read_stream(&mut text.as_bytes(), origin.as_name(), &mut |r| {
        loader.add(r.owner, r.rtype, r.ttl, r.rdata, 0)
    })
    .unwrap_or_else(|failure| panic!("{failure}"));
    loader.finish().unwrap_or_else(|problems| panic!("{}", problems[0]))
}

impl Scene {
    /// A zone `here.example.`, in which one name is an alias of one in a hosts file; two zones that
    /// nobody owns, and two groups of servers: `corp.example.` (1), all else (0) but what is below
    /// `off.example.`.
    fn new(hosts: &[&str]) -> Self {
        let key = Arc::new(HashKey::new(std::array::from_fn(|n| {
            (n as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })));
        let mut image = Image::new(Arc::clone(&key));
        let zone = |origin, more: &str| load(&key, origin, &format!("{HEAD}{more}"));
        let aliases = "alias 60 CNAME printer.lan.\nboth 60 A 192.0.2.1\n";
        image.put_zone(zone("here.example.", aliases).into());
        for origin in ["internal.", "10.in-addr.arpa."] {
            image.put_zone(zone(origin, "").yielding().into());
        }
        let hosts = hosts.iter().map(|text| load(&key, ".", &format!("{HOSTS_HEAD}{text}")).into());
        image.set_hosts(hosts.collect());
        let groups = [(".", 0), ("corp.example.", 1), ("off.example.", ForwardRule::NOBODY)];
        let rule = |(suffix, group)| ForwardRule { suffix: name(suffix), group };
        let mut rules = groups.map(rule).to_vec();
        Forwards::sort(&mut rules);
        Self { image, rules, others: Others::default() }
    }

    /// What a question comes to: the reply, or whom it is asked of.
    fn ask(&mut self, owner: &str, rtype: Rtype) -> String {
        self.ask_all(&[(owner, rtype)], true).remove(0)
    }

    /// The same of several in one burst, with RD or without.
    fn ask_all(&mut self, questions: &[(&str, Rtype)], recursion: bool) -> Vec<String> {
        let octets = questions.iter().map(|(owner, rtype)| question(owner, *rtype, recursion));
        let mut buffers: Vec<(Vec<u8>, usize)> = octets
            .map(|mut octets| {
                let len = octets.len();
                octets.resize(4096, 0xee);
                (octets, len)
            })
            .collect();
        let client = "192.0.2.9:53".parse().unwrap();
        let mut packets: Vec<_> = buffers
            .iter_mut()
            .map(|(buf, len)| Packet::new(buf, *len, client, Transport::Datagram))
            .collect();
        let policy = Policy { forwards: Forwards::new(&self.rules), ..Policy::default() };
        let now = Now { unix_seconds: 0, monotonic_micros: 0, seed: 1 };
        let (mut scratch, mut tally) = (Box::<Scratch>::default(), Tally::default());
        let others = &mut self.others;
        batch(&self.image, &policy, now, others, &mut scratch, &mut packets, &mut tally);
        let told = packets.iter().map(|packet| match packet.verdict {
            Verdict::Reply => show(packet.message()),
            Verdict::Later => {
                let (name, group) = others.asked.remove(0);
                format!("asks {group} for {name}")
            }
            Verdict::Drop(reason) => panic!("{reason:?}"),
        });
        told.collect()
    }
}

fn question(owner: &str, rtype: Rtype, recursion: bool) -> Vec<u8> {
    let mut octets = vec![0x12, 0x34, recursion.into(), 0, 0, 1, 0, 0, 0, 0, 0, 0];
    octets.extend(name(owner).as_name().octets());
    let [t0, t1] = rtype.0.to_be_bytes();
    octets.extend([t0, t1, 0, 1]);
    octets
}

/// Code, AA, and records, a line each, the authority section's behind `;`.
fn show(octets: &[u8]) -> String {
    let message = Message::from_octets(octets).expect("a whole message");
    let header = message.header();
    let code = OptRcode::from_rcode(header.rcode());
    let mut text = format!("{code}{}", if header.aa() { " aa" } else { "" });
    for (section, mark) in [(message.answer(), ""), (message.authority(), "; ")] {
        for record in section.expect("a section") {
            let record = record.expect("a record");
            let record = record.into_record::<AllRecordData<_, ParsedName<_>>>().unwrap().unwrap();
            let (owner, data) = (record.owner(), record.data());
            write!(text, "\n{mark}{owner}. {} {data}", record.rtype()).unwrap();
        }
    }
    text
}

const LAN: &str = "printer.lan. 60 A 192.0.2.7\nprinter.lan. 60 AAAA 2001:db8::7\n\
                   four.lan. 60 A 192.0.2.8\n7.2.0.192.in-addr.arpa. 60 PTR printer.lan.\n\
                   5.0.0.10.in-addr.arpa. 60 PTR five.internal.\nfive.internal. 60 A 10.0.0.5\n\
                   both.here.example. 60 A 192.0.2.9\nx.off.example. 60 A 192.0.2.10\n\
                   x.corp.example. 60 A 192.0.2.11\n";

#[test]
fn a_hosts_file_goes_before_others_and_after_ones_own_zones() {
    let mut scene = Scene::new(&[LAN]);
    let a = |scene: &mut Scene, owner| scene.ask(owner, Rtype::A);
    let ours = "NOERROR aa\nprinter.lan. A 192.0.2.7";
    assert_eq!(a(&mut scene, "printer.lan."), ours);
    assert_eq!(scene.ask_all(&[("printer.lan.", Rtype::A)], false), [ours], "without RD too");
    let text = "NOERROR aa\nboth.here.example. A 192.0.2.1";
    assert_eq!(a(&mut scene, "both.here.example."), text);
    assert_eq!(a(&mut scene, "x.corp.example."), "NOERROR aa\nx.corp.example. A 192.0.2.11");
    assert_eq!(a(&mut scene, "x.off.example."), "NOERROR aa\nx.off.example. A 192.0.2.10");
    assert_eq!(a(&mut scene, "five.internal."), "NOERROR aa\nfive.internal. A 10.0.0.5");
    let alias = "NOERROR aa\nalias.here.example. CNAME printer.lan.\nprinter.lan. A 192.0.2.7";
    assert_eq!(a(&mut scene, "alias.here.example."), alias);
    let pointer = |scene: &mut Scene, owner| scene.ask(owner, Rtype::PTR);
    let text = "NOERROR aa\n7.2.0.192.in-addr.arpa. PTR printer.lan.";
    assert_eq!(pointer(&mut scene, "7.2.0.192.in-addr.arpa."), text);
    let text = "NOERROR aa\n5.0.0.10.in-addr.arpa. PTR five.internal.";
    assert_eq!(pointer(&mut scene, "5.0.0.10.in-addr.arpa."), text);
    assert!(pointer(&mut scene, "6.0.0.10.in-addr.arpa.").starts_with("NXDOMAIN aa\n; 10.in-addr"));
}

#[test]
fn a_hosts_file_has_no_other_address_and_all_else_is_others() {
    let mut scene = Scene::new(&[LAN]);
    let soa = "four.lan. SOA . nobody.invalid. 1 3600 1200 604800 60";
    for rtype in [Rtype::AAAA, Rtype::HTTPS] {
        assert_eq!(scene.ask("four.lan.", rtype), format!("NOERROR aa\n; {soa}"));
    }
    let alias = "alias.here.example. CNAME printer.lan.";
    let soa = "printer.lan. SOA . nobody.invalid. 1 3600 1200 604800 60";
    let https = scene.ask("alias.here.example.", Rtype::HTTPS);
    assert_eq!(https, format!("NOERROR aa\n{alias}\n; {soa}"));
    for (owner, rtype) in [
        ("four.lan.", Rtype::MX),
        ("four.lan.", Rtype::PTR),
        ("four.lan.", Rtype::ANY),
        ("lan.", Rtype::A),
        ("below.four.lan.", Rtype::A),
        (".", Rtype::A),
        (".", Rtype::SOA),
        ("7.2.0.192.in-addr.arpa.", Rtype::A),
    ] {
        assert_eq!(scene.ask(owner, rtype), format!("asks 0 for {owner}"), "{rtype}");
    }
    assert!(scene.ask("five.internal.", Rtype::MX).starts_with("NXDOMAIN aa\n; internal. SOA"));
    assert_eq!(scene.ask("y.off.example.", Rtype::A), "REFUSED", "and is nobody's");
    assert_eq!(scene.ask("y.corp.example.", Rtype::A), "asks 1 for y.corp.example.");
}

#[test]
fn the_first_of_several_files_decides() {
    let second = "four.lan. 60 AAAA 2001:db8::8\nother.lan. 60 A 192.0.2.12\n";
    let mut scene = Scene::new(&[LAN, second]);
    assert!(scene.ask("four.lan.", Rtype::AAAA).starts_with("NOERROR aa\n; four.lan. SOA"));
    assert_eq!(scene.ask("other.lan.", Rtype::A), "NOERROR aa\nother.lan. A 192.0.2.12");
}

/// What is remembered of the question before, so that the next need not be routed, is not taken for
/// names that a hosts file has.
#[test]
fn a_burst_about_one_zone_meets_a_hosts_file_too() {
    let mut scene = Scene::new(&[LAN]);
    let questions = ["a.internal.", "five.internal.", "b.internal.", "five.internal."];
    let told = scene.ask_all(&questions.map(|owner| (owner, Rtype::A)), true);
    let is_there: Vec<bool> = told.iter().map(|told| told.contains("A 10.0.0.5")).collect();
    assert_eq!(is_there, [false, true, false, true], "{told:?}");
    assert!(told[0].starts_with("NXDOMAIN aa\n; internal. SOA"), "{told:?}");
}

#[test]
fn another_state_of_the_files_draws_another_map() {
    use image::World;
    let mut scene = Scene::new(&[]);
    let before = scene.image.map();
    assert_eq!(scene.ask("printer.lan.", Rtype::A), "asks 0 for printer.lan.");
    let key = Arc::clone(scene.image.key());
    scene.image.set_hosts(vec![load(&key, ".", &format!("{HOSTS_HEAD}{LAN}")).into()]);
    assert_ne!(
        scene.image.map(),
        before,
        "what is known of others is to be asked anew whose it is"
    );
    assert!(scene.ask("printer.lan.", Rtype::A).starts_with("NOERROR aa"));
}
