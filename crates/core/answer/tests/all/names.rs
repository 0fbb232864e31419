//! The owner of a name: a zone, a hosts file, a forward rule, or none; and rewritten names.

use crate::common::{Burst, RD, image, key, load, name, opt, query};
use answer::{CacheLookup, Policy, Resolver};
use cache::{CacheHit, CacheKey};
use compile::Image;
use domain::base::iana::OptRcode;
use domain::base::{Message, ParsedName};
use domain::rdata::AllRecordData;
use image::{ForwardRule, Forwards, RewriteRule, Rewrites};
use packet::{Packet, Verdict};
use std::fmt::Write as _;
use std::sync::Arc;
use wire::{Name, Rtype};

/// A world of zones, hosts files, and rules.
struct Scene {
    image: Image,
    rules: Vec<ForwardRule>,
    rewrites: Vec<RewriteRule>,
    others: Others,
    /// The OPT that is asked with, or nothing, and the bytes of a packet's buffer.
    opt: Vec<u8>,
    room: usize,
}

/// DO in the flags of OPT.
const DO: u8 = 0x80;

/// Other servers, who never answer; or who were asked already, and know nothing of any name.
#[derive(Default)]
struct Others {
    know_all: bool,
    known: Vec<u8>,
    /// Names that are known to be theirs.
    confirmed: Vec<String>,
    asked: Vec<(String, u16)>,
    packets: Vec<Vec<u8>>,
}

impl Resolver for Others {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        // Behind the name: the code, and that there are no records.
        self.known = [&[0; 12], key.name, &[3, 0, 0, 0]].concat();
        let (message, may_renew) = (&self.known[..], false);
        self.know_all.then_some(CacheHit { message, age: 0, ttl: 60, uses: 0, may_renew, map: 0 })
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, key: &CacheKey<'_>, group: u16, packet: &Packet<'_>) -> bool {
        self.packets.push(packet.message().to_vec());
        self.asked.push((Name::parse(key.name).unwrap().to_string(), group));
        true
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, key: &CacheKey<'_>, _map: u32) {
        self.confirmed.push(Name::parse(key.name).unwrap().to_string());
    }
}

const HEAD: &str = "@ 60 SOA ns root 1 1 1 1 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n";
/// As the reader of hosts files makes it.
const HOSTS_HEAD: &str = "@ 60 SOA . nobody.invalid. 1 3600 1200 604800 60\n@ 60 NS .\n";

impl Scene {
    /// A zone `here.example.`, in which one name is an alias of one in a hosts file; two zones
    /// without a rule, and two upstream groups: `corp.example.` (1), and all others (0) except for
    /// `off.example.`.
    fn new(hosts: &[&str]) -> Self {
        let aliases = "alias 60 CNAME printer.lan.\nboth 60 A 192.0.2.1\nin 60 CNAME both\n\
                       mail 60 MX 5 both\nsrv 60 SRV 1 2 3 both\nsrv 60 SRV 0 0 0 .\n\
                       web 60 HTTPS 1 both\nweb 60 HTTPS 2 .\ncut 60 NS ns.cut\n\
                       ns.cut 60 A 192.0.2.54\n";
        let mut image = image(&[("here.example.", &format!("{HEAD}{aliases}"))]);
        for origin in ["internal.", "10.in-addr.arpa."] {
            image.put_zone(load(&key(), origin, HEAD).yielding().into());
        }
        let hosts =
            hosts.iter().map(|text| load(&key(), ".", &format!("{HOSTS_HEAD}{text}")).into());
        image.set_hosts(hosts.collect());
        let groups = [(".", 0), ("corp.example.", 1), ("off.example.", ForwardRule::NO_GROUP)];
        let rule = |(suffix, group)| ForwardRule { suffix: name(suffix), group };
        let mut rules = groups.map(rule).to_vec();
        Forwards::sort(&mut rules);
        let (rewrites, others) = (Vec::new(), Others::default());
        Self { image, rules, rewrites, others, opt: Vec::new(), room: 4096 }
    }

    /// A scene in which names are looked up as others: all at and below one, or, behind `=`, it
    /// alone.
    fn renaming(rules: &[(&str, &str)]) -> Self {
        let rule = |(from, to): &(&str, &str)| {
            let (exact, from) = (from.starts_with('='), name(from.trim_start_matches('=')));
            RewriteRule { from, to: name(to), exact }
        };
        let mut scene = Self::new(&[LAN]);
        scene.rewrites = rules.iter().map(rule).collect();
        Rewrites::sort(&mut scene.rewrites);
        scene
    }

    /// What a question comes to: the reply, or whom it is asked of.
    fn request(&mut self, owner: &str, rtype: Rtype) -> String {
        self.ask_all(&[(owner, rtype)], true).remove(0)
    }

    /// The same of several in one burst, with RD or without.
    fn ask_all(&mut self, questions: &[(&str, Rtype)], recursion: bool) -> Vec<String> {
        let flags = if recursion { RD } else { 0 };
        let asked = questions.iter().map(|(owner, rtype)| query(flags, owner, rtype.0, &self.opt));
        let asked: Vec<_> = asked.collect();
        let (forwards, rewrites) = (Forwards::new(&self.rules), Rewrites::new(&self.rewrites));
        let policy = Policy { forwards, rewrites, ..Policy::default() };
        let burst = Burst { room: self.room, ..Burst::new(&self.image, &policy) };
        let others = &mut self.others;
        let (sent, _) = burst.send(others, &asked);
        let told = sent.into_iter().zip(asked).map(|((verdict, bytes), asked)| match verdict {
            Verdict::Reply => show(&bytes),
            Verdict::Deferred | Verdict::Control | Verdict::Stream => {
                assert_eq!(bytes, asked, "as it came");
                assert_eq!(others.packets.remove(0), asked, "for it is answered anew");
                let (name, group) = others.asked.remove(0);
                format!("asks {group} for {name}")
            }
            Verdict::Drop(reason) => panic!("{reason:?}"),
        });
        told.collect()
    }
}

/// Code, AA, TC, DO, and records, a line each, the authority section's behind `;`, the additional
/// section's behind `+`.
fn show(bytes: &[u8]) -> String {
    let message = Message::from_octets(bytes).expect("a whole message");
    let header = message.header();
    let opt = message.opt();
    let code = match &opt {
        Some(_) => message.opt_rcode(),
        None => OptRcode::from_rcode(header.rcode()),
    };
    let mut text = code.to_string();
    let dnssec_ok = opt.is_some_and(|opt| opt.dnssec_ok());
    for (is_set, flag) in [(header.aa(), " aa"), (header.tc(), " tc"), (dnssec_ok, " do")] {
        text.push_str(if is_set { flag } else { "" });
    }
    let (_, answer, authority, additional) = message.sections().expect("sections");
    for (section, mark) in [(answer, ""), (authority, "; "), (additional, "+ ")] {
        for record in section {
            let record = record.expect("a record");
            if record.rtype().to_int() == 41 {
                continue;
            }
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
fn hosts_file_precedes_rules_and_follows_zones() {
    let mut scene = Scene::new(&[LAN]);
    let a = |scene: &mut Scene, owner| scene.request(owner, Rtype::A);
    let own_zone = "NOERROR aa\nprinter.lan. A 192.0.2.7";
    assert_eq!(a(&mut scene, "printer.lan."), own_zone);
    assert_eq!(scene.ask_all(&[("printer.lan.", Rtype::A)], false), [own_zone], "without RD too");
    let text = "NOERROR aa\nboth.here.example. A 192.0.2.1";
    assert_eq!(a(&mut scene, "both.here.example."), text);
    assert_eq!(a(&mut scene, "x.corp.example."), "NOERROR aa\nx.corp.example. A 192.0.2.11");
    assert_eq!(a(&mut scene, "x.off.example."), "NOERROR aa\nx.off.example. A 192.0.2.10");
    assert_eq!(a(&mut scene, "five.internal."), "NOERROR aa\nfive.internal. A 10.0.0.5");
    let alias = "NOERROR aa\nalias.here.example. CNAME printer.lan.\nprinter.lan. A 192.0.2.7";
    assert_eq!(a(&mut scene, "alias.here.example."), alias);
    let pointer = |scene: &mut Scene, owner| scene.request(owner, Rtype::PTR);
    let text = "NOERROR aa\n7.2.0.192.in-addr.arpa. PTR printer.lan.";
    assert_eq!(pointer(&mut scene, "7.2.0.192.in-addr.arpa."), text);
    let text = "NOERROR aa\n5.0.0.10.in-addr.arpa. PTR five.internal.";
    assert_eq!(pointer(&mut scene, "5.0.0.10.in-addr.arpa."), text);
    assert!(pointer(&mut scene, "6.0.0.10.in-addr.arpa.").starts_with("NXDOMAIN aa\n; 10.in-addr"));
}

#[test]
fn hosts_file_answers_addresses_only() {
    let mut scene = Scene::new(&[LAN]);
    let soa = "four.lan. SOA . nobody.invalid. 1 3600 1200 604800 60";
    for rtype in [Rtype::AAAA, Rtype::HTTPS] {
        assert_eq!(scene.request("four.lan.", rtype), format!("NOERROR aa\n; {soa}"));
    }
    let alias = "alias.here.example. CNAME printer.lan.";
    let soa = "printer.lan. SOA . nobody.invalid. 1 3600 1200 604800 60";
    let https = scene.request("alias.here.example.", Rtype::HTTPS);
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
        assert_eq!(scene.request(owner, rtype), format!("asks 0 for {owner}"), "{rtype}");
    }
    assert!(scene.request("five.internal.", Rtype::MX).starts_with("NXDOMAIN aa\n; internal. SOA"));
    assert_eq!(scene.request("y.off.example.", Rtype::A), "REFUSED", "and has no owner");
    assert_eq!(scene.request("y.corp.example.", Rtype::A), "asks 1 for y.corp.example.");
}

#[test]
fn first_hosts_file_decides() {
    let second = "four.lan. 60 AAAA 2001:db8::8\nother.lan. 60 A 192.0.2.12\n";
    let mut scene = Scene::new(&[LAN, second]);
    assert!(scene.request("four.lan.", Rtype::AAAA).starts_with("NOERROR aa\n; four.lan. SOA"));
    assert_eq!(scene.request("other.lan.", Rtype::A), "NOERROR aa\nother.lan. A 192.0.2.12");
}

/// What is remembered of the question before, so that the next need not be routed, is not taken for
/// names that a hosts file has.
#[test]
fn burst_about_one_zone_finds_a_hosts_file() {
    let mut scene = Scene::new(&[LAN]);
    let questions = ["a.internal.", "five.internal.", "b.internal.", "five.internal."];
    let told = scene.ask_all(&questions.map(|owner| (owner, Rtype::A)), true);
    let is_there: Vec<bool> = told.iter().map(|told| told.contains("A 10.0.0.5")).collect();
    assert_eq!(is_there, [false, true, false, true], "{told:?}");
    assert!(told[0].starts_with("NXDOMAIN aa\n; internal. SOA"), "{told:?}");
}

#[test]
fn changed_hosts_files_change_the_map() {
    use image::ZoneTable;
    let mut scene = Scene::new(&[]);
    let before = scene.image.map();
    assert_eq!(scene.request("printer.lan.", Rtype::A), "asks 0 for printer.lan.");
    let key = Arc::clone(scene.image.key());
    scene.image.set_hosts(vec![load(&key, ".", &format!("{HOSTS_HEAD}{LAN}")).into()]);
    assert_ne!(scene.image.map(), before, "cached answers must be checked again for their owner");
    assert!(scene.request("printer.lan.", Rtype::A).starts_with("NOERROR aa"));
}

const SOA: &str = "SOA ns.old.example. root.old.example. 1 1 1 1 60";

#[test]
fn rewritten_answer_has_the_queried_name() {
    let mut scene = Scene::renaming(&[("old.example", "here.example")]);
    for (owner, rtype, expected) in [
        ("Both.OLD.example.", Rtype::A, "NOERROR aa\nBoth.OLD.example. A 192.0.2.1"),
        (
            "in.old.example.",
            Rtype::A,
            "NOERROR aa\nin.old.example. CNAME both.old.example.\nboth.old.example. A 192.0.2.1",
        ),
        (
            "alias.old.example.",
            Rtype::A,
            "NOERROR aa\nalias.old.example. CNAME printer.lan.\nprinter.lan. A 192.0.2.7",
        ),
        (
            "mail.old.example.",
            Rtype::MX,
            "NOERROR aa\nmail.old.example. MX 5 both.old.example.\n+ both.old.example. A 192.0.2.1",
        ),
        (
            "cut.old.example.",
            Rtype::A,
            "NOERROR\n; cut.old.example. NS ns.cut.old.example.\n\
             + ns.cut.old.example. A 192.0.2.54",
        ),
    ] {
        assert_eq!(scene.request(owner, rtype), expected);
        assert_eq!(scene.ask_all(&[(owner, rtype)], false), [expected], "without RD too");
    }
    let services = scene.request("srv.old.example.", Rtype::SRV);
    for line in ["srv.old.example. SRV 0 0 0 ", "srv.old.example. SRV 1 2 3 both.old.example"] {
        assert!(services.lines().any(|told| told == line), "{services}");
    }
    let web = scene.request("web.old.example.", Rtype::HTTPS);
    for line in ["web.old.example. HTTPS 1 both.old.example", "web.old.example. HTTPS 2 "] {
        assert!(web.lines().any(|told| told.starts_with(line)), "{web}");
    }
    let nothing = format!("NXDOMAIN aa\n; old.example. {SOA}");
    assert_eq!(scene.request("none.old.example.", Rtype::A), nothing);
    assert_eq!(
        scene.request("both.old.example.", Rtype::AAAA),
        format!("NOERROR aa\n; old.example. {SOA}")
    );
}

#[test]
fn name_is_rewritten_once_whoever_owns_the_new_one() {
    let mut scene = Scene::renaming(&[
        ("old.example", "here.example"),
        ("chain.example", "old.example"),
        ("=one.example", "both.here.example"),
        ("fwd.example", "corp.example"),
        ("home", "lan"),
        ("deep.example", "no.such.here.example"),
        ("gone.example", "off.example"),
        ("=ns.here.example", "both.here.example"),
    ]);
    for (owner, expected) in [
        ("both.chain.example.", "asks 0 for both.old.example."),
        ("one.example.", "NOERROR aa\none.example. A 192.0.2.1"),
        ("x.one.example.", "asks 0 for x.one.example."),
        ("y.Fwd.example.", "asks 1 for y.corp.example."),
        ("x.fwd.example.", "NOERROR aa\nx.fwd.example. A 192.0.2.11"),
        ("printer.home.", "NOERROR aa\nprinter.home. A 192.0.2.7"),
        ("y.gone.example.", "REFUSED"),
        ("both.here.example.", "NOERROR aa\nboth.here.example. A 192.0.2.1"),
    ] {
        assert_eq!(scene.request(owner, Rtype::A), expected);
    }
    let above = "SOA ns.here.example. root.here.example. 1 1 1 1 60";
    let nothing = format!("NXDOMAIN aa\n; deep.example. {above}");
    assert_eq!(
        scene.request("a.deep.example.", Rtype::A),
        nothing,
        "of a zone that the name lies in"
    );
    assert!(scene.request("four.home.", Rtype::AAAA).starts_with("NOERROR aa\n; four.home. SOA"));
    let burst =
        ["both.here.example.", "ns.here.example.", "both.old.example.", "none.here.example."];
    let told = scene.ask_all(&burst.map(|owner| (owner, Rtype::A)), true);
    assert_eq!(told[1], "NOERROR aa\nns.here.example. A 192.0.2.1", "amid a zone's own names");
    assert_eq!(told[2], "NOERROR aa\nboth.old.example. A 192.0.2.1");
    assert!(told[3].starts_with("NXDOMAIN aa\n; here.example."), "and none of the others");
    let several = ["y.fwd.example.", "both.chain.example.", "y.fwd.example."];
    let asked = ["asks 1 for y.corp.example.", "asks 0 for both.old.example."];
    let told = scene.ask_all(&several.map(|owner| (owner, Rtype::A)), true);
    assert_eq!(told, [asked[0], asked[1], asked[0]]);
}

#[test]
fn too_long_rewritten_name_does_not_exist() {
    let long = ["a"; 121].join(".");
    let mut scene = Scene::renaming(&[("x.example", "here.example")]);
    let owner = format!("{long}.x.example.");
    assert_eq!(scene.request(&owner, Rtype::A), "YXDOMAIN");
    scene.opt = opt(1232, 0, DO, &[]);
    assert_eq!(scene.request(&owner, Rtype::A), "YXDOMAIN do");
}

/// RFC 3225 §3: DO is copied, though nothing that is signed can be told of such names.
#[test]
fn rewritten_answer_has_no_signatures() {
    let mut scene = Scene::renaming(&[("old.example", "signed.example")]);
    let key = Arc::clone(scene.image.key());
    let signature = "A 8 3 60 20300101000000 20200101000000 1 signed.example. AAAA";
    let zone = format!(
        "{HEAD}www 60 A 192.0.2.3\nwww 60 RRSIG {signature}\n\
         @ 60 RRSIG {}\n@ 60 NSEC www SOA NS RRSIG NSEC\nwww 60 NSEC @ A RRSIG NSEC\n",
        signature.replace("A 8", "SOA 8")
    );
    scene.image.put_zone(load(&key, "signed.example.", &zone).into());
    scene.opt = opt(1232, 0, DO, &[]);
    let signed = scene.request("www.signed.example.", Rtype::A);
    assert!(signed.contains("RRSIG") && signed.starts_with("NOERROR aa do"), "{signed}");
    let told = scene.request("www.old.example.", Rtype::A);
    assert_eq!(told, "NOERROR aa do\nwww.old.example. A 192.0.2.3");
    let told = scene.request("none.old.example.", Rtype::A);
    assert_eq!(told, format!("NXDOMAIN aa do\n; old.example. {SOA}"));
    assert_eq!(
        scene.request("www.old.example.", Rtype::RRSIG),
        "NOERROR aa do",
        "nor where asked for"
    );
}

/// A target that is written out grows with the name that it is called; and so little room may be
/// beside a reply that it cannot be written again.
#[test]
fn rewritten_answer_that_does_not_fit_is_truncated() {
    let long = format!("{}.example", ["a"; 100].join("."));
    let mut scene = Scene::renaming(&[(&long, "many.example"), ("short.example", "many.example")]);
    let key = Arc::clone(scene.image.key());
    let services = (0..12).map(|n| format!("srv 60 SRV 0 0 {n} t{n}\n")).collect::<String>();
    scene.image.put_zone(load(&key, "many.example.", &format!("{HEAD}{services}")).into());
    let count = |told: &str| told.lines().filter(|line| line.contains("SRV")).count();
    for opt in [Vec::new(), opt(512, 0, 0, &[])] {
        (scene.opt, scene.room) = (opt, 4096);
        let told = scene.request("srv.short.example.", Rtype::SRV);
        assert_eq!((count(&told), told.contains(" tc")), (12, false), "{told}");
        let told = scene.request(&format!("srv.{long}."), Rtype::SRV);
        assert!(told.starts_with("NOERROR aa tc") && (1..12).contains(&count(&told)), "{told}");
        scene.room = 520;
        let told = scene.request("srv.short.example.", Rtype::SRV);
        // There is little room to write it again.
        assert!(told.starts_with("NOERROR aa tc") && count(&told) < 12, "{told}");
    }
    (scene.opt, scene.room) = (opt(4096, 0, 0, &[]), 8192);
    assert!(!scene.request("srv.short.example.", Rtype::SRV).contains(" tc"));
}

/// A cached answer for a name that is forwarded for every type needs no check of its owner. This
/// does not hold for names in a hosts file, because a negative answer may cover all types (RFC 2308
/// §5), nor for names reached by an alias or a rewrite rule, which other rules may own.
#[test]
fn cached_answer_skips_the_owner_check_only_for_forwarded_names() {
    let mut scene = Scene::renaming(&[("old.example", "corp.example")]);
    scene.others.know_all = true;
    for (owner, rtype, confirmed) in [
        ("a.corp.example.", Rtype::MX, Some("a.corp.example.")),
        ("four.lan.", Rtype::MX, None),
        ("lan.", Rtype::A, Some("lan.")),
        ("a.old.example.", Rtype::A, None),
        ("alias.here.example.", Rtype::MX, None),
    ] {
        assert!(scene.request(owner, rtype).starts_with("NXDOMAIN"), "{owner}");
        let told: Vec<String> = scene.others.confirmed.drain(..).collect();
        assert_eq!(told, confirmed.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{owner}");
    }
}
