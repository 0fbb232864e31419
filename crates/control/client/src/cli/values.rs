//! Values of arguments.
use serde_json::{Value, json};

/// Reads a tier and an address of it.
pub(super) fn read_tier(text: &str) -> Result<(u8, String), String> {
    let tier = text.split_once('=');
    let tier = tier.and_then(|(tier, data)| Some((tier.parse().ok()?, data.to_owned())));
    tier.ok_or_else(|| "write a tier from 0 to 255 and an address: 1=192.0.2.1".to_owned())
}

/// Reads a weight, or how it changes over time, and the data of a member.
pub(super) fn read_weight(text: &str) -> Result<(Value, String), String> {
    let weight = text.split_once('=');
    let weight = weight.and_then(|(weight, data)| Some((weight_json(weight)?, data.to_owned())));
    weight.ok_or_else(|| {
        "write a weight from 0 to 65535 and an address: 10=192.0.2.1, or with the time that the \
         change takes: 10/5m=192.0.2.1, 0..10/5m=192.0.2.1"
            .to_owned()
    })
}

/// `10`, `10/5m` or `0..10/5m` as the API has it.
fn weight_json(text: &str) -> Option<Value> {
    let number = |text: &str| text.parse::<u16>().ok();
    let Some((weights, over)) = text.split_once('/') else { return Some(json!(number(text)?)) };
    Some(match weights.split_once("..") {
        Some((from, to)) => json!({ "from": number(from)?, "to": number(to)?, "over": over }),
        None => json!({ "to": number(weights)?, "over": over }),
    })
}

/// Reads a location and the data of a member.
pub(super) fn read_location(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(path, data)| (path.to_owned(), data.to_owned()));
    pair.ok_or_else(|| "write a location and an address: eu/fra1=192.0.2.1".to_owned())
}

/// Reads a time in seconds, or with a unit as in a zone file. At most 2³¹ − 1 seconds, as TTLs
/// (RFC 2181 §8).
pub(super) fn read_seconds(text: &str) -> Result<u32, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds: Option<u32> = match unit {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        "w" => Some(604_800),
        _ => None,
    };
    let ttl = seconds.and_then(|unit| number.parse::<u32>().ok()?.checked_mul(unit));
    ttl.filter(|ttl| *ttl <= i32::MAX as u32).ok_or_else(|| {
        "expected seconds, or a number with s, m, h, d or w, up to 2147483647 seconds".to_owned()
    })
}

/// Reads a lifetime. It has a unit: a bare number may be meant as seconds or as days.
pub(super) fn read_lifetime(text: &str) -> Result<u32, String> {
    match text.parse::<u64>() {
        Ok(number) => Err(format!(
            "{number} has no unit: write {number}d for days, or a number with s, m, h, d or w"
        )),
        Err(_) => match read_seconds(text) {
            Ok(0) => Err("it would end at once: write a time above 0, such as 90d".into()),
            Ok(seconds) => Ok(seconds),
            Err(_) => Err("expected a number with s, m, h, d or w, such as 90d".into()),
        },
    }
}
