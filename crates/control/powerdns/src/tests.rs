use super::*;
use model::{InvalidField, SetRules, SetValue, WEIGHT_DEFAULT};
use serde_json::{Value, json};
use wire::{NameBuf, Rtype};

fn zone() -> NameBuf {
    zonefile::read_name("example.org.").expect("a name")
}

fn patch(rrsets: Value) -> Result<Vec<SetPatch>, InvalidField> {
    read_patch(&json!({ "rrsets": rrsets }), zone().as_name())
}

fn replace(rtype: &str, contents: &[&str]) -> Value {
    let records: Vec<_> = contents.iter().map(|content| json!({ "content": content })).collect();
    json!({ "name": "www.example.org.", "type": rtype, "changetype": "REPLACE", "ttl": 60,
        "records": records })
}

fn field_of(rrsets: Value) -> String {
    patch(rrsets).expect_err("refused").field
}

#[test]
fn unknown_fields_are_ignored() {
    let mut set = replace("txt", &["\"a\""]);
    set["kind"] = "Master".into();
    set["records"][0]["name"] = "x".into();
    set["records"][0]["disabled"] = false.into();
    let read = patch(json!([set])).expect("valid");
    let kind = PatchKind::Replace { records: Some((60, vec![b"\x01a"[..].into()])), comment: None };
    assert_eq!((read[0].rtype, &read[0].kind), (Rtype::TXT, &kind));
}

#[test]
fn what_is_not_canonical_is_refused_with_its_field() {
    let content = "rrsets[0].records[0].content";
    for (rtype, text) in [
        ("TXT", "bare"),
        ("CNAME", "target.example.net"),
        ("alias", "target.example.net"),
        ("MX", "10 mail"),
        ("SRV", "0 5 80 host"),
        ("SOA", "ns1 admin.example.org. 1 2 3 4 5"),
        ("A", "192.0.2.1 "),
        ("A", "192.0.2"),
    ] {
        assert_eq!(field_of(json!([replace(rtype, &[text])])), content, "{rtype} {text}");
    }
    for (rtype, text) in [
        ("TXT", "\"a. b\" \"c\""),
        ("MX", "10 MAIL.example.org."),
        ("AAAA", "2001:DB8::1"),
        ("MX", "0 ."),
        ("ALIAS", "www.example.org."),
        ("CAA", "0 issue \"ca.example.\""),
        ("TYPE65280", "\\# 1 00"),
    ] {
        patch(json!([replace(rtype, &[text])])).expect(text);
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let refused = patch(json!([replace("LUA", &["x."])])).expect_err("refused");
    assert!(refused.what.contains("policies"), "{refused}");
    for (change, rtype) in [("DELETE", "LUA"), ("replace", "lua")] {
        let set =
            json!({ "name": "example.org.", "type": rtype, "changetype": change, "records": [] });
        assert_eq!(patch(json!([set])), Ok(Vec::new()), "there is nothing to remove");
    }
    let mut set = replace("A", &["192.0.2.1"]);
    set["records"][0]["disabled"] = true.into();
    assert_eq!(field_of(json!([set])), "rrsets[0].records[0].disabled");
    set["records"][0]["disabled"] = "yes".into();
    assert_eq!(field_of(json!([set])), "rrsets[0].records[0].disabled");
}

#[test]
fn fields_of_a_change_are_checked() {
    let set = replace("A", &["192.0.2.1"]);
    let with = |key: &str, value: Value| {
        let mut set = set.clone();
        set[key] = value;
        json!([set])
    };
    for (key, value) in [
        ("name", json!("www.example.org")),
        ("name", json!("www.example.net.")),
        ("name", json!(5)),
        ("type", json!("BAD")),
        ("type", json!("ANY")),
        ("ttl", json!(-1)),
        ("ttl", json!(4_294_967_295_u32)),
        ("ttl", Value::Null),
        ("changetype", json!("UPSERT")),
        ("records", json!({})),
        ("comments", json!([{ "content": "a" }, { "content": "b" }])),
    ] {
        assert_eq!(field_of(with(key, value)), format!("rrsets[0].{key}"));
    }
    patch(with("ttl", json!("60"))).expect("digits are a number");
    patch(with("changetype", json!("EXTEND"))).expect("one record");
    patch(with("changetype", json!("prune"))).expect("one record");
}

#[test]
fn set_is_changed_once_but_a_deletion_may_follow() {
    let set = replace("A", &["192.0.2.1"]);
    let gone = json!({ "name": "WWW.example.org.", "type": "A", "changetype": "DELETE" });
    assert_eq!(field_of(json!([set, set])), "rrsets[1]");
    assert_eq!(field_of(json!([gone, gone])), "rrsets[1]");
    let read = patch(json!([set, gone])).expect("valid");
    assert_eq!((read.len(), &read[0].kind), (1, &PatchKind::Delete));
    let read = patch(json!([gone, set])).expect("valid");
    assert!(matches!(read[0].kind, PatchKind::Replace { .. }));
    assert_eq!(field_of(json!([replace("A", &["192.0.2.1", "192.0.2.1"])])), "rrsets[0].records");
}

#[test]
fn replaced_records_leave_the_rules_of_the_set() {
    let mut value = SetValue::new(5, vec![[1, 1, 1, 1].into(), [2, 2, 2, 2].into()]);
    let rules =
        SetRules { weights: vec![7, 9].into(), comment: "rack".into(), ..SetRules::default() };
    value.policy = model::Policy::new(rules);
    let merged = merge(value.clone(), 9, vec![[3, 3, 3, 3].into(), [2, 2, 2, 2].into()]);
    assert_eq!((merged.ttl, &merged.data[..]), (9, &[[2; 4].into(), [3; 4].into()][..]));
    let rules = merged.policy.rules().expect("rules");
    assert_eq!((rules.weight(0), rules.weight(1), &*rules.comment), (9, WEIGHT_DEFAULT, "rack"));
    let merged = merge(value, 9, vec![[4; 4].into()]);
    assert_eq!(merged.policy.comment(), "rack", "no member stays");
}

#[test]
fn names_in_paths_are_decoded() {
    for id in ["example.org.", "example.org", "EXAMPLE=2Eorg=2E"] {
        assert_eq!(read_zone_id(id).expect(id).to_string(), "example.org.");
    }
    let id =
        zones_head(zonefile::read_name("0/25.2.0.192.in-addr.arpa.").unwrap().as_name(), 7, true);
    assert_eq!(id["id"], "0=2F25.2.0.192.in-addr.arpa.");
    let id = id["id"].as_str().expect("a text");
    assert_eq!(read_zone_id(id).expect(id).to_string(), "0/25.2.0.192.in-addr.arpa.");
    assert_eq!(read_zone_id("=2E").expect("the root").to_string(), ".");
    read_zone_id("a=..b").expect_err("not a name");
}

#[test]
fn new_zone_is_read() {
    let body = json!({ "name": "example.org.", "kind": "Master", "masters": [], "x": 1,
        "nameservers": ["ns1.example.net."], "rrsets": [replace("A", &["192.0.2.1"])] });
    let read = read_new_zone(&body).expect("valid");
    assert_eq!((read.origin, read.edits.len()), (zone(), 2));
    for (key, value, field) in [
        ("name", json!("example.org"), "name"),
        ("kind", Value::Null, "kind"),
        ("kind", json!("Slave"), "kind"),
        ("dnssec", json!(true), "dnssec"),
        ("zone", json!("@ 5 A 192.0.2.1"), "zone"),
        ("nameservers", json!(["ns1"]), "nameservers[0]"),
    ] {
        let mut body = body.clone();
        body[key] = value;
        assert_eq!(read_new_zone(&body).expect_err(field).field, field);
    }
}

#[path = "../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../testing/fuzz/checks/powerdns.rs"]
mod fuzz;

#[test]
fn fuzz_corpus_of_requests_passes() {
    corpus::replay("powerdns", fuzz::check);
    corpus::search("powerdns", fuzz::check);
}
