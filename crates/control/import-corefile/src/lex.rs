//! Words of a Corefile, separated by blanks or in quotes.
use crate::limits::{WORD_LEN_MAX, WORDS_MAX};
use import_report::{FilePosition, ImportError};
use std::rc::Rc;

/// A word and its position.
#[derive(Clone, Debug)]
pub struct CorefileWord {
    pub text: String,
    pub place: FilePosition,
    /// Whether it is the first word of its line.
    pub is_first: bool,
}

/// All words of a text. An unquoted `#` begins a comment. A word may begin with a quote, which may
/// span lines; `\"` is a quote in it.
pub fn lex(file: &Rc<str>, text: &str) -> Result<Vec<CorefileWord>, ImportError> {
    let mut words: Vec<CorefileWord> = Vec::new();
    let (mut at, mut line, mut line_begin, mut is_first) = (0, 1, 0, true);
    while let Some(character) = text[at..].chars().next() {
        if character == '\n' {
            (line, line_begin, is_first) = (line + 1, at + 1, true);
        }
        if character.is_whitespace() {
            at += character.len_utf8();
            continue;
        }
        if character == '#' {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
            continue;
        }
        let place = FilePosition { file: file.clone(), line, column: at - line_begin + 1 };
        let (word, len) = match text[at..].strip_prefix('"') {
            Some(quoted) => unquote(quoted, &place)?,
            None => {
                let ends = |character: char| character.is_whitespace() || character == '#';
                let len = text[at..].find(ends).unwrap_or(text.len() - at);
                (text[at..at + len].to_owned(), len)
            }
        };
        if word.len() > WORD_LEN_MAX {
            return Err(ImportError::new(
                &place,
                format!("a word has at most {WORD_LEN_MAX} bytes"),
            ));
        }
        if words.len() == WORDS_MAX {
            return Err(ImportError::new(&place, format!("a file has at most {WORDS_MAX} words")));
        }
        words.push(CorefileWord { text: word, place, is_first });
        let used = &text[at..at + len];
        line += used.matches('\n').count();
        line_begin = used.rfind('\n').map_or(line_begin, |last| at + last + 1);
        (at, is_first) = (at + len, false);
    }
    Ok(words)
}

/// The text up to the closing quote, and its length with both quotes.
fn unquote(text: &str, place: &FilePosition) -> Result<(String, usize), ImportError> {
    let (mut word, mut letters) = (String::new(), text.char_indices());
    while let Some((at, character)) = letters.next() {
        match character {
            '"' => return Ok((word, at + 2)),
            '\\' if text[at + 1..].starts_with('"') => {
                word.push('"');
                letters.next();
            }
            character => word.push(character),
        }
    }
    Err(ImportError::new(place, "this quote is not closed: put a \" at its end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, usize, usize, bool)> {
        let words = lex(&"f".into(), text).expect("words").into_iter();
        words.map(|w| (w.text, w.place.line, w.place.column, w.is_first)).collect()
    }

    #[test]
    fn words_have_positions() {
        let word = |text: &str, line, column, first| (text.to_owned(), line, column, first);
        assert_eq!(
            words(".:53 { # all\r\n\tlog \"a b\" \"c\\\"d\\e\"#x\n\n}"),
            [
                word(".:53", 1, 1, true),
                word("{", 1, 6, false),
                word("log", 2, 2, true),
                word("a b", 2, 6, false),
                word("c\"d\\e", 2, 12, false),
                word("}", 4, 1, true),
            ]
        );
        assert_eq!(
            words("a \"\nb\n\" c\nd"),
            [
                word("a", 1, 1, true),
                word("\nb\n", 1, 3, false),
                word("c", 3, 3, false),
                word("d", 4, 1, true),
            ]
        );
        assert_eq!(words("a#b c\nd"), [word("a", 1, 1, true), word("d", 2, 1, true)]);
        assert_eq!(words(" \n\t# \n"), []);
    }

    #[test]
    fn unclosed_quotes_are_errors() {
        let message = |text: &str| lex(&"f".into(), text).expect_err("no words").to_string();
        assert!(
            message("a\n \"b").starts_with("f:2:2: this quote is not closed"),
            "{}",
            message("a\n \"b")
        );
        let long = format!("a {}", "b".repeat(10 << 20));
        assert!(message(&long).starts_with("f:1:3: a word has"));
        let many = "a ".repeat(5 << 20);
        assert!(message(&many).starts_with("f:1:2097153: a file has"), "{}", message(&many));
    }
}
