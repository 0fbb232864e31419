use super::*;
use crate::key::Entry;

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.into(), value: value.into(), lease_seconds: None }
}

fn run(layout: Layout, zone: &str, entries: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let entries: Vec<_> = entries.iter().map(|(key, value)| entry(key, value)).collect();
    let zone = zonefile::read_name(zone).expect("a name");
    let imported = import(&entries, layout, layout.prefix(), zone.as_name());
    let lines =
        imported.sets.iter().map(|set| {
            let mut data = set.data.clone();
            let weight = |weight: Option<u16>| weight.map(|weight| format!("*{weight}"));
            data.extend(set.members.iter().map(|member| {
                format!("{}{}", member.data, weight(member.weight).unwrap_or_default())
            }));
            let policy = set.policy.filter(|policy| *policy != "weighted").unwrap_or_default();
            format!("{} {} {} {}{policy}", set.name, set.ttl, set.rtype, data.join(","))
        });
    (lines.collect(), imported.notes.iter().map(ToString::to_string).collect())
}

#[test]
fn name_has_the_records_of_the_keys_below_it() {
    let (sets, notes) = run(
        Layout::SkyDns,
        "skydns.local",
        &[
            ("/skydns/local/skydns/web/x1", r#"{"host":"192.0.2.1","port":80,"ttl":60}"#),
            ("/skydns/local/skydns/web/x2", r#"{"host":"192.0.2.2","port":80,"weight":300}"#),
            ("/skydns/local/skydns/txt", r#"{"text":"a \"b\""}"#),
            ("/skydns/local/other/x", r#"{"host":"192.0.2.9"}"#),
        ],
    );
    assert_eq!(
        sets,
        [
            "skydns.local. 60 A 192.0.2.1,192.0.2.2",
            "skydns.local. 300 TXT \"a \\\"b\\\"\"",
            "skydns.local. 60 SRV 10 25 80 x1.web.skydns.local.,10 75 80 x2.web.skydns.local.",
            "txt.skydns.local. 300 TXT \"a \\\"b\\\"\"",
            "web.skydns.local. 60 A 192.0.2.1,192.0.2.2",
            "web.skydns.local. 60 SRV 10 25 80 x1.web.skydns.local.,10 75 80 x2.web.skydns.local.",
            "x1.web.skydns.local. 60 A 192.0.2.1",
            "x1.web.skydns.local. 60 SRV 10 100 80 x1.web.skydns.local.",
            "x2.web.skydns.local. 300 A 192.0.2.2",
            "x2.web.skydns.local. 300 SRV 10 100 80 x2.web.skydns.local.",
        ]
    );
    assert!(notes.iter().all(|note| note.contains("note: the TTLs of")), "{notes:?}");
}

#[test]
fn groups_strips_mail_and_leases_count() {
    let entries = [
        Entry {
            key: "/skydns/local/skydns/dom/a".into(),
            value: br#"{"host":"192.0.2.1","group":"g1","mail":true,"targetstrip":1}"#.to_vec(),
            lease_seconds: Some(7),
        },
        entry("/skydns/local/skydns/dom/b", r#"{"host":"192.0.2.2","group":"g1"}"#),
        entry("/skydns/local/skydns/dom/sub/c", r#"{"host":"192.0.2.3","group":"g2"}"#),
        entry("/skydns/local/skydns/dom/sub/d", r#"{"host":"192.0.2.4"}"#),
    ];
    let zone = zonefile::read_name("skydns.local").expect("a name");
    let imported = import(&entries, Layout::SkyDns, "/skydns/", zone.as_name());
    let of = |name: &str, rtype: &str| {
        let found = imported.sets.iter().find(|set| set.name == name && set.rtype == rtype);
        found.map(|set| (set.ttl, set.data.join(" "))).expect("a set")
    };
    assert_eq!(of("dom.skydns.local.", "A"), (30, "192.0.2.1 192.0.2.2 192.0.2.4".into()));
    assert_eq!(of("dom.skydns.local.", "MX"), (30, "10 dom.skydns.local.".into()));
    assert_eq!(of("sub.dom.skydns.local.", "A"), (300, "192.0.2.3 192.0.2.4".into()));
}

#[test]
fn alias_is_a_cname_where_it_can_be_one() {
    let (sets, notes) = run(
        Layout::SkyDns,
        "skydns.local",
        &[
            ("/skydns/local/skydns/a", r#"{"host":"www.example.org"}"#),
            ("/skydns/local/skydns/b", r#"{"host":"www.example.org","port":443}"#),
            ("/skydns/local/skydns/c", r#"{"host":"x.c.skydns.local"}"#),
        ],
    );
    assert!(sets.contains(&"a.skydns.local. 300 CNAME www.example.org.".to_owned()), "{sets:?}");
    assert!(sets.contains(&"b.skydns.local. 300 SRV 10 100 443 www.example.org.".to_owned()));
    let reasons = notes.iter().map(|note| note.split_once(": ").expect("a key").1);
    let reasons: Vec<_> = reasons.collect();
    assert!(reasons[0].starts_with("note: the names above it"), "{notes:?}");
    assert!(reasons[1].starts_with("lost: is an SRV record only"), "{notes:?}");
    assert!(reasons[2].starts_with("lost: leads back"), "{notes:?}");
}

#[test]
fn reverse_zone_has_ptr_records_and_name_servers_are_at_the_apex() {
    let (sets, _) = run(
        Layout::SkyDns,
        "2.0.192.in-addr.arpa",
        &[("/skydns/arpa/in-addr/192/0/2/1", r#"{"host":"h1.example.org"}"#)],
    );
    assert!(sets.contains(&"1.2.0.192.in-addr.arpa. 300 PTR h1.example.org.".to_owned()));
    let (sets, _) = run(
        Layout::SkyDns,
        "skydns.local",
        &[("/skydns/local/skydns/dns/ns/n1", r#"{"host":"192.0.2.53"}"#)],
    );
    assert!(sets.contains(&"skydns.local. 300 NS n1.ns.dns.skydns.local.".to_owned()), "{sets:?}");
}

#[test]
fn what_cannot_be_a_record_is_reported_with_its_key() {
    let (sets, notes) = run(
        Layout::SkyDns,
        "skydns.local",
        &[
            ("/skydns/local/skydns/a.b", r#"{"host":"192.0.2.1"}"#),
            ("/skydns/local/skydns/BIG", r#"{"host":"192.0.2.1"}"#),
            ("/skydns/local/skydns/bad", "{"),
            ("/skydns/local/skydns/none", r#"{"ttl":5}"#),
            ("/skydns/local/skydns//x", r#"{"host":"192.0.2.1"}"#),
        ],
    );
    assert_eq!((sets.len(), notes.len()), (0, 5), "{sets:?} {notes:?}");
    for (note, word) in notes.iter().zip(["has a dot", "capital", "JSON", "is no name", "neither"])
    {
        assert!(note.contains(word), "{note}: {word}");
    }
}

#[test]
fn containerdns_and_kdns_name_each_record_by_the_last_part() {
    let (sets, notes) = run(
        Layout::ContainerDns,
        "containerdns.local",
        &[
            (
                "/containerdns/local/containerdns/svc/ns1/web/1f/",
                r#"{"type":"A","host":"192.0.2.1","ttl":30}"#,
            ),
            (
                "/containerdns/local/containerdns/svc/ns1/web/2f/",
                r#"{"type":"A","host":"192.0.2.2","ttl":30}"#,
            ),
            (
                "/containerdns/local/containerdns/db/3f/",
                r#"{"type":"SRV","host":"192.0.2.3","port":5432,"priority":1,"weight":2}"#,
            ),
            (
                "/containerdns/local/containerdns/alias/",
                r#"{"type":"CNAME","host":"web.ns1.svc.containerdns.local"}"#,
            ),
            (
                "/containerdns/local/containerdns/dns/mail/1/",
                r#"{"type":"MX","host":"m.example.org","priority":5}"#,
            ),
            ("/containerdns/local/containerdns/dns/txt/1/", r#"{"type":"TXT","text":"hi"}"#),
            ("/containerdns/monitor/status/192.0.2.1", r#"{"status":"UP"}"#),
        ],
    );
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(
        sets,
        [
            "containerdns.local. 300 MX 5 m.example.org.",
            "containerdns.local. 300 TXT \"hi\"",
            "alias.containerdns.local. 300 CNAME web.ns1.svc.containerdns.local.",
            "db.containerdns.local. 300 SRV 1 2 5432 3f.db.containerdns.local.",
            "3f.db.containerdns.local. 300 A 192.0.2.3",
            "web.ns1.svc.containerdns.local. 30 A 192.0.2.1,192.0.2.2",
        ]
    );
    let (sets, notes) = run(
        Layout::Kdns,
        "example.org",
        &[
            ("/kdns/org/example/www/1/", r#"{"type":"A","host":"192.0.2.1","lbWeight":3}"#),
            (
                "/kdns/org/example/www/2/",
                r#"{"type":"A","host":"192.0.2.2","lbWeight":1,"viewName":"no_info"}"#,
            ),
            ("/kdns/org/example/www/3/", r#"{"type":"A","host":"192.0.2.3","viewName":"gz"}"#),
        ],
    );
    assert_eq!(sets, ["www.example.org. 300 A 192.0.2.1*3,192.0.2.2*1"]);
    assert!(notes[0].contains("the view \"gz\""), "{notes:?}");
}

#[test]
fn lb_mode_of_kdns_is_a_policy() {
    let key = |name: &str, number: u8, fields: &str| {
        let address = format!(r#"{{"type":"A","host":"192.0.2.{number}",{fields}}}"#);
        (format!("/kdns/org/example/{name}/{number}/"), address)
    };
    let keys = [
        key("all", 1, r#""lbMode":0,"lbWeight":9"#),
        key("one", 1, r#""lbMode":1"#),
        key("one", 2, r#""lbMode":1"#),
        key("weighted", 1, r#""lbMode":2,"lbWeight":3"#),
        key("weighted", 2, r#""lbMode":2,"lbWeight":1"#),
        key("hash", 1, r#""lbMode":3,"lbWeight":5"#),
        key("other", 1, r#""lbMode":7"#),
        key("mixed", 1, r#""lbMode":1"#),
        key("mixed", 2, r#""lbMode":3"#),
    ];
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (&**key, &**value)).collect();
    let (sets, notes) = run(Layout::Kdns, "example.org", &keys);
    assert_eq!(
        sets,
        [
            "all.example.org. 300 A 192.0.2.1",
            "hash.example.org. 300 A 192.0.2.1hash",
            "mixed.example.org. 300 A 192.0.2.1,192.0.2.2one",
            "one.example.org. 300 A 192.0.2.1,192.0.2.2one",
            "other.example.org. 300 A 192.0.2.1",
            "weighted.example.org. 300 A 192.0.2.1*3,192.0.2.2*1",
        ]
    );
    let [mixed, other] = &notes[..] else { panic!("{notes:?}") };
    assert!(mixed.starts_with("/kdns/org/example/mixed/2/: note: its lbMode"), "{mixed}");
    assert!(other.contains("has the policy all"), "{other}");
}
