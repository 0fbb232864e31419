//! Forwarded names: which records of an upstream's response are used, and the answers made of them.
//! Another library composes the responses and decodes the answers.

mod fast_path;
mod fixture;

use domain::base::Rtype as Type;
use domain::base::iana::{Class, Rcode};
use domain::base::rdata::UnknownRecordData;
use domain::rdata::{A, Mx, Txt};
use limit::{Acl, Prefix};
use packet::Transport;
use wire::Rtype;

use fixture::{Fixture, QueryOptions, UpstreamResponse, domain, name, relayed, relayed_of};

#[test]
fn cached_answer_has_the_ttl_that_is_left() {
    let mut fixture = Fixture::new();
    let response = UpstreamResponse::about("www.example.net.", Rcode::NOERROR)
        .cname("www.example.net.", 300, "web.example.net.")
        .a("web.example.net.", 60, 1)
        .a("web.example.net.", 60, 2);
    assert_eq!(fixture.remember("www.example.net.", ".", &response.message()), 60);
    fixture.resolver.age = 7;
    assert_eq!(
        fixture.request("wWw.example.net.").unwrap(),
        "NOERROR wWw.example.net ra\nwWw.example.net 293 CNAME web.example.net.\n\
         web.example.net 53 A 192.0.2.1\nweb.example.net 53 A 192.0.2.2"
    );
    assert!(fixture.resolver.queries.is_empty());
}

#[test]
fn uncached_name_is_deferred_and_the_packet_stays_unchanged() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.request("www.example.net."), None);
    assert_eq!(fixture.request("www.lab.corp.example."), None);
    let groups: Vec<_> = fixture.resolver.queries.iter().map(|(_, group, _)| *group).collect();
    assert_eq!(groups, [0, 1]);
    let (queried, _, packet) = &fixture.resolver.queries[0];
    assert_eq!(queried, name("www.example.net.").as_name().as_bytes());
    assert_eq!(*packet, QueryOptions::default().message("www.example.net."));
}

#[test]
fn alias_in_a_zone_continues_at_an_upstream() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.request("out.here.example."), None);
    assert_eq!(fixture.resolver.queries[0].0, name("www.elsewhere.example.").as_name().as_bytes());
    let response = UpstreamResponse::about("www.elsewhere.example.", Rcode::NOERROR)
        .cname("www.elsewhere.example.", 40, "b.elsewhere.example.")
        .a("b.elsewhere.example.", 50, 9);
    fixture.remember("www.elsewhere.example.", ".", &response.message());
    fixture.resolver.age = 1;
    assert_eq!(
        fixture.request("Out.here.example.").unwrap(),
        "NOERROR Out.here.example aa ra\nOut.here.example 60 CNAME www.elsewhere.example.\n\
         www.elsewhere.example 39 CNAME b.elsewhere.example.\nb.elsewhere.example 49 A 192.0.2.9"
    );
}

#[test]
fn alias_chain_continues_at_the_upstream_of_each_name() {
    let mut fixture = Fixture::new();
    let response = UpstreamResponse::about("a.corp.example.", Rcode::NOERROR)
        .cname("a.corp.example.", 30, "ns.here.example.")
        .a("ns.here.example.", 30, 66);
    assert_eq!(fixture.remember("a.corp.example.", "corp.example.", &response.message()), 30);
    assert_eq!(
        fixture.request("a.corp.example.").unwrap(),
        "NOERROR a.corp.example ra\na.corp.example 30 CNAME ns.here.example.\n\
         ns.here.example 60 A 192.0.2.53",
        "our own data, not that of the response"
    );
    let response = UpstreamResponse::about("b.corp.example.", Rcode::NXDOMAIN).cname(
        "b.corp.example.",
        30,
        "www.example.net.",
    );
    fixture.remember("b.corp.example.", "corp.example.", &response.message());
    assert_eq!(fixture.request("b.corp.example."), None);
    let (queried, group, packet) = &fixture.resolver.queries[0];
    assert_eq!((&queried[..], *group), (name("www.example.net.").as_name().as_bytes(), 0));
    assert_eq!(*packet, QueryOptions::default().message("b.corp.example."));
}

#[test]
fn looping_alias_chain_ends() {
    let mut fixture = Fixture::new();
    let response = UpstreamResponse::about("round.elsewhere.example.", Rcode::NOERROR).cname(
        "round.elsewhere.example.",
        9,
        "round.elsewhere.example.",
    );
    fixture.remember("round.elsewhere.example.", ".", &response.message());
    let answer = fixture.request("round.here.example.").unwrap();
    assert!(answer.starts_with("NOERROR round.here.example aa ra\n"), "{answer}");
    // Through a group that does not follow it.
    for (owner, target) in
        [("x.corp.example.", "x.example.net."), ("x.example.net.", "x.corp.example.")]
    {
        let response = UpstreamResponse::about(owner, Rcode::NOERROR).cname(owner, 9, target);
        let suffix = if owner.contains("corp") { "corp.example." } else { "example.net." };
        fixture.remember(owner, suffix, &response.message());
    }
    let answer = fixture.request("x.corp.example.").unwrap();
    assert_eq!(answer.lines().count(), 3, "{answer}");
}

#[test]
fn negative_answer_is_cached_for_the_ttl_of_its_soa() {
    let mut fixture = Fixture::new();
    let response = || UpstreamResponse::about("no.example.net.", Rcode::NXDOMAIN);
    assert_eq!(
        fixture.remember("no.example.net.", ".", &response().soa("example.net.", 300, 20)),
        20
    );
    assert_eq!(
        fixture.request("no.example.net.").unwrap(),
        "NXDOMAIN no.example.net ra\n\
         ! example.net 20 SOA ns.example. root.example. 1 1 1 1 20"
    );
    assert_eq!(fixture.remember("no.example.net.", ".", &response().soa("example.net.", 9, 20)), 9);
    assert_eq!(
        fixture.remember("no.example.net.", ".", &response().soa("example.net.", 9999, 9999)),
        3600
    );
    assert_eq!(
        fixture.remember("no.example.net.", ".", &response().message()),
        0,
        "no upstream says so"
    );
    let resolver = response().soa("example.org.", 300, 20);
    assert_eq!(
        fixture.remember("no.example.net.", "example.net.", &resolver),
        0,
        "not theirs to say"
    );
}

#[test]
fn records_that_do_not_answer_the_query_are_dropped() {
    let mut fixture = Fixture::new();
    let response = UpstreamResponse::about("www.example.net.", Rcode::NOERROR)
        .a("bank.example.", 60, 66)
        .a("www.example.net.", 60, 1)
        .cname("bank.example.", 60, "www.example.net.")
        .a("sub.www.example.net.", 60, 66);
    fixture.remember("www.example.net.", ".", &response.message());
    assert_eq!(
        fixture.request("www.example.net.").unwrap(),
        "NOERROR www.example.net ra\nwww.example.net 60 A 192.0.2.1"
    );
}

#[test]
fn records_of_another_class_are_dropped() {
    let mut fixture = Fixture::new();
    let response = UpstreamResponse::about("www.example.net.", Rcode::NOERROR)
        .cname_of(Class::CH, "www.example.net.", 60, "bank.example.")
        .a_of(Class::CH, "www.example.net.", 5, 66)
        .a("www.example.net.", 60, 1)
        .a_of(Class::HS, "www.example.net.", 60, 67);
    assert_eq!(fixture.remember("www.example.net.", ".", &response.message()), 60);
    assert_eq!(
        fixture.request("www.example.net.").unwrap(),
        "NOERROR www.example.net ra\nwww.example.net 60 A 192.0.2.1"
    );
    // An SOA of another class does not say how full there is nothing.
    let response = UpstreamResponse::about("no.example.net.", Rcode::NXDOMAIN);
    assert_eq!(
        fixture.remember("no.example.net.", ".", &response.soa_of(Class::CH, "net.", 60, 60)),
        0
    );
    let response = UpstreamResponse::about("www.example.org.", Rcode::NOERROR)
        .a_of(Class::CH, "www.example.org.", 60, 66)
        .soa("example.org.", 60, 20);
    assert_eq!(fixture.remember("www.example.org.", ".", &response), 20, "there is no such record");
}

/// RFC 6895 §3.1: OPT, TSIG and their like are about one message.
#[test]
fn records_of_meta_types_are_dropped() {
    let owner = "www.example.net.";
    for (rtype, answers) in [(0, 1), (41, 1), (128, 1), (249, 1), (250, 1), (255, 1), (99, 2)] {
        let mut response = UpstreamResponse::about(owner, Rcode::NOERROR).a(owner, 60, 1);
        let data = UnknownRecordData::from_octets(Type::from_int(rtype), [0; 3]).unwrap();
        response.0.push((domain(owner), Class::IN, 60, data)).unwrap();
        let message = response.message();
        let (saved, _) = relayed_of(Rtype::ANY, owner, ".", true, &message).unwrap();
        let at = 12 + name(owner).as_name().len();
        assert_eq!(u16::from_be_bytes([saved[at + 2], saved[at + 3]]), answers, "{rtype}");
    }
}

/// No type with names has so much data, and its pointers would lead anywhere.
#[test]
fn record_that_is_too_long_for_its_type_is_refused() {
    let owner = "www.example.net.";
    for (rtype, is_taken) in [(Type::MX, false), (Type::SRV, false), (Type::TXT, true)] {
        let mut response = UpstreamResponse::about(owner, Rcode::NOERROR);
        let data = UnknownRecordData::from_octets(rtype, [0; 1_800]).unwrap();
        response.0.push((domain(owner), Class::IN, 60, data)).unwrap();
        let relayed = relayed_of(Rtype(rtype.to_int()), owner, ".", false, &response.message());
        assert_eq!(relayed.is_ok(), is_taken, "{rtype}");
    }
}

#[test]
fn ad_is_set_only_for_clients_that_understand_it() {
    let mut fixture = Fixture::new();
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    fixture.remember("www.example.net.", ".", &response.authentic().message());
    assert!(!fixture.request("www.example.net.").unwrap().contains(" ad"));
    let options = QueryOptions { authentic: true, ..QueryOptions::default() };
    assert!(fixture.query_with("www.example.net.", options).unwrap().contains(" ad"));
}

#[test]
fn stale_answer_is_given_if_no_upstream_is_left() {
    let mut fixture = Fixture::new();
    fixture.resolver.refuses = true;
    assert_eq!(fixture.request("www.example.net.").unwrap(), "SERVFAIL www.example.net ra\nede 22");
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    fixture.remember("www.example.net.", ".", &response.message());
    fixture.resolver.age = 61;
    assert_eq!(
        fixture.request("www.example.net.").unwrap(),
        "NOERROR www.example.net ra\nwww.example.net 30 A 192.0.2.1\nede 3"
    );
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NXDOMAIN).soa("example.net.", 60, 60);
    fixture.remember("www.example.net.", ".", &response);
    assert!(fixture.request("www.example.net.").unwrap().ends_with("ede 19"));
    fixture.resolver.refuses = false;
    assert_eq!(fixture.request("www.example.net."), None, "an upstream is queried");
}

#[test]
fn query_without_rd_is_not_forwarded() {
    let mut fixture = Fixture::new();
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    fixture.remember("www.example.net.", ".", &response.message());
    let options = QueryOptions { recursion: false, ..QueryOptions::default() };
    assert_eq!(
        fixture.query_with("www.example.net.", options).unwrap(),
        "REFUSED www.example.net ra\nede 20"
    );
    assert_eq!(
        fixture.query_with("out.here.example.", options).unwrap(),
        "NOERROR out.here.example aa ra\nout.here.example 60 CNAME www.elsewhere.example."
    );
}

#[test]
fn only_allowed_clients_are_forwarded() {
    let mut fixture = Fixture::new();
    let prefix = Prefix::new("192.0.2.9".parse().unwrap(), 32).unwrap();
    let mut rules = [limit::AclRule { prefix, listed: false }];
    let (mut v4, mut v6) = ([0; 8], [0; 8]);
    let no_client = Acl::build(&mut rules, true, &mut v4, &mut v6).unwrap();
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    fixture.remember("www.example.net.", ".", &response.message());
    let mut request = |owner| fixture.query_by(owner, QueryOptions::default(), no_client);
    assert_eq!(request("www.example.net.").unwrap(), "REFUSED www.example.net ra\nede 18");
    assert_eq!(
        request("out.here.example.").unwrap(),
        "NOERROR out.here.example aa ra\nout.here.example 60 CNAME www.elsewhere.example."
    );
    assert!(request("ns.here.example.").unwrap().contains("192.0.2.53"));
}

#[test]
fn too_large_cached_answer_is_truncated() {
    let mut fixture = Fixture::new();
    let mut response = UpstreamResponse::about("www.example.net.", Rcode::NOERROR);
    for last in 0..200 {
        response = response.a("www.example.net.", 60, last);
    }
    fixture.remember("www.example.net.", ".", &response.message());
    let answer = fixture.request("www.example.net.").unwrap();
    let records = answer.strip_prefix("NOERROR www.example.net tc ra\n").expect("truncated");
    assert_eq!(records.lines().count(), 74, "as many as fit 1232 bytes: {answer}");
    // Whatever their order: the aliases first, without which the addresses belong to no name.
    let mut response = UpstreamResponse::about("a.example.net.", Rcode::NOERROR);
    for last in 0..200 {
        response = response.a("b.example.net.", 60, last);
    }
    let response = response.cname("a.example.net.", 60, "b.example.net.");
    fixture.remember("a.example.net.", ".", &response.message());
    let answer = fixture.request("a.example.net.").unwrap();
    let alias = "NOERROR a.example.net tc ra\na.example.net 60 CNAME b.example.net.\n";
    let records = answer.strip_prefix(alias).expect("the alias");
    assert!((72..=73).contains(&records.lines().count()), "{answer}");
}

/// As resolvers do: an upstream may leave that to those who ask.
#[test]
fn target_of_an_alias_is_queried_if_the_upstream_does_not_have_it() {
    let mut fixture = Fixture::new();
    let about = || UpstreamResponse::about("a.example.net.", Rcode::NOERROR);
    let alias = || {
        about().cname("b.example.net.", 20, "c.example.net.").cname(
            "a.example.net.",
            30,
            "b.example.net.",
        )
    };
    assert_eq!(fixture.remember("a.example.net.", ".", &alias().message()), 20);
    assert_eq!(fixture.request("a.example.net."), None);
    let (queried, group, packet) = &fixture.resolver.queries[0];
    assert_eq!((&queried[..], *group), (name("c.example.net.").as_name().as_bytes(), 0));
    assert_eq!(*packet, QueryOptions::default().message("a.example.net."));
    let response =
        UpstreamResponse::about("c.example.net.", Rcode::NOERROR).a("c.example.net.", 60, 1);
    fixture.remember("c.example.net.", ".", &response.message());
    assert_eq!(
        fixture.request("a.example.net.").unwrap(),
        "NOERROR a.example.net ra\nb.example.net 20 CNAME c.example.net.\n\
         a.example.net 30 CNAME b.example.net.\nc.example.net 60 A 192.0.2.1"
    );
    // That there is no address, or no target, is an answer.
    assert_eq!(fixture.remember("a.example.net.", ".", &alias().soa("example.net.", 60, 9)), 9);
    assert!(fixture.request("a.example.net.").unwrap().contains("SOA"));
    let denied = UpstreamResponse::about("a.example.net.", Rcode::NXDOMAIN);
    let denied = denied.cname("a.example.net.", 30, "b.example.net.").message();
    assert!(!relayed("a.example.net.", ".", false, &denied).1.is_unfinished);
    // An upstream that has the DNAME of the target and does not follow it has met a loop.
    let grown = about().cname("a.example.net.", 30, "x.grow.d.example.net.");
    let grown = grown.dname("d.example.net.", 30, "grow.d.example.net.").message();
    assert!(!relayed("a.example.net.", ".", false, &grown).1.is_unfinished);
}

#[test]
fn targets_that_are_queried_one_by_one_end_at_a_loop_and_after_sixteen() {
    let mut fixture = Fixture::new();
    let learn = |fixture: &mut Fixture, owner: String, target: String| {
        let response = UpstreamResponse::about(&owner, Rcode::NOERROR).cname(&owner, 60, &target);
        assert_eq!(fixture.remember(&owner, ".", &response.message()), 60);
    };
    for (owner, target) in [("a", "b"), ("b", "a")] {
        learn(&mut fixture, format!("{owner}.example.net."), format!("{target}.example.net."));
    }
    let answer = fixture.request("a.example.net.").unwrap();
    assert_eq!(answer.lines().count(), 3, "{answer}");
    for n in 0..40 {
        learn(&mut fixture, format!("n{n}.example.net."), format!("n{}.example.net.", n + 1));
    }
    let stream = QueryOptions { transport: Transport::Stream, ..QueryOptions::default() };
    let answer = fixture.query_with("n0.example.net.", stream).unwrap();
    assert!((16..=18).contains(&answer.lines().count()), "{answer}");
}

#[test]
fn popular_name_is_refreshed_before_it_expires() {
    let mut fixture = Fixture::new();
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    fixture.remember("www.example.net.", ".", &response.message());
    for (age, uses, renewed) in [(53, 3, 0), (54, 1, 0), (54, 2, 1), (59, 3, 2)] {
        (fixture.resolver.age, fixture.resolver.uses) = (age, uses);
        assert!(fixture.request("www.example.net.").is_some());
        assert_eq!(fixture.resolver.renewed, renewed, "{age} {uses}");
    }
}

#[test]
fn signatures_are_sent_only_with_do() {
    let mut builder = UpstreamResponse::about("www.example.net.", Rcode::NOERROR).0;
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
        let (saved, _) = relayed("www.example.net.", ".", dnssec_ok, &message);
        let at = 12 + name("www.example.net.").as_name().len();
        assert_eq!(u16::from_be_bytes([saved[at + 2], saved[at + 3]]), records);
    }
}

/// RFC 2308 §2.2.
#[test]
fn referral_is_not_an_answer() {
    let response = |rcode| UpstreamResponse::about("www.sub.example.net.", rcode);
    let take = |message: &[u8]| relayed_of(Rtype::A, "www.sub.example.net.", ".", false, message);
    let referral = response(Rcode::NOERROR).ns("sub.example.net.", "ns.sub.example.net.");
    assert!(take(&referral).is_err());
    let alias = response(Rcode::NOERROR).cname("www.sub.example.net.", 60, "a.b.example.net.");
    assert!(take(&alias.ns("b.example.net.", "ns.b.example.net.")).is_err());
    let denied = response(Rcode::NXDOMAIN).ns("sub.example.net.", "ns.sub.example.net.");
    assert!(take(&denied).is_ok());
    let answered = response(Rcode::NOERROR).a("www.sub.example.net.", 60, 1);
    assert!(take(&answered.ns("sub.example.net.", "ns.sub.example.net.")).is_ok());
}

/// A signature answers who asks for anything, and is for who wants signatures.
#[test]
fn answer_without_usable_records_is_not_cached() {
    let mut signed = UpstreamResponse::about("www.example.net.", Rcode::NOERROR).message();
    let (head, data) = (b"\xc0\x0c\x00\x2e\x00\x01\x00\x00\x00\x3c", b"\x00\x14\x00\x01\x08\x03");
    signed.extend([&head[..], data, &[0; 16]].concat());
    signed[7] = 1;
    let of = |dnssec_ok| relayed_of(Rtype::ANY, "www.example.net.", ".", dnssec_ok, &signed);
    assert_eq!(of(true).unwrap().1.ttl, 60);
    assert_eq!(of(false).unwrap().1.ttl, 0);
}

/// RFC 8482 §4.1, of what a server of others response: one set over datagrams, all over streams.
#[test]
fn forwarded_any_over_datagrams_is_the_smallest_set() {
    let text = |text: &str| Txt::<Vec<u8>>::build_from_slice(text.as_bytes()).unwrap();
    let owner = "www.example.net.";
    let mut response =
        UpstreamResponse::about(owner, Rcode::NOERROR).a(owner, 60, 1).a(owner, 60, 2);
    response.0.push((domain(owner), Class::IN, 60, text("fast"))).unwrap();
    response
        .0
        .push((domain(owner), Class::IN, 60, Mx::new(10, domain("mail.example.net."))))
        .unwrap();
    let mut fixture = Fixture::new();
    fixture.remember_of(Rtype::ANY, owner, ".", &response.message());
    let any = QueryOptions { rtype: Rtype::ANY, ..QueryOptions::default() };
    let reply = fixture.query_with(owner, any).unwrap();
    assert_eq!(reply, "NOERROR www.example.net ra\nwww.example.net 60 TXT \"fast\"");
    let stream = QueryOptions { transport: Transport::Stream, ..any };
    assert_eq!(fixture.query_with(owner, stream).unwrap().lines().count(), 5);
    let alias = UpstreamResponse::about(owner, Rcode::NOERROR).cname(owner, 60, "a.example.net.");
    fixture.remember_of(Rtype::ANY, owner, ".", &alias.message());
    let reply = fixture.query_with(owner, any).unwrap();
    assert_eq!(reply, "NOERROR www.example.net ra\nwww.example.net 60 CNAME a.example.net.");
}

/// Upstreams are queried in class IN only.
#[test]
fn class_any_is_not_forwarded() {
    let mut fixture = Fixture::new();
    let any = QueryOptions { class: 255, ..QueryOptions::default() };
    let reply = fixture.query_with("www.example.net.", any).unwrap();
    assert_eq!(reply, "REFUSED www.example.net ra\nede 20");
    let reply = fixture.query_with("out.here.example.", any).unwrap();
    let alias = "out.here.example 60 CNAME www.elsewhere.example.";
    assert_eq!(reply, format!("NOERROR out.here.example ra\n{alias}"));
    assert!(fixture.resolver.queries.is_empty());
}

/// What others say of names that are not theirs is not believed, wherever a chain has led there.
#[test]
fn fast_path_follows_a_chain_by_the_owner_of_each_name() {
    let mut fixture = Fixture::new();
    let response = UpstreamResponse::about("www.example.net.", Rcode::NOERROR)
        .cname("www.example.net.", 30, "a.example.net.")
        .cname("a.example.net.", 30, "ns.here.example.")
        .a("ns.here.example.", 30, 66);
    fixture.remember("www.example.net.", ".", &response.authentic().message());
    let own_zone = "NOERROR www.example.net ra\nwww.example.net 30 CNAME a.example.net.\n\
                a.example.net 30 CNAME ns.here.example.\nns.here.example 60 A 192.0.2.53";
    assert_eq!(fixture.request("www.example.net.").unwrap(), own_zone);
    assert!(!fixture.takes_fast_path("www.example.net.", QueryOptions::default()));
    fixture.resolver.queries.clear();
    let response = UpstreamResponse::about("b.example.net.", Rcode::NXDOMAIN)
        .cname("b.example.net.", 30, "b.corp.example.")
        .soa(".", 300, 20);
    fixture.remember("b.example.net.", ".", &response);
    assert_eq!(fixture.request("b.example.net."), None);
    let (queried, group, _) = &fixture.resolver.queries[0];
    assert_eq!((&queried[..], *group), (name("b.corp.example.").as_name().as_bytes(), 1));
    // Once the zone is gone, it is theirs to say.
    fixture.image.remove_zone(name("here.example.").as_name());
    assert!(fixture.request("www.example.net.").unwrap().ends_with("192.0.2.66"));
    assert!(fixture.takes_fast_path("www.example.net.", QueryOptions::default()));
}
