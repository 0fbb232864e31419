//! What takes the fast way. That it says the same as the full one, [`Fixture::request`] compares.
use super::fixture::{Fixture, QueryOptions, UpstreamResponse};
use answer::CacheLookup;
use domain::base::iana::Rcode;

/// Something plain that is known, and confirmed.
fn known() -> Fixture {
    let mut fixture = Fixture::new();
    let response =
        UpstreamResponse::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    fixture.remember("www.example.net.", ".", &response.message());
    fixture.request("www.example.net.").unwrap();
    fixture
}

#[test]
fn plain_confirmed_query_takes_the_fast_path() {
    let mut fixture = known();
    let without_opt = QueryOptions { opt: None, ..QueryOptions::default() };
    for options in [QueryOptions::default(), without_opt] {
        fixture.resolver.lookups.clear();
        assert!(fixture.takes_fast_path("wWw.Example.net.", options), "{options:?}");
        assert_eq!(fixture.resolver.lookups, [CacheLookup::Hit, CacheLookup::Miss]);
    }
    let denial =
        UpstreamResponse::about("no.example.net.", Rcode::NXDOMAIN).soa("example.net.", 300, 20);
    fixture.remember("no.example.net.", ".", &denial);
    assert!(!fixture.takes_fast_path("no.example.net.", QueryOptions::default()), "not confirmed");
    assert!(fixture.takes_fast_path("no.example.net.", QueryOptions::default()));
}

#[test]
fn query_without_rd_takes_the_full_path() {
    let mut fixture = known();
    let options = QueryOptions { recursion: false, ..QueryOptions::default() };
    let reply = fixture.query_with("www.example.net.", options).unwrap();
    assert!(reply.starts_with("REFUSED"), "{reply}");
}

#[test]
fn name_with_a_new_owner_is_not_answered_from_the_old_one() {
    let mut fixture = known();
    assert!(fixture.takes_fast_path("www.example.net.", QueryOptions::default()));
    fixture.add_zone("example.net.", "@ 60 SOA ns root 1 1 1 1 60\n@ 60 NS ns\nwww 5 A 192.0.2.7");
    let answer = "NOERROR www.example.net aa ra\nwww.example.net 5 A 192.0.2.7";
    assert_eq!(fixture.request("www.example.net.").unwrap(), answer);
    fixture.image.remove_zone(super::fixture::name("example.net.").as_name());
    assert!(
        !fixture.takes_fast_path("www.example.net.", QueryOptions::default()),
        "by another map"
    );
    assert!(fixture.takes_fast_path("www.example.net.", QueryOptions::default()), "by this one");
}

#[test]
fn entry_that_must_be_refreshed_takes_the_full_path_once() {
    let mut fixture = known();
    (fixture.resolver.age, fixture.resolver.uses) = (55, 3);
    assert!(!fixture.takes_fast_path("www.example.net.", QueryOptions::default()));
    assert_eq!(fixture.resolver.renewed, 1);
    fixture.resolver.age = 60;
    assert_eq!(fixture.request("www.example.net."), None, "too old");
}

#[test]
fn alias_or_long_answer_takes_the_full_path() {
    let mut fixture = known();
    let response = UpstreamResponse::about("b.corp.example.", Rcode::NOERROR).cname(
        "b.corp.example.",
        30,
        "www.example.net.",
    );
    fixture.remember("b.corp.example.", "corp.example.", &response.message());
    fixture.request("b.corp.example.").unwrap();
    assert!(!fixture.takes_fast_path("b.corp.example.", QueryOptions::default()));
    let addresses = |count| {
        (0..count)
            .fold(UpstreamResponse::about("many.example.net.", Rcode::NOERROR), |response, last| {
                response.a("many.example.net.", 60, last)
            })
    };
    // 12 bytes of header, 22 of question, 16 an address, 11 of OPT: 512 hold 29.
    for (count, takes_fast_path) in [(29, true), (30, false)] {
        fixture.remember("many.example.net.", ".", &addresses(count).message());
        fixture.request("many.example.net.").unwrap();
        assert_eq!(
            fixture.takes_fast_path("many.example.net.", QueryOptions::default()),
            takes_fast_path,
            "{count}"
        );
    }
}
