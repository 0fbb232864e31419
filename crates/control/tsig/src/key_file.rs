//! Key files as `tsig-keygen` and `dunlin token create --tsig` write them.
use crate::{Algorithm, Key};
use wire::{Name, NameBuf};

const EXPECTED: &str = "expected `key \"NAME\" { algorithm ALGORITHM; secret \"BASE64\"; };`, as \
                        `tsig-keygen NAME` writes it";

impl Key {
    /// Reads the one key of a file.
    ///
    /// # Errors
    /// What is wrong; it does not repeat the secret.
    pub fn from_file_text(text: &str) -> Result<Self, String> {
        let words = words(text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["key", name, "{", rest @ ..] = &words[..] else { return Err(EXPECTED.into()) };
        let (mut algorithm, mut secret, mut rest) = (None, None, rest);
        loop {
            rest = match rest {
                ["algorithm", word, ";", rest @ ..] if algorithm.is_none() => {
                    algorithm = Some(*word);
                    rest
                }
                ["secret", word, ";", rest @ ..] if secret.is_none() => {
                    secret = Some(*word);
                    rest
                }
                ["}"] | ["}", ";"] => break,
                ["}", ";", "key", ..] | ["}", "key", ..] => {
                    return Err("there is more than one key in it: leave one".into());
                }
                _ => return Err(EXPECTED.into()),
            };
        }
        let (Some(word), Some(secret)) = (algorithm, secret) else {
            return Err(EXPECTED.into());
        };
        let lower = word.trim_end_matches('.').to_ascii_lowercase();
        let known = Algorithm::from_word(&lower).ok_or_else(|| {
            let all = Algorithm::ALL.map(Algorithm::word).join(", ");
            format!("the algorithm {word} is not supported: use one of {all}")
        })?;
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT)
            .map_err(|why| format!("{name:?} is not a name: {why}"))?;
        Self::from_base64(name, known, secret)
    }
}

/// The words of a text without comments; quotes are gone.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let lines = text.lines().map(|line| line.split(['#']).next().unwrap_or_default());
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    for line in lines {
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            let is_mark = matches!(letter, '{' | '}' | ';');
            if is_mark || letter.is_whitespace() {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if is_mark {
                    words.push(letter.to_string());
                }
            } else if letter != '"' {
                word.push(letter);
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_one_key_is_read_and_others_say_why_not() {
        let right = "# a key\nkey \"Transfer.example\" {\n\talgorithm hmac-sha256;\n\tsecret \
                     \"c2VjcmV0\";\n};\n";
        let key = Key::from_file_text(right).expect("a key");
        assert_eq!(key.name().to_string(), "transfer.example.");
        assert_eq!(key.algorithm(), Algorithm::Sha256);
        assert!(Key::from_file_text(&right.replace('\n', " ").replace("# a key", "")).is_ok());
        for (text, why) in [
            ("", "expected `key"),
            ("hmac-sha256:a:c2VjcmV0", "expected `key"),
            ("key a { secret \"c2VjcmV0\"; };", "expected `key"),
            ("key a { algorithm hmac-md5; secret \"c2VjcmV0\"; };", "is not supported"),
            ("key a { algorithm hmac-sha256; secret \"*\"; };", "not Base64"),
            ("key a..b { algorithm hmac-sha256; secret \"c2VjcmV0\"; };", "is not a name"),
            (&right.repeat(2), "more than one key"),
        ] {
            let told = Key::from_file_text(text).expect_err(why);
            assert!(told.contains(why) && !told.contains("c2VjcmV0"), "{text}: {told}");
        }
    }
}
