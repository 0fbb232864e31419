//! Words of a Corefile: what stands between blanks, or between quotes.
use crate::limits::{WORD_LEN_MAX, WORDS_MAX};
use crate::note::{Error, Place};
use std::rc::Rc;

/// A word and where it stands.
#[derive(Clone, Debug)]
pub struct Word {
    pub text: String,
    pub place: Place,
    /// Whether it is the first of its line.
    pub is_first: bool,
}

/// All words of a text. A `#` begins a comment wherever it stands outside of quotes. Quotes count
/// at the beginning of a word; what they hold may go over lines, and `\"` is a quote there.
pub fn lex(file: &Rc<str>, text: &str) -> Result<Vec<Word>, Error> {
    let mut words: Vec<Word> = Vec::new();
    let (mut at, mut line, mut line_begin, mut is_first) = (0, 1, 0, true);
    while let Some(letter) = text[at..].chars().next() {
        if letter == '\n' {
            (line, line_begin, is_first) = (line + 1, at + 1, true);
        }
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        if letter == '#' {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
            continue;
        }
        let place = Place { file: file.clone(), line, column: at - line_begin + 1 };
        let (word, len) = match text[at..].strip_prefix('"') {
            Some(quoted) => unquote(quoted, &place)?,
            None => {
                let ends = |letter: char| letter.is_whitespace() || letter == '#';
                let len = text[at..].find(ends).unwrap_or(text.len() - at);
                (text[at..at + len].to_owned(), len)
            }
        };
        if word.len() > WORD_LEN_MAX {
            return Err(Error::new(&place, format!("a word has {WORD_LEN_MAX} octets at most")));
        }
        if words.len() == WORDS_MAX {
            return Err(Error::new(&place, format!("a file has {WORDS_MAX} words at most")));
        }
        words.push(Word { text: word, place, is_first });
        let used = &text[at..at + len];
        line += used.matches('\n').count();
        line_begin = used.rfind('\n').map_or(line_begin, |last| at + last + 1);
        (at, is_first) = (at + len, false);
    }
    Ok(words)
}

/// What stands up to the quote at the end, and how long that is with both quotes.
fn unquote(text: &str, place: &Place) -> Result<(String, usize), Error> {
    let (mut word, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((word, at + 2)),
            '\\' if text[at + 1..].starts_with('"') => {
                word.push('"');
                letters.next();
            }
            letter => word.push(letter),
        }
    }
    Err(Error::new(place, "a quote begins here and does not end: put a \" at its end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, usize, usize, bool)> {
        let words = lex(&"f".into(), text).expect("words").into_iter();
        words.map(|w| (w.text, w.place.line, w.place.column, w.is_first)).collect()
    }

    #[test]
    fn words_have_places() {
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
    fn what_is_no_end_of_a_word_is_told() {
        let told = |text: &str| lex(&"f".into(), text).expect_err("no words").to_string();
        assert!(told("a\n \"b").starts_with("f:2:2: a quote begins"), "{}", told("a\n \"b"));
        let long = format!("a {}", "b".repeat(10 << 20));
        assert!(told(&long).starts_with("f:1:3: a word has"));
        let many = "a ".repeat(5 << 20);
        assert!(told(&many).starts_with("f:1:2097153: a file has"), "{}", told(&many));
    }
}
