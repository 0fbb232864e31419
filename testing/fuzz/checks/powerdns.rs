//! What must hold for any body of a request in the form of `PowerDNS`.
use powerdns::{PatchKind, read_new_zone, read_patch, read_zone_id, set_body};
use serde_json::{Value, json};

/// Reads the bytes as changes of a zone, as a new zone, and as the name of a zone. What is read
/// lies in its zone, and its reply is read as the same again.
pub fn check(bytes: &[u8]) {
    if let Ok(id) = std::str::from_utf8(bytes) {
        let _ = read_zone_id(id);
    }
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    let zone = read_zone_id("example.org").expect("a name");
    if let Ok(patches) = read_patch(&body, zone.as_name()) {
        for patch in patches {
            assert!(patch.name.as_name().is_within(zone.as_name()));
            let PatchKind::Replace { records: Some((ttl, data)), .. } = patch.kind else {
                continue;
            };
            if data.is_empty() {
                continue;
            }
            let value = model::SetValue::new(ttl, data.clone());
            let mut told = set_body(patch.name.as_name(), patch.rtype, &value);
            told["changetype"] = "REPLACE".into();
            let again = read_patch(&json!({ "rrsets": [told] }), zone.as_name());
            let again = again.expect("a reply is a valid request").remove(0);
            assert_eq!((again.name, again.rtype), (patch.name, patch.rtype));
            let PatchKind::Replace { records, .. } = again.kind else { panic!("another kind") };
            assert_eq!(records, Some((ttl, data)));
        }
    }
    if let Ok(new) = read_new_zone(&body) {
        assert!(new.edits.iter().all(|edit| edit.name.as_name().is_within(new.origin.as_name())));
    }
}
