//! Files of MaxMind's form, which tests write themselves: the data of others cannot be shipped.
use std::net::IpAddr;

/// A value of a record.
#[derive(Clone, Debug)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number of 16 bits.
    U16(u16),
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
    /// Values by their keys.
    Map(Vec<(&'static str, Value)>),
    /// Values in their order.
    List(Vec<Value>),
}

/// What a slot of the tree leads to.
#[derive(Clone, Copy)]
enum Slot {
    Nothing,
    Node(usize),
    /// An offset in the data.
    Data(usize),
}

const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// Bytes between the tree and the data.
const GAP_LEN: usize = 16;

/// A location as city and country files have it.
pub fn place(continent: &str, country: Option<&str>, region: Option<&str>) -> Value {
    let code = |key, code: &str| Value::Map(vec![(key, Value::Text(code.to_owned()))]);
    let mut all = vec![("continent", code("code", continent))];
    all.extend(country.map(|country| ("country", code("iso_code", country))));
    let list = |region| Value::List(vec![code("iso_code", region)]);
    all.extend(region.map(|region| ("subdivisions", list(region))));
    Value::Map(all)
}

/// An autonomous system.
pub fn system(number: u32) -> Value {
    Value::Map(vec![("autonomous_system_number", Value::U32(number))])
}

/// A file with these prefixes, none of which has another one in it.
pub fn file(records: &[(&str, Value)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[Slot::Nothing; 2]], Vec::new());
    for (prefix, value) in records {
        let (address, len) = prefix.split_once('/').expect("a length");
        let len: usize = len.parse().expect("a number");
        // IPv4 is in ::/96.
        let (bits, len) = match address.parse().expect("an address") {
            IpAddr::V4(v4) => (v4.to_bits().into(), 96 + len),
            IpAddr::V6(v6) => (v6.to_bits(), len),
        };
        let offset = data.len();
        put(&mut data, value);
        insert(&mut nodes, bits, len, Slot::Data(offset));
    }
    let count = nodes.len();
    let mut bytes = Vec::new();
    for slot in nodes.iter().flatten() {
        let number = match slot {
            Slot::Nothing => count,
            Slot::Node(node) => *node,
            Slot::Data(offset) => count + GAP_LEN + offset,
        };
        bytes.extend(&(number as u32).to_be_bytes()[1..]);
    }
    bytes.extend([0; GAP_LEN]);
    bytes.extend(data);
    bytes.extend(MARKER);
    let metadata = vec![
        ("binary_format_major_version", Value::U16(2)),
        ("binary_format_minor_version", Value::U16(0)),
        ("build_epoch", Value::U64(1_700_000_000)),
        ("database_type", Value::Text("Test".to_owned())),
        ("description", Value::Map(Vec::new())),
        ("ip_version", Value::U16(6)),
        ("languages", Value::List(Vec::new())),
        ("node_count", Value::U32(count as u32)),
        ("record_size", Value::U16(24)),
    ];
    put(&mut bytes, &Value::Map(metadata));
    bytes
}

fn insert(nodes: &mut Vec<[Slot; 2]>, bits: u128, len: usize, leaf: Slot) {
    let mut node = 0;
    for depth in 0..len {
        let side = (bits >> (127 - depth) & 1) as usize;
        if depth + 1 == len {
            nodes[node][side] = leaf;
            return;
        }
        node = match nodes[node][side] {
            Slot::Node(next) => next,
            _ => {
                nodes.push([Slot::Nothing; 2]);
                let next = nodes.len() - 1;
                nodes[node][side] = Slot::Node(next);
                next
            }
        };
    }
}

fn put(out: &mut Vec<u8>, value: &Value) {
    let number = |out: &mut Vec<u8>, kind: u8, bytes: &[u8]| {
        head(out, kind, bytes.len());
        out.extend(bytes);
    };
    match value {
        Value::Text(text) => {
            head(out, 2, text.len());
            out.extend(text.as_bytes());
        }
        Value::U16(value) => number(out, 5, &value.to_be_bytes()),
        Value::U32(value) => number(out, 6, &value.to_be_bytes()),
        Value::U64(value) => number(out, 9, &value.to_be_bytes()),
        Value::Map(entries) => {
            head(out, 7, entries.len());
            for (key, value) in entries {
                put(out, &Value::Text((*key).to_owned()));
                put(out, value);
            }
        }
        Value::List(values) => {
            head(out, 11, values.len());
            values.iter().for_each(|value| put(out, value));
        }
    }
}

/// The type and the length of a value. Types above 7 are in a byte of their own.
fn head(out: &mut Vec<u8>, kind: u8, len: usize) {
    let (short, more) = match len {
        0..29 => (len as u8, None),
        _ => (29, Some((len - 29) as u8)),
    };
    match kind {
        1..8 => out.push(kind << 5 | short),
        _ => out.extend([short, kind - 7]),
    }
    out.extend(more);
}
