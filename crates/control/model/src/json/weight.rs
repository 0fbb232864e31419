//! The weight of a member in JSON: a number, or how it changes over time.
use super::InvalidField;
use crate::{BrokenRule, MemberBody, RAMP_SECONDS_MAX, WEIGHT_DEFAULT, WeightRamp};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The weight of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum WeightBody {
    /// A number, up to 65535.
    Fixed(u32),
    /// One that changes over time.
    Ramp(RampBody),
}

/// A weight that changes over time: by steps of a hundredth, or of a second if these are longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "to": 100, "over": "10m" }))]
pub struct RampBody {
    /// The weight at the start; absent: the one that the member has, and 0 if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 65535)]
    pub from: Option<u32>,
    /// The weight at the end.
    #[schema(maximum = 65535)]
    pub to: u32,
    /// How long it takes from now on: a number with s, m, h or d, up to 30 days. Not with
    /// `start_seconds` and `end_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// When it starts, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_seconds: Option<u64>,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_seconds: Option<u64>,
    /// The weight when the set was read. It is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 65535)]
    pub now: Option<u32>,
}

/// The place of an error is that of a field of the object, which an untagged form would not tell.
impl<'de> Deserialize<'de> for WeightBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = WeightBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a weight, or an object with `to` and `over`")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<WeightBody, E> {
                Ok(WeightBody::Fixed(u32::try_from(number).unwrap_or(u32::MAX)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WeightBody, A::Error> {
                RampBody::deserialize(MapAccessDeserializer::new(map)).map(WeightBody::Ramp)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl MemberBody {
    /// Adds the weight at a time, in seconds since 1970, to one that changes.
    pub fn show_weight(&mut self, now: u64) {
        let weight = read(self.weight.as_ref(), "weight");
        if let (Some(WeightBody::Ramp(body)), Ok((to, Some(ramp)))) = (&mut self.weight, weight) {
            body.now = Some(ramp.weight(to, now).into());
        }
    }
}

/// The weight at the end, and how it becomes that.
pub(super) fn read(
    body: Option<&WeightBody>,
    place: &str,
) -> Result<(u16, Option<WeightRamp>), InvalidField> {
    let number = |number: u32, place: &str| {
        u16::try_from(number).map_err(|_| {
            let what = format!("is {number}, and the most is {}", u16::MAX);
            InvalidField::new(place, BrokenRule::SET_RULES, what)
        })
    };
    let ramp = match body {
        None => return Ok((WEIGHT_DEFAULT, None)),
        Some(WeightBody::Fixed(weight)) => return Ok((number(*weight, place)?, None)),
        Some(WeightBody::Ramp(ramp)) => ramp,
    };
    let to = number(ramp.to, &format!("{place}.to"))?;
    let from = ramp.from.map(|from| number(from, &format!("{place}.from"))).transpose()?;
    let (start, over) = read_times(ramp, place)?;
    Ok((to, Some(WeightRamp { from, start, over })))
}

fn read_times(ramp: &RampBody, place: &str) -> Result<(Option<u64>, u32), InvalidField> {
    let broken = |field: &str, what: &str| {
        Err(InvalidField::new(format!("{place}{field}"), BrokenRule::SET_RULES, what))
    };
    let is_allowed = |seconds: &u32| (1..=RAMP_SECONDS_MAX).contains(seconds);
    match (&ramp.over, ramp.start_seconds, ramp.end_seconds) {
        (Some(over), None, None) => match seconds(over).filter(is_allowed) {
            Some(over) => Ok((None, over)),
            None => broken(".over", "is a time from 1s to 30d: a number with s, m, h or d"),
        },
        (None, Some(start), Some(end)) => {
            let over = end.checked_sub(start).and_then(|over| u32::try_from(over).ok());
            match over.filter(is_allowed) {
                Some(over) => Ok((Some(start), over)),
                None => broken(".end_seconds", "is 1 to 2592000 seconds (30d) after the start"),
            }
        }
        (None, None, None) => broken(".over", "is missing: how long the change takes"),
        _ => broken("", "has either `over`, or `start_seconds` and `end_seconds`"),
    }
}

/// A number with a unit.
fn seconds(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(unit)
}

pub(super) fn write(weight: u16, ramp: Option<WeightRamp>) -> WeightBody {
    let Some(ramp) = ramp else { return WeightBody::Fixed(weight.into()) };
    WeightBody::Ramp(RampBody {
        from: ramp.from.map(u32::from),
        to: weight.into(),
        over: None,
        start_seconds: Some(ramp.start()),
        end_seconds: Some(ramp.end()),
        now: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ValueBody, read_value, write_value};
    use serde_json::{Value, json};
    use wire::Rtype;

    fn body(policy: &str, weight: &Value) -> Result<ValueBody, serde_json::Error> {
        serde_json::from_value(json!({ "ttl": 5, "policy": policy, "members": [
            { "data": "192.0.2.1", "weight": 9 }, { "data": "192.0.2.2", "weight": weight },
        ] }))
    }

    #[test]
    fn stored_change_is_written_as_it_is_read_and_shown_with_its_weight() {
        let stored = json!({ "from": 5, "to": 105, "start_seconds": 1_000, "end_seconds": 1_600 });
        let value = read_value(&body("weighted", &stored).unwrap(), Rtype::A, "").unwrap();
        let mut told = write_value(Rtype::A, &value);
        let members = told.members.as_mut().expect("members");
        assert_eq!(serde_json::to_value(&members[1].weight).unwrap(), stored);
        members.iter_mut().for_each(|member| member.show_weight(1_300));
        let shown = serde_json::to_value(&members[1].weight).unwrap();
        assert_eq!(shown["now"], 55);
        assert_eq!(members[0].weight, Some(WeightBody::Fixed(9)));
        let again = read_value(&body("weighted", &shown).unwrap(), Rtype::A, "").unwrap();
        assert_eq!(again, value, "what is shown can be written back");
        let packed = value.policy.pack();
        assert_eq!(crate::Policy::unpack(&packed), Some(value.policy));
        for len in 1..packed.len() {
            assert_eq!(crate::Policy::unpack(&packed[..len]), None, "{len}");
        }
    }

    #[test]
    fn wrong_change_is_refused_with_its_place() {
        for (weight, field) in [
            (json!(70_000), ""),
            (json!({ "to": 65_536, "over": "10m" }), ".to"),
            (json!({ "from": 65_536, "to": 1, "over": "10m" }), ".from"),
            (json!({ "to": 1, "over": "0s" }), ".over"),
            (json!({ "to": 1, "over": "31d" }), ".over"),
            (json!({ "to": 1, "over": "10" }), ".over"),
            (json!({ "to": 1, "over": "soon" }), ".over"),
            (json!({ "to": 1 }), ".over"),
            (json!({ "to": 1, "over": "1h", "start_seconds": 5 }), ""),
            (json!({ "to": 1, "start_seconds": 5, "end_seconds": 5 }), ".end_seconds"),
            (json!({ "to": 1, "start_seconds": 5, "end_seconds": 9_999_999 }), ".end_seconds"),
        ] {
            let told = read_value(&body("weighted", &weight).unwrap(), Rtype::A, "").unwrap_err();
            assert_eq!(told.field, format!("members[1].weight{field}"), "{weight}");
        }
        for (weight, what) in [
            (json!({ "to": 1, "over": "1h", "form": 2 }), "unknown field `form`"),
            (json!({ "over": "1h" }), "missing field `to`"),
            (json!("9"), "a weight, or an object"),
            (json!(-1), "a weight, or an object"),
        ] {
            let told = body("weighted", &weight).unwrap_err().to_string();
            assert!(told.contains(what), "{told}");
        }
    }

    #[test]
    fn policy_without_weights_refuses_a_change() {
        let ramp = json!({ "to": 100, "over": "10m" });
        for policy in ["all", "one", "failover", "nearest"] {
            let told = read_value(&body(policy, &ramp).unwrap(), Rtype::A, "x.").unwrap_err();
            assert_eq!(told.field, "x.members[1].weight");
            assert!(told.what.contains("the policy `weighted` or `hash`"), "{told}");
        }
        for policy in ["weighted", "hash"] {
            read_value(&body(policy, &ramp).unwrap(), Rtype::A, "").expect(policy);
        }
    }
}
