//! Absolute names in text: in requests, arguments and the config.
use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use std::borrow::Cow;
use std::fmt;
use wire::{Name, NameBuf, NameError};

/// Bytes of the longest text of a name, with each byte as `\DDD`.
const TEXT_LEN_MAX: usize = 4 * Name::LEN_MAX;

/// Why a text is not a name. The message continues a sentence that begins with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName {
    /// The fault.
    pub what: String,
    /// How to fix it, if known.
    pub help: Option<&'static str>,
}

impl From<NameError> for InvalidName {
    fn from(error: NameError) -> Self {
        Self { what: format!("is not a name: {error}"), help: None }
    }
}

/// `what (help)`.
impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.help {
            Some(help) => write!(f, "{} ({help})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for InvalidName {}

/// Reads an absolute name in presentation form, with or without the final dot. Converts U-labels to
/// A-labels (RFC 5890 §2.3.2.1) by UTS 46, non-transitional.
///
/// # Errors
/// The text is not a name, or is `@`, which is relative to an origin.
pub fn read_name(text: &str) -> Result<NameBuf, InvalidName> {
    let wrong = |what: &str, help| InvalidName { what: format!("is not a name: {what}"), help };
    if text == "@" {
        let help = "`@` means the origin in zone files only";
        return Err(InvalidName { what: "is not an absolute name".into(), help: Some(help) });
    }
    if text.len() > TEXT_LEN_MAX {
        return Err(NameError::NameLength.into());
    }
    match blank(text) {
        Some(char) if char.is_whitespace() => {
            let help = "write one name; a space in a label is `\\032`";
            return Err(wrong("it has a space", Some(help)));
        }
        Some(_) => {
            let help = "write a control character in a label as `\\DDD`, in decimal";
            return Err(wrong("it has a control character", Some(help)));
        }
        None => {}
    }
    Ok(NameBuf::from_text(a_labels(text)?.as_bytes(), Name::ROOT)?)
}

/// The A-labels of a name that is not ASCII; `None` if it has none.
pub(crate) fn suggestion(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_LEN_MAX)?;
    a_labels(text).ok().map(Cow::into_owned)
}

/// The first unescaped blank or invisible character.
fn blank(text: &str) -> Option<char> {
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char == '\\' {
            chars.next();
        } else if char.is_whitespace() || char.is_control() {
            return Some(char);
        }
    }
    None
}

/// Converts each label that is not ASCII to its A-label. `_` and `*` keep their DNS meaning.
fn a_labels(text: &str) -> Result<Cow<'_, str>, InvalidName> {
    if text.is_ascii() {
        return Ok(text.into());
    }
    let wrong = |what: String| {
        let help = "write its A-labels, which begin with `xn--`";
        InvalidName { what: format!("is not a name: {what}"), help: Some(help) }
    };
    if text.contains('\\') {
        return Err(wrong("it has characters beyond ASCII, and escapes".into()));
    }
    let mut labels = Vec::new();
    for label in text.split('.') {
        if label.is_ascii() {
            labels.push(Cow::Borrowed(label));
            continue;
        }
        let (deny, length) = (AsciiDenyList::STD3, DnsLength::Verify);
        let read = Uts46::new().to_ascii(label.as_bytes(), deny, Hyphens::Check, length);
        let is_not = |_| wrong(format!("`{label}` is not an internationalized label (UTS 46)"));
        labels.push(read.map_err(is_not)?);
    }
    Ok(labels.join(".").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_absolute_with_and_without_the_final_dot() {
        for text in ["www.example.org", "www.example.org."] {
            assert_eq!(read_name(text).expect(text).to_string(), "www.example.org.");
        }
        assert_eq!(read_name(".").expect("the root").to_string(), ".");
        let escaped = read_name("My\\032Printer._ipp.example.org").expect("an escaped space");
        assert_eq!(escaped.to_string(), "My\\032Printer._ipp.example.org.");
        assert_eq!(read_name("a\\ b.").expect("the same").to_string(), "a\\032b.");
    }

    #[test]
    fn u_labels_become_a_labels() {
        for (text, name) in [
            ("bücher.example.org", "xn--bcher-kva.example.org."),
            ("_dmarc.BÜCHER.Example.org.", "_dmarc.xn--bcher-kva.Example.org."),
            ("*.bücher.example.org", "*.xn--bcher-kva.example.org."),
            // Non-transitional: `ß` is not `ss`.
            ("straße.example", "xn--strae-oqa.example."),
            ("例え。テスト", "xn--r8jz45g.xn--zckzah."),
        ] {
            assert_eq!(read_name(text).expect(text).to_string(), name, "{text}");
        }
    }

    #[test]
    fn invalid_name_is_refused_with_help() {
        let long = "ü".repeat(600);
        for (text, hint) in [
            ("@", "zone files only"),
            ("www example.org", "\\032"),
            ("www.example.org ", "\\032"),
            ("a\u{a0}b.example", "\\032"),
            ("a\tb", "\\032"),
            ("a\u{7f}b", "\\DDD"),
            ("a..b", "a label is empty"),
            ("", "a label is empty"),
            ("büc\\046her.example", "xn--"),
            ("\u{ad}.example", "xn--"),
            ("a／b.example", "xn--"),
            ("ü_ü.example", "xn--"),
            (&*long, "longer than 255 bytes"),
        ] {
            let messages = read_name(text).expect_err(text).to_string();
            assert!(messages.contains(hint), "{text:?}: {messages}");
        }
    }
}
