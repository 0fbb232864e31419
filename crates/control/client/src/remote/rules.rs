//! The rules of a record set: its policy, check, members and comment, in JSON and as text.
use command_line::{plain, utc};
use serde_json::{Map, Value};

/// The fields of a set with rules, as the API has them.
const RULES: [&str; 8] = ["policy", "then", "max", "check", "min_up", "fail", "members", "comment"];

/// The rules of a set in JSON, without those that have their default.
pub fn rules_of(set: &Value) -> Map<String, Value> {
    let is_default = |key: &str, value: &Value| {
        value.is_null() || key == "policy" && value == "all" || key == "fail" && value == "open"
    };
    let field = |key: &&str| Some(((*key).to_owned(), set.get(*key)?.clone()));
    RULES.iter().filter_map(field).filter(|(key, value)| !is_default(key, value)).collect()
}

/// The rules as text, such as `policy failover, check web, 192.0.2.1 tier 1, comment "rack 7"`.
pub fn text(rules: &Map<String, Value>) -> String {
    let mut words = choice(rules);
    let members = rules.get("members").and_then(Value::as_array);
    words.extend(members.into_iter().flatten().filter_map(|member| {
        let data = plain(member["data"].as_str().unwrap_or_default());
        let words = member_words(member);
        (!words.is_empty()).then(|| format!("{data} {}", words.join(" ")))
    }));
    words.extend(comment(rules).map(|comment| format!("comment \"{comment}\"")));
    words.join(", ")
}

/// What follows the data of a set's record of this number in a table, such as
/// ` ; tier 1, check web ; rack 7`: the rules of the set are at its first record.
pub fn note(rules: &Map<String, Value>, number: usize) -> String {
    let member = rules.get("members").and_then(|members| members.get(number));
    let mut words = member.map(member_words).unwrap_or_default();
    if number == 0 {
        words.extend(choice(rules));
    }
    let words = words.join(", ");
    let comment = comment(rules).filter(|_| number == 0).unwrap_or_default();
    let parts = [words, comment].into_iter().filter(|part| !part.is_empty());
    parts.map(|part| format!(" ; {part}")).collect()
}

/// The rules that choose among the members, without those of each.
fn choice(rules: &Map<String, Value>) -> Vec<String> {
    let is_choice = |key: &&&str| !matches!(**key, "members" | "comment");
    let word = |key: &&str| {
        let value = rules.get(*key)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{key} {}", plain(&value)))
    };
    RULES.iter().filter(is_choice).filter_map(word).collect()
}

fn comment(rules: &Map<String, Value>) -> Option<String> {
    rules.get("comment").and_then(Value::as_str).map(plain)
}

/// What the rules say of a member: its tier, if it is not 0, its weight and its location.
fn member_words(member: &Value) -> Vec<String> {
    let tier = member["tier"].as_u64().filter(|tier| *tier > 0).map(|tier| format!("tier {tier}"));
    let weight = weight_words(&member["weight"]);
    let location = member["location"].as_str().map(|path| format!("location {}", plain(path)));
    [tier, weight, location].into_iter().flatten().collect()
}

/// `weight 9`, or for one that changes over time `weight 55 of 105 at 2026-11-28 06:00:00 UTC`.
fn weight_words(weight: &Value) -> Option<String> {
    if let Some(weight) = weight.as_u64() {
        return Some(format!("weight {weight}"));
    }
    let (to, end) = (weight["to"].as_u64()?, weight["end_seconds"].as_f64().map(utc));
    let now = weight["now"].as_u64().or(weight["from"].as_u64()).unwrap_or_default();
    let at = end.map_or_else(String::new, |end| format!(" at {end}"));
    Some(format!("weight {now} of {to}{at}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_text_without_control_characters() {
        let set = json!({
            "ttl": 60, "policy": "failover", "max": 2, "check": "web", "min_up": "50%",
            "fail": "closed", "comment": "rack\u{1b} 7",
            "members": [{ "data": "192.0.2.1" }, { "data": "192.0.2.2", "tier": 1 }],
        });
        let rules = rules_of(&set);
        let choice = "policy failover, max 2, check web, min_up 50%, fail closed";
        assert_eq!(text(&rules), format!("{choice}, 192.0.2.2 tier 1, comment \"rack\u{fffd} 7\""));
        assert_eq!(note(&rules, 0), format!(" ; {choice} ; rack\u{fffd} 7"));
        assert_eq!((note(&rules, 1), note(&rules, 2)), (" ; tier 1".into(), String::new()));
        let set = json!({
            "policy": "nearest", "then": "hash", "members": [
                { "data": "192.0.2.1", "tier": 0, "weight": 0, "location": "eu" },
                { "data": "192.0.2.2", "tier": 0, "weight": 5 },
                { "data": "192.0.2.3", "weight": { "from": 5, "to": 105, "start_seconds": 0,
                  "end_seconds": 600, "now": 55 } },
            ],
        });
        let rules = rules_of(&set);
        let members = "192.0.2.1 weight 0 location eu, 192.0.2.2 weight 5, 192.0.2.3 weight 55 \
                       of 105 at 1970-01-01 00:10:00 UTC";
        assert_eq!(text(&rules), format!("policy nearest, then hash, {members}"));
        assert_eq!(note(&rules, 1), " ; weight 5");
        let plain = rules_of(&json!({ "policy": "all", "fail": "open", "comment": null }));
        assert!(plain.is_empty() && note(&plain, 0).is_empty());
    }
}
