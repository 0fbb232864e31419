//! The TOML of an imported config.
use std::fmt::Write;

/// A TOML string.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                let number = u32::from(character);
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{number:04X}");
            }
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

/// A TOML array of strings.
#[must_use]
pub fn array(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// A TOML string of a time, in the largest unit that has it.
#[must_use]
pub fn seconds(seconds: u64) -> String {
    quote(&match seconds {
        0 => "0s".to_owned(),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    })
}

/// TOML in the making.
#[derive(Debug, Default)]
pub struct TomlText(String);

impl TomlText {
    /// Appends a section with its keys that have a value.
    pub fn section(&mut self, head: &str, keys: &[(&str, Option<String>)]) {
        let lines: Vec<String> = keys
            .iter()
            .filter_map(|(key, value)| value.as_ref().map(|value| format!("{key} = {value}\n")))
            .collect();
        if !lines.is_empty() {
            let blank = if self.0.is_empty() { "" } else { "\n" };
            self.0 += &format!("{blank}{head}\n{}", lines.concat());
        }
    }

    /// The TOML.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_cannot_end_the_string() {
        assert_eq!(quote("a\"b\\c\nd\u{7f}"), "\"a\\\"b\\\\c\\u000Ad\\u007F\"");
    }
}
