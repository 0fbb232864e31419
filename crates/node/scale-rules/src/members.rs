//! Reads the members of one JSON object, by the rules of a dialect.
use crate::json::Json;
use crate::limits::{NUMBER_MAX, RATIO_MIN};
use command_line::nearest;
use std::error::Error;
use std::fmt;

/// How strictly parameters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Unknown keys, keys that occur twice and ladders that end at 0 replicas are errors.
    Strict,
    /// Keys are read as the cluster-proportional-autoscaler reads them; ladders that are empty or
    /// end at 0 replicas are errors.
    Lenient,
    /// As the cluster-proportional-autoscaler, including its known problems.
    Cpa,
}

impl Dialect {
    pub(crate) const fn is_strict(self) -> bool {
        matches!(self, Self::Strict)
    }
}

/// Why parameters are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsError {
    /// Where, such as `linear.coresPerReplica`.
    pub at: String,
    /// What is wrong, and what is expected.
    pub text: String,
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.text),
            at => write!(f, "{at}: {}", self.text),
        }
    }
}

impl Error for ParamsError {}

/// An object whose members are taken one by one.
pub struct Members {
    /// Where the object is, such as `linear`.
    at: String,
    dialect: Dialect,
    members: Vec<(String, Json)>,
}

impl Members {
    /// Strict objects have no other key than `known`, and each once.
    pub fn new(
        at: &str,
        value: Json,
        dialect: Dialect,
        known: &[&str],
    ) -> Result<Self, ParamsError> {
        let members = match value {
            Json::Object(members) => members,
            Json::Null if !dialect.is_strict() => Vec::new(),
            other => return Err(wrong(at, &format!("expected an object, not {}", other.kind()))),
        };
        for (index, (key, _)) in members.iter().enumerate().filter(|_| dialect.is_strict()) {
            let text = if !known.contains(&key.as_str()) {
                match nearest(key, known) {
                    Some(known) => format!("unknown key; did you mean {known}?"),
                    None => format!("unknown key; known are {}", known.join(", ")),
                }
            } else if members[..index].iter().any(|(other, _)| other == key) {
                "the key occurs twice; keep one".into()
            } else {
                continue;
            };
            return Err(wrong(&format!("{at}.{key}"), &text));
        }
        Ok(Self { at: at.to_owned(), dialect, members })
    }

    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The place of a key, for errors.
    pub fn place(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }

    /// The value of a key; the last of equal keys, as Go takes it.
    pub fn take(&mut self, key: &str) -> Option<Json> {
        let is_strict = self.dialect.is_strict();
        let is_key =
            |name: &str| if is_strict { name == key } else { name.eq_ignore_ascii_case(key) };
        let mut found = None;
        self.members.retain(|(name, value)| {
            let is_it = is_key(name);
            if is_it {
                found = Some(value.clone());
            }
            !is_it
        });
        found.filter(|value| is_strict || *value != Json::Null)
    }

    pub fn float(&mut self, key: &str) -> Result<Option<f64>, ParamsError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let number = match &value {
            Json::Number(number) => number.as_f64(),
            _ => None,
        };
        let expected =
            || wrong(&self.place(key), &format!("expected a number, not {}", value.kind()));
        number.map(Some).ok_or_else(expected)
    }

    /// A positive number within the bounds of strict parameters.
    pub fn ratio(&mut self, key: &str) -> Result<Option<f64>, ParamsError> {
        let Some(number) = self.float(key)? else { return Ok(None) };
        let is_right = (RATIO_MIN..=NUMBER_MAX).contains(&number);
        let text = format!("{number:e} is outside of {RATIO_MIN} to {NUMBER_MAX:.0}");
        is_right.then_some(Some(number)).ok_or_else(|| wrong(&self.place(key), &text))
    }

    pub fn int(&mut self, key: &str) -> Result<Option<i64>, ParamsError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        integer(&value).map(Some).ok_or_else(|| {
            wrong(&self.place(key), &format!("expected a whole number, not {}", shown(&value)))
        })
    }

    /// A whole number from `least` to the bound of strict parameters.
    pub fn whole(&mut self, key: &str, least: u32) -> Result<Option<u32>, ParamsError> {
        let Some(number) = self.int(key)? else { return Ok(None) };
        let fits = u32::try_from(number).ok();
        let fits = fits.filter(|fits| *fits >= least && f64::from(*fits) <= NUMBER_MAX);
        let text = format!("{number} is outside of {least} to {NUMBER_MAX:.0}");
        fits.map(Some).ok_or_else(|| wrong(&self.place(key), &text))
    }

    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, ParamsError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(value)),
            Some(other) => {
                let text = format!("expected true or false, not {}", other.kind());
                Err(wrong(&self.place(key), &text))
            }
        }
    }

    pub fn text(&mut self, key: &str) -> Result<Option<String>, ParamsError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Text(value)) => Ok(Some(value)),
            Some(other) => {
                Err(wrong(&self.place(key), &format!("expected a string, not {}", other.kind())))
            }
        }
    }
}

/// An integer as Go decodes it: `1.0` and `1e2` are none.
pub fn integer(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::Number(number) => number.to_string(),
        other => other.kind().to_owned(),
    }
}

pub fn wrong(at: &str, text: &str) -> ParamsError {
    ParamsError { at: at.to_owned(), text: text.to_owned() }
}
