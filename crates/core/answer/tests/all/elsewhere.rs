//! Forwarded names: which records of an upstream's response are used, and the answers made of them.
//! Another library composes the responses and decodes the answers.

mod scene;
mod short;

use domain::base::Rtype as Type;
use domain::base::iana::{Class, Rcode};
use domain::base::rdata::UnknownRecordData;
use domain::rdata::{A, Mx, Txt};
use limit::{Acl, Prefix};
use packet::Transport;
use wire::Rtype;

use scene::{Asking, Said, Scene, domain, name, taken, taken_of};

#[test]
fn cached_answer_has_the_ttl_that_is_left() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR)
        .cname("www.example.net.", 300, "web.example.net.")
        .a("web.example.net.", 60, 1)
        .a("web.example.net.", 60, 2);
    assert_eq!(scene.remember("www.example.net.", ".", &said.message()), 60);
    scene.known.age = 7;
    assert_eq!(
        scene.request("wWw.example.net.").unwrap(),
        "NOERROR wWw.example.net ra\nwWw.example.net 293 CNAME web.example.net.\n\
         web.example.net 53 A 192.0.2.1\nweb.example.net 53 A 192.0.2.2"
    );
    assert!(scene.known.asked.is_empty());
}

#[test]
fn uncached_name_is_deferred_and_the_packet_stays_unchanged() {
    let mut scene = Scene::new();
    assert_eq!(scene.request("www.example.net."), None);
    assert_eq!(scene.request("www.lab.corp.example."), None);
    let groups: Vec<_> = scene.known.asked.iter().map(|(_, group, _)| *group).collect();
    assert_eq!(groups, [0, 1]);
    let (asked, _, packet) = &scene.known.asked[0];
    assert_eq!(asked, name("www.example.net.").as_name().as_bytes());
    assert_eq!(*packet, Asking::default().question("www.example.net."));
}

#[test]
fn alias_in_a_zone_continues_at_an_upstream() {
    let mut scene = Scene::new();
    assert_eq!(scene.request("out.here.example."), None);
    assert_eq!(scene.known.asked[0].0, name("www.elsewhere.example.").as_name().as_bytes());
    let said = Said::about("www.elsewhere.example.", Rcode::NOERROR)
        .cname("www.elsewhere.example.", 40, "b.elsewhere.example.")
        .a("b.elsewhere.example.", 50, 9);
    scene.remember("www.elsewhere.example.", ".", &said.message());
    scene.known.age = 1;
    assert_eq!(
        scene.request("Out.here.example.").unwrap(),
        "NOERROR Out.here.example aa ra\nOut.here.example 60 CNAME www.elsewhere.example.\n\
         www.elsewhere.example 39 CNAME b.elsewhere.example.\nb.elsewhere.example 49 A 192.0.2.9"
    );
}

#[test]
fn alias_chain_continues_at_the_upstream_of_each_name() {
    let mut scene = Scene::new();
    let said = Said::about("a.corp.example.", Rcode::NOERROR)
        .cname("a.corp.example.", 30, "ns.here.example.")
        .a("ns.here.example.", 30, 66);
    assert_eq!(scene.remember("a.corp.example.", "corp.example.", &said.message()), 30);
    assert_eq!(
        scene.request("a.corp.example.").unwrap(),
        "NOERROR a.corp.example ra\na.corp.example 30 CNAME ns.here.example.\n\
         ns.here.example 60 A 192.0.2.53",
        "our own data, not what they say of it"
    );
    let said = Said::about("b.corp.example.", Rcode::NXDOMAIN).cname(
        "b.corp.example.",
        30,
        "www.example.net.",
    );
    scene.remember("b.corp.example.", "corp.example.", &said.message());
    assert_eq!(scene.request("b.corp.example."), None);
    let (asked, group, packet) = &scene.known.asked[0];
    assert_eq!((&asked[..], *group), (name("www.example.net.").as_name().as_bytes(), 0));
    assert_eq!(*packet, Asking::default().question("b.corp.example."));
}

#[test]
fn looping_alias_chain_ends() {
    let mut scene = Scene::new();
    let said = Said::about("round.elsewhere.example.", Rcode::NOERROR).cname(
        "round.elsewhere.example.",
        9,
        "round.elsewhere.example.",
    );
    scene.remember("round.elsewhere.example.", ".", &said.message());
    let answer = scene.request("round.here.example.").unwrap();
    assert!(answer.starts_with("NOERROR round.here.example aa ra\n"), "{answer}");
    // Through a group that does not follow it.
    for (owner, target) in
        [("x.corp.example.", "x.example.net."), ("x.example.net.", "x.corp.example.")]
    {
        let said = Said::about(owner, Rcode::NOERROR).cname(owner, 9, target);
        let suffix = if owner.contains("corp") { "corp.example." } else { "example.net." };
        scene.remember(owner, suffix, &said.message());
    }
    let answer = scene.request("x.corp.example.").unwrap();
    assert_eq!(answer.lines().count(), 3, "{answer}");
}

#[test]
fn negative_answer_is_cached_for_the_ttl_of_its_soa() {
    let mut scene = Scene::new();
    let said = || Said::about("no.example.net.", Rcode::NXDOMAIN);
    assert_eq!(scene.remember("no.example.net.", ".", &said().soa("example.net.", 300, 20)), 20);
    assert_eq!(
        scene.request("no.example.net.").unwrap(),
        "NXDOMAIN no.example.net ra\n\
         ! example.net 20 SOA ns.example. root.example. 1 1 1 1 20"
    );
    assert_eq!(scene.remember("no.example.net.", ".", &said().soa("example.net.", 9, 20)), 9);
    assert_eq!(
        scene.remember("no.example.net.", ".", &said().soa("example.net.", 9999, 9999)),
        3600
    );
    assert_eq!(scene.remember("no.example.net.", ".", &said().message()), 0, "no upstream says so");
    let resolver = said().soa("example.org.", 300, 20);
    assert_eq!(
        scene.remember("no.example.net.", "example.net.", &resolver),
        0,
        "not theirs to say"
    );
}

#[test]
fn records_that_do_not_answer_the_query_are_dropped() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR)
        .a("bank.example.", 60, 66)
        .a("www.example.net.", 60, 1)
        .cname("bank.example.", 60, "www.example.net.")
        .a("sub.www.example.net.", 60, 66);
    scene.remember("www.example.net.", ".", &said.message());
    assert_eq!(
        scene.request("www.example.net.").unwrap(),
        "NOERROR www.example.net ra\nwww.example.net 60 A 192.0.2.1"
    );
}

#[test]
fn records_of_another_class_are_dropped() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR)
        .cname_of(Class::CH, "www.example.net.", 60, "bank.example.")
        .a_of(Class::CH, "www.example.net.", 5, 66)
        .a("www.example.net.", 60, 1)
        .a_of(Class::HS, "www.example.net.", 60, 67);
    assert_eq!(scene.remember("www.example.net.", ".", &said.message()), 60);
    assert_eq!(
        scene.request("www.example.net.").unwrap(),
        "NOERROR www.example.net ra\nwww.example.net 60 A 192.0.2.1"
    );
    // An SOA of another class does not say how long there is nothing.
    let said = Said::about("no.example.net.", Rcode::NXDOMAIN);
    assert_eq!(scene.remember("no.example.net.", ".", &said.soa_of(Class::CH, "net.", 60, 60)), 0);
    let said = Said::about("www.example.org.", Rcode::NOERROR)
        .a_of(Class::CH, "www.example.org.", 60, 66)
        .soa("example.org.", 60, 20);
    assert_eq!(scene.remember("www.example.org.", ".", &said), 20, "there is no such record");
}

/// RFC 6895 §3.1: OPT, TSIG and their like are about one message.
#[test]
fn records_of_meta_types_are_dropped() {
    let owner = "www.example.net.";
    for (rtype, answers) in [(0, 1), (41, 1), (128, 1), (249, 1), (250, 1), (255, 1), (99, 2)] {
        let mut said = Said::about(owner, Rcode::NOERROR).a(owner, 60, 1);
        let data = UnknownRecordData::from_octets(Type::from_int(rtype), [0; 3]).unwrap();
        said.0.push((domain(owner), Class::IN, 60, data)).unwrap();
        let message = said.message();
        let (saved, _) = taken_of(Rtype::ANY, owner, ".", true, &message).unwrap();
        let at = 12 + name(owner).as_name().len();
        assert_eq!(u16::from_be_bytes([saved[at + 2], saved[at + 3]]), answers, "{rtype}");
    }
}

/// No type with names has so much data, and its pointers would lead anywhere.
#[test]
fn record_that_is_too_long_for_its_type_is_refused() {
    let owner = "www.example.net.";
    for (rtype, is_taken) in [(Type::MX, false), (Type::SRV, false), (Type::TXT, true)] {
        let mut said = Said::about(owner, Rcode::NOERROR);
        let data = UnknownRecordData::from_octets(rtype, [0; 1_800]).unwrap();
        said.0.push((domain(owner), Class::IN, 60, data)).unwrap();
        let taken = taken_of(Rtype(rtype.to_int()), owner, ".", false, &said.message());
        assert_eq!(taken.is_ok(), is_taken, "{rtype}");
    }
}

#[test]
fn ad_is_set_only_for_clients_that_understand_it() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    scene.remember("www.example.net.", ".", &said.authentic().message());
    assert!(!scene.request("www.example.net.").unwrap().contains(" ad"));
    let asking = Asking { authentic: true, ..Asking::default() };
    assert!(scene.ask_with("www.example.net.", asking).unwrap().contains(" ad"));
}

#[test]
fn stale_answer_is_given_if_no_upstream_is_left() {
    let mut scene = Scene::new();
    scene.known.is_deaf = true;
    assert_eq!(scene.request("www.example.net.").unwrap(), "SERVFAIL www.example.net ra\nede 22");
    let said = Said::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    scene.remember("www.example.net.", ".", &said.message());
    scene.known.age = 61;
    assert_eq!(
        scene.request("www.example.net.").unwrap(),
        "NOERROR www.example.net ra\nwww.example.net 30 A 192.0.2.1\nede 3"
    );
    let said = Said::about("www.example.net.", Rcode::NXDOMAIN).soa("example.net.", 60, 60);
    scene.remember("www.example.net.", ".", &said);
    assert!(scene.request("www.example.net.").unwrap().ends_with("ede 19"));
    scene.known.is_deaf = false;
    assert_eq!(scene.request("www.example.net."), None, "an upstream is queried");
}

#[test]
fn query_without_rd_is_not_forwarded() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    scene.remember("www.example.net.", ".", &said.message());
    let asking = Asking { recursion: false, ..Asking::default() };
    assert_eq!(
        scene.ask_with("www.example.net.", asking).unwrap(),
        "REFUSED www.example.net ra\nede 20"
    );
    assert_eq!(
        scene.ask_with("out.here.example.", asking).unwrap(),
        "NOERROR out.here.example aa ra\nout.here.example 60 CNAME www.elsewhere.example."
    );
}

#[test]
fn only_allowed_clients_are_forwarded() {
    let mut scene = Scene::new();
    let prefix = Prefix::new("192.0.2.9".parse().unwrap(), 32).unwrap();
    let mut rules = [limit::AclRule { prefix, listed: false }];
    let (mut v4, mut v6) = ([0; 8], [0; 8]);
    let no_client = Acl::build(&mut rules, true, &mut v4, &mut v6).unwrap();
    let said = Said::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    scene.remember("www.example.net.", ".", &said.message());
    let mut request = |owner| scene.ask_by(owner, Asking::default(), no_client);
    assert_eq!(request("www.example.net.").unwrap(), "REFUSED www.example.net ra\nede 18");
    assert_eq!(
        request("out.here.example.").unwrap(),
        "NOERROR out.here.example aa ra\nout.here.example 60 CNAME www.elsewhere.example."
    );
    assert!(request("ns.here.example.").unwrap().contains("192.0.2.53"));
}

#[test]
fn too_large_cached_answer_is_truncated() {
    let mut scene = Scene::new();
    let mut said = Said::about("www.example.net.", Rcode::NOERROR);
    for last in 0..200 {
        said = said.a("www.example.net.", 60, last);
    }
    scene.remember("www.example.net.", ".", &said.message());
    let answer = scene.request("www.example.net.").unwrap();
    let records = answer.strip_prefix("NOERROR www.example.net tc ra\n").expect("truncated");
    assert_eq!(records.lines().count(), 74, "as many as fit 1232 bytes: {answer}");
    // Whatever their order: the aliases first, without which the addresses belong to no name.
    let mut said = Said::about("a.example.net.", Rcode::NOERROR);
    for last in 0..200 {
        said = said.a("b.example.net.", 60, last);
    }
    let said = said.cname("a.example.net.", 60, "b.example.net.");
    scene.remember("a.example.net.", ".", &said.message());
    let answer = scene.request("a.example.net.").unwrap();
    let alias = "NOERROR a.example.net tc ra\na.example.net 60 CNAME b.example.net.\n";
    let records = answer.strip_prefix(alias).expect("the alias");
    assert!((72..=73).contains(&records.lines().count()), "{answer}");
}

/// As resolvers do: an upstream may leave that to those who ask.
#[test]
fn target_of_an_alias_is_queried_if_the_upstream_does_not_have_it() {
    let mut scene = Scene::new();
    let about = || Said::about("a.example.net.", Rcode::NOERROR);
    let alias = || {
        about().cname("b.example.net.", 20, "c.example.net.").cname(
            "a.example.net.",
            30,
            "b.example.net.",
        )
    };
    assert_eq!(scene.remember("a.example.net.", ".", &alias().message()), 20);
    assert_eq!(scene.request("a.example.net."), None);
    let (asked, group, packet) = &scene.known.asked[0];
    assert_eq!((&asked[..], *group), (name("c.example.net.").as_name().as_bytes(), 0));
    assert_eq!(*packet, Asking::default().question("a.example.net."));
    let said = Said::about("c.example.net.", Rcode::NOERROR).a("c.example.net.", 60, 1);
    scene.remember("c.example.net.", ".", &said.message());
    assert_eq!(
        scene.request("a.example.net.").unwrap(),
        "NOERROR a.example.net ra\nb.example.net 20 CNAME c.example.net.\n\
         a.example.net 30 CNAME b.example.net.\nc.example.net 60 A 192.0.2.1"
    );
    // That there is no address, or no target, is an answer.
    assert_eq!(scene.remember("a.example.net.", ".", &alias().soa("example.net.", 60, 9)), 9);
    assert!(scene.request("a.example.net.").unwrap().contains("SOA"));
    let denied = Said::about("a.example.net.", Rcode::NXDOMAIN);
    let denied = denied.cname("a.example.net.", 30, "b.example.net.").message();
    assert!(!taken("a.example.net.", ".", false, &denied).1.is_unfinished);
    // An upstream that has the DNAME of the target and does not follow it has met a loop.
    let grown = about().cname("a.example.net.", 30, "x.grow.d.example.net.");
    let grown = grown.dname("d.example.net.", 30, "grow.d.example.net.").message();
    assert!(!taken("a.example.net.", ".", false, &grown).1.is_unfinished);
}

#[test]
fn targets_that_are_queried_one_by_one_end_at_a_loop_and_after_sixteen() {
    let mut scene = Scene::new();
    let learn = |scene: &mut Scene, owner: String, target: String| {
        let said = Said::about(&owner, Rcode::NOERROR).cname(&owner, 60, &target);
        assert_eq!(scene.remember(&owner, ".", &said.message()), 60);
    };
    for (owner, target) in [("a", "b"), ("b", "a")] {
        learn(&mut scene, format!("{owner}.example.net."), format!("{target}.example.net."));
    }
    let answer = scene.request("a.example.net.").unwrap();
    assert_eq!(answer.lines().count(), 3, "{answer}");
    for n in 0..40 {
        learn(&mut scene, format!("n{n}.example.net."), format!("n{}.example.net.", n + 1));
    }
    let stream = Asking { transport: Transport::Stream, ..Asking::default() };
    let answer = scene.ask_with("n0.example.net.", stream).unwrap();
    assert!((16..=18).contains(&answer.lines().count()), "{answer}");
}

#[test]
fn popular_name_is_refreshed_before_it_expires() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    scene.remember("www.example.net.", ".", &said.message());
    for (age, uses, renewed) in [(53, 3, 0), (54, 1, 0), (54, 2, 1), (59, 3, 2)] {
        (scene.known.age, scene.known.uses) = (age, uses);
        assert!(scene.request("www.example.net.").is_some());
        assert_eq!(scene.known.renewed, renewed, "{age} {uses}");
    }
}

#[test]
fn signatures_are_sent_only_with_do() {
    let mut builder = Said::about("www.example.net.", Rcode::NOERROR).0;
    builder
        .push((domain("www.example.net."), Class::IN, 60, A::new([192, 0, 2, 1].into())))
        .unwrap();
    // An RRSIG over A, as far as its first bytes say.
    let signature = UnknownRecordData::from_octets(
        Type::RRSIG,
        [&[0, 1, 13, 3][..], &[0; 14], b"\x07example\x03net\x00", &[7; 64]].concat(),
    )
    .unwrap();
    builder.push((domain("www.example.net."), Class::IN, 60, signature)).unwrap();
    builder
        .push((
            domain("www.example.net."),
            Class::IN,
            60,
            Txt::<Vec<u8>>::build_from_slice(b"x").unwrap(),
        ))
        .unwrap();
    let message = builder.finish();
    for (dnssec_ok, records) in [(false, 1), (true, 2)] {
        let (saved, _) = taken("www.example.net.", ".", dnssec_ok, &message);
        let at = 12 + name("www.example.net.").as_name().len();
        assert_eq!(u16::from_be_bytes([saved[at + 2], saved[at + 3]]), records);
    }
}

/// RFC 2308 §2.2.
#[test]
fn referral_is_not_an_answer() {
    let said = |rcode| Said::about("www.sub.example.net.", rcode);
    let take = |message: &[u8]| taken_of(Rtype::A, "www.sub.example.net.", ".", false, message);
    let referral = said(Rcode::NOERROR).ns("sub.example.net.", "ns.sub.example.net.");
    assert!(take(&referral).is_err());
    let alias = said(Rcode::NOERROR).cname("www.sub.example.net.", 60, "a.b.example.net.");
    assert!(take(&alias.ns("b.example.net.", "ns.b.example.net.")).is_err());
    let denied = said(Rcode::NXDOMAIN).ns("sub.example.net.", "ns.sub.example.net.");
    assert!(take(&denied).is_ok());
    let answered = said(Rcode::NOERROR).a("www.sub.example.net.", 60, 1);
    assert!(take(&answered.ns("sub.example.net.", "ns.sub.example.net.")).is_ok());
}

/// A signature answers who asks for anything, and is for who wants signatures.
#[test]
fn answer_without_usable_records_is_not_cached() {
    let mut signed = Said::about("www.example.net.", Rcode::NOERROR).message();
    let (head, data) = (b"\xc0\x0c\x00\x2e\x00\x01\x00\x00\x00\x3c", b"\x00\x14\x00\x01\x08\x03");
    signed.extend([&head[..], data, &[0; 16]].concat());
    signed[7] = 1;
    let of = |dnssec_ok| taken_of(Rtype::ANY, "www.example.net.", ".", dnssec_ok, &signed);
    assert_eq!(of(true).unwrap().1.ttl, 60);
    assert_eq!(of(false).unwrap().1.ttl, 0);
}

/// RFC 8482 §4.1, of what a server of others said: one set over datagrams, all over streams.
#[test]
fn forwarded_any_over_datagrams_is_the_smallest_set() {
    let text = |text: &str| Txt::<Vec<u8>>::build_from_slice(text.as_bytes()).unwrap();
    let owner = "www.example.net.";
    let mut said = Said::about(owner, Rcode::NOERROR).a(owner, 60, 1).a(owner, 60, 2);
    said.0.push((domain(owner), Class::IN, 60, text("short"))).unwrap();
    said.0.push((domain(owner), Class::IN, 60, Mx::new(10, domain("mail.example.net.")))).unwrap();
    let mut scene = Scene::new();
    scene.learn_of(Rtype::ANY, owner, ".", &said.message());
    let any = Asking { rtype: Rtype::ANY, ..Asking::default() };
    let reply = scene.ask_with(owner, any).unwrap();
    assert_eq!(reply, "NOERROR www.example.net ra\nwww.example.net 60 TXT \"short\"");
    let stream = Asking { transport: Transport::Stream, ..any };
    assert_eq!(scene.ask_with(owner, stream).unwrap().lines().count(), 5);
    let alias = Said::about(owner, Rcode::NOERROR).cname(owner, 60, "a.example.net.");
    scene.learn_of(Rtype::ANY, owner, ".", &alias.message());
    let reply = scene.ask_with(owner, any).unwrap();
    assert_eq!(reply, "NOERROR www.example.net ra\nwww.example.net 60 CNAME a.example.net.");
}

/// Other servers are asked in class IN only.
#[test]
fn class_any_is_not_forwarded() {
    let mut scene = Scene::new();
    let any = Asking { class: 255, ..Asking::default() };
    let reply = scene.ask_with("www.example.net.", any).unwrap();
    assert_eq!(reply, "REFUSED www.example.net ra\nede 20");
    let reply = scene.ask_with("out.here.example.", any).unwrap();
    let alias = "out.here.example 60 CNAME www.elsewhere.example.";
    assert_eq!(reply, format!("NOERROR out.here.example ra\n{alias}"));
    assert!(scene.known.asked.is_empty());
}

/// What others say of names that are not theirs is not believed, wherever a chain has led there.
#[test]
fn fast_path_follows_a_chain_by_the_owner_of_each_name() {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR)
        .cname("www.example.net.", 30, "a.example.net.")
        .cname("a.example.net.", 30, "ns.here.example.")
        .a("ns.here.example.", 30, 66);
    scene.remember("www.example.net.", ".", &said.authentic().message());
    let own_zone = "NOERROR www.example.net ra\nwww.example.net 30 CNAME a.example.net.\n\
                a.example.net 30 CNAME ns.here.example.\nns.here.example 60 A 192.0.2.53";
    assert_eq!(scene.request("www.example.net.").unwrap(), own_zone);
    assert!(!scene.is_short("www.example.net.", Asking::default()));
    scene.known.asked.clear();
    let said = Said::about("b.example.net.", Rcode::NXDOMAIN)
        .cname("b.example.net.", 30, "b.corp.example.")
        .soa(".", 300, 20);
    scene.remember("b.example.net.", ".", &said);
    assert_eq!(scene.request("b.example.net."), None);
    let (asked, group, _) = &scene.known.asked[0];
    assert_eq!((&asked[..], *group), (name("b.corp.example.").as_name().as_bytes(), 1));
    // Once the zone is gone, it is theirs to say.
    scene.image.remove_zone(name("here.example.").as_name());
    assert!(scene.request("www.example.net.").unwrap().ends_with("192.0.2.66"));
    assert!(scene.is_short("www.example.net.", Asking::default()));
}
