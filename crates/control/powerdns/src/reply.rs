//! What clients read: the server, zones, record sets.
use model::SetValue;
use serde_json::{Map, Value, json};
use wire::{Name, Rtype};

/// The version that this API is compared with: clients choose by it what they send.
pub const VERSION: &str = "4.7.3";

const BASE: &str = "/api/v1/servers/localhost";

/// The answer to `GET /api`.
pub fn versions_body() -> Value {
    json!([{ "url": "/api/v1", "version": 1 }])
}

/// The only server.
pub fn server_body() -> Value {
    json!({
        "type": "Server",
        "id": "localhost",
        "daemon_type": "authoritative",
        "version": VERSION,
        "url": BASE,
        "config_url": format!("{BASE}/config{{/config_setting}}"),
        "zones_url": format!("{BASE}/zones{{/zone}}"),
        "autoprimaries_url": format!("{BASE}/autoprimaries{{/autoprimary}}"),
    })
}

/// A zone in the list of zones. `is_short`: without what only signed zones have, as with
/// `?dnssec=false`.
pub fn zones_head(origin: Name<'_>, serial: u32, is_short: bool) -> Map<String, Value> {
    let name = origin.to_string();
    let url = format!("{BASE}/zones/{}", path_of(&name));
    let mut head = Map::new();
    for (key, value) in [
        ("account", Value::from("")),
        ("catalog", "".into()),
        ("dnssec", false.into()),
        ("id", path_of(&name).into()),
        ("kind", "Native".into()),
        ("last_check", 0.into()),
        ("masters", json!([])),
        ("name", name.into()),
        ("notified_serial", 0.into()),
        ("serial", serial.into()),
        ("url", url.into()),
    ] {
        head.insert(key.to_owned(), value);
    }
    if !is_short {
        head.insert("edited_serial".to_owned(), serial.into());
    }
    head
}

/// A zone without its record sets.
pub fn zone_head(origin: Name<'_>, serial: u32) -> Map<String, Value> {
    let mut head = zones_head(origin, serial, false);
    for (key, value) in [
        ("api_rectify", Value::from(false)),
        ("master_tsig_key_ids", json!([])),
        ("nsec3narrow", false.into()),
        ("nsec3param", "".into()),
        ("slave_tsig_key_ids", json!([])),
        ("soa_edit", "".into()),
        ("soa_edit_api", "DEFAULT".into()),
    ] {
        head.insert(key.to_owned(), value);
    }
    head
}

/// A name in a path: all but letters, digits, `.`, `-` and `_` as `=2F`.
fn path_of(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            _ if name == "." => path.push_str("=2E"),
            b'.' | b'-' | b'_' => path.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => path.push(byte.into()),
            _ => path.push_str(&format!("={byte:02X}")),
        }
    }
    path
}

/// A record set.
pub fn set_body(name: Name<'_>, rtype: Rtype, value: &SetValue) -> Value {
    let contents = value.data.iter().map(|data| zonefile::data_text(rtype, data));
    let records: Vec<_> =
        contents.map(|content| json!({ "content": content, "disabled": false })).collect();
    let comments = match value.policy.comment() {
        "" => json!([]),
        comment => json!([{ "account": "", "content": comment, "modified_at": 0 }]),
    };
    json!({
        "comments": comments,
        "name": name.to_string().to_ascii_lowercase(),
        "records": records,
        "ttl": value.ttl,
        "type": rtype.to_string(),
    })
}
