//! What takes the short way. That it says the same as the long one, [`Scene::request`] compares.
use super::scene::{Asking, Said, Scene};
use answer::CacheLookup;
use domain::base::iana::Rcode;

/// Something plain that is known, and confirmed.
fn known() -> Scene {
    let mut scene = Scene::new();
    let said = Said::about("www.example.net.", Rcode::NOERROR).a("www.example.net.", 60, 1);
    scene.remember("www.example.net.", ".", &said.message());
    scene.request("www.example.net.").unwrap();
    scene
}

#[test]
fn plain_confirmed_query_takes_the_fast_path() {
    let mut scene = known();
    let without_opt = Asking { opt: None, ..Asking::default() };
    for asking in [Asking::default(), without_opt] {
        scene.known.lookups.clear();
        assert!(scene.is_short("wWw.Example.net.", asking), "{asking:?}");
        assert_eq!(scene.known.lookups, [CacheLookup::Hit, CacheLookup::Miss]);
    }
    let denial = Said::about("no.example.net.", Rcode::NXDOMAIN).soa("example.net.", 300, 20);
    scene.remember("no.example.net.", ".", &denial);
    assert!(!scene.is_short("no.example.net.", Asking::default()), "not confirmed");
    assert!(scene.is_short("no.example.net.", Asking::default()));
}

#[test]
fn query_without_rd_takes_the_full_path() {
    let mut scene = known();
    let asking = Asking { recursion: false, ..Asking::default() };
    let reply = scene.ask_with("www.example.net.", asking).unwrap();
    assert!(reply.starts_with("REFUSED"), "{reply}");
}

#[test]
fn name_with_a_new_owner_is_not_answered_from_the_old_one() {
    let mut scene = known();
    assert!(scene.is_short("www.example.net.", Asking::default()));
    scene.add_zone("example.net.", "@ 60 SOA ns root 1 1 1 1 60\n@ 60 NS ns\nwww 5 A 192.0.2.7");
    let answer = "NOERROR www.example.net aa ra\nwww.example.net 5 A 192.0.2.7";
    assert_eq!(scene.request("www.example.net.").unwrap(), answer);
    scene.image.remove_zone(super::scene::name("example.net.").as_name());
    assert!(!scene.is_short("www.example.net.", Asking::default()), "by another map");
    assert!(scene.is_short("www.example.net.", Asking::default()), "by this one");
}

#[test]
fn entry_that_must_be_refreshed_takes_the_full_path_once() {
    let mut scene = known();
    (scene.known.age, scene.known.uses) = (55, 3);
    assert!(!scene.is_short("www.example.net.", Asking::default()));
    assert_eq!(scene.known.renewed, 1);
    scene.known.age = 60;
    assert_eq!(scene.request("www.example.net."), None, "too old");
}

#[test]
fn alias_or_long_answer_takes_the_full_path() {
    let mut scene = known();
    let said = Said::about("b.corp.example.", Rcode::NOERROR).cname(
        "b.corp.example.",
        30,
        "www.example.net.",
    );
    scene.remember("b.corp.example.", "corp.example.", &said.message());
    scene.request("b.corp.example.").unwrap();
    assert!(!scene.is_short("b.corp.example.", Asking::default()));
    let addresses = |count| {
        (0..count).fold(Said::about("many.example.net.", Rcode::NOERROR), |said, last| {
            said.a("many.example.net.", 60, last)
        })
    };
    // 12 bytes of header, 22 of question, 16 an address, 11 of OPT: 512 hold 29.
    for (count, is_short) in [(29, true), (30, false)] {
        scene.remember("many.example.net.", ".", &addresses(count).message());
        scene.request("many.example.net.").unwrap();
        assert_eq!(scene.is_short("many.example.net.", Asking::default()), is_short, "{count}");
    }
}
