//! Parameters of a scaler: what a ConfigMap of the cluster-proportional-autoscaler says, or `load`.
use crate::json::Json;
use crate::limits::PARAMS_BYTES_MAX;
use crate::load::Load;
use crate::members::{Dialect, Members, ParamsError, wrong};
use crate::proportional::{Ladder, Linear};
use crate::rivals::{Eks, Hpa};

/// The parameters of one policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Params {
    /// Replicas in proportion to nodes and cores.
    Linear(Linear),
    /// Replicas by steps of nodes and cores.
    Ladder(Ladder),
    /// Replicas by load and measured capacity.
    Load(Box<Load>),
    /// The rule of EKS, for simulations.
    Eks(Eks),
    /// A horizontal pod autoscaler, for simulations.
    Hpa(Hpa),
}

impl Params {
    /// Parameters of a file: an object with one key, the mode. Its value is an object, or the text
    /// of one as in a ConfigMap.
    ///
    /// # Errors
    /// The text is not JSON, or the parameters are refused.
    pub fn from_file(text: &str, dialect: Dialect) -> Result<Self, ParamsError> {
        let members = match parse("", text)? {
            Json::Object(members) => members,
            other => {
                let text =
                    format!("expected an object such as {{\"linear\": …}}, not {}", other.kind());
                return Err(wrong("", &text));
            }
        };
        let (mode, value) = only(members)?;
        match value {
            Json::Text(text) => Self::from_text(&mode, &text, dialect),
            value => Self::from_json(&mode, value, dialect),
        }
    }

    /// Parameters of a ConfigMap's data.
    ///
    /// # Errors
    /// There is not exactly one key, or its parameters are refused.
    pub fn from_data<'a>(
        data: impl Iterator<Item = (&'a str, &'a str)>,
        dialect: Dialect,
    ) -> Result<Self, ParamsError> {
        let (mode, text) = only(data.collect())?;
        Self::from_text(mode, text, dialect)
    }

    /// Parameters of one mode, of its text.
    ///
    /// # Errors
    /// The text is not JSON, or the parameters are refused.
    pub fn from_text(mode: &str, text: &str, dialect: Dialect) -> Result<Self, ParamsError> {
        check_mode(mode)?;
        Self::from_json(mode, parse(mode, text)?, dialect)
    }

    fn from_json(mode: &str, value: Json, dialect: Dialect) -> Result<Self, ParamsError> {
        check_mode(mode)?;
        let known: &[&str] = match mode {
            "linear" => &Linear::KEYS,
            "ladder" => &Ladder::KEYS,
            "load" => &Load::KEYS,
            "eks" => &Eks::KEYS,
            _ => &Hpa::KEYS,
        };
        let mut members = Members::new(mode, value, dialect, known)?;
        Ok(match mode {
            "linear" => Self::Linear(Linear::read(&mut members)?),
            "ladder" => Self::Ladder(Ladder::read(&mut members)?),
            "load" => Self::Load(Box::new(Load::read(&mut members)?)),
            "eks" => Self::Eks(Eks::read(&mut members)?),
            _ => Self::Hpa(Hpa::read(&mut members)?),
        })
    }

    /// The key in the ConfigMap.
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Ladder(_) => "ladder",
            Self::Load(_) => "load",
            Self::Eks(_) => "eks",
            Self::Hpa(_) => "hpa",
        }
    }
}

fn check_mode(mode: &str) -> Result<(), ParamsError> {
    if ["linear", "ladder", "load", "eks", "hpa"].contains(&mode) {
        return Ok(());
    }
    let guess = match command_line::nearest(mode, &["linear", "ladder", "load"]) {
        Some(known) => format!("did you mean {known}?"),
        None => "expected linear, ladder or load".into(),
    };
    Err(wrong(mode, &format!("unknown mode; {guess}")))
}

/// The one member that parameters have.
fn only<K: AsRef<str>, V>(members: Vec<(K, V)>) -> Result<(K, V), ParamsError> {
    let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
    let text = match keys[..] {
        [_] => return Ok(members.into_iter().next().expect("there is one")),
        [] => "there are no parameters: expected one key, linear, ladder or load".into(),
        _ => format!("expected one key, linear, ladder or load, not {}", keys.join(" and ")),
    };
    Err(wrong("", &text))
}

fn parse(at: &str, text: &str) -> Result<Json, ParamsError> {
    if text.len() > PARAMS_BYTES_MAX {
        let text = format!("{} bytes of parameters, {PARAMS_BYTES_MAX} at most", text.len());
        return Err(wrong(at, &text));
    }
    serde_json::from_str(text).map_err(|error| wrong(at, &format!("this is not JSON: {error}")))
}
