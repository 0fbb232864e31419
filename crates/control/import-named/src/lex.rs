//! Words of a named.conf: words, quoted words, and marks.
use crate::limits::{WORD_LEN_MAX, WORDS_MAX};
use import_report::{FilePosition, ImportError};
use std::rc::Rc;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Word,
    /// One of `{`, `}`, `;` and `!`.
    Mark,
}

/// A token and its position.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    pub kind: Kind,
    pub place: FilePosition,
}

impl Token {
    pub fn is_mark(&self, text: &str) -> bool {
        self.kind == Kind::Mark && self.text == text
    }
}

/// All tokens of a text, without comments in the forms of C, C++ and the shell.
pub fn lex(file: &Rc<str>, text: &str) -> Result<Vec<Token>, ImportError> {
    let mut tokens: Vec<Token> = Vec::new();
    let (mut at, mut line, mut line_begin) = (0, 1, 0);
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        let place = FilePosition { file: file.clone(), line, column: at - line_begin + 1 };
        let len = if character.is_whitespace() {
            character.len_utf8()
        } else if character == '#' || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/");
            end.ok_or_else(|| {
                ImportError::new(&place, "this comment is not closed: put a */ at its end")
            })? + 4
        } else {
            let (token, len) = token(rest, place)?;
            if token.text.len() > WORD_LEN_MAX {
                let text = format!("a word has at most {WORD_LEN_MAX} bytes");
                return Err(ImportError::new(&token.place, text));
            }
            if tokens.len() == WORDS_MAX {
                let text = format!("a file has at most {WORDS_MAX} words");
                return Err(ImportError::new(&token.place, text));
            }
            tokens.push(token);
            len
        };
        let used = &text[at..at + len];
        line += used.matches('\n').count();
        line_begin = used.rfind('\n').map_or(line_begin, |last| at + last + 1);
        at += len;
    }
    Ok(tokens)
}

/// The first token of a text, and its length there.
fn token(text: &str, place: FilePosition) -> Result<(Token, usize), ImportError> {
    if text.starts_with(['{', '}', ';', '!']) {
        return Ok((Token { text: text[..1].to_owned(), kind: Kind::Mark, place }, 1));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (text, len) = unquote(quoted, &place)?;
        return Ok((Token { text, kind: Kind::Word, place }, len));
    }
    let ends = |at: &usize| {
        let rest = &text[*at..];
        rest.starts_with(|one: char| one.is_whitespace() || "{};!\"".contains(one))
            || rest.starts_with("//")
            || rest.starts_with("/*")
    };
    let len = text.char_indices().map(|(at, _)| at).find(ends).unwrap_or(text.len());
    Ok((Token { text: text[..len].to_owned(), kind: Kind::Word, place }, len))
}

/// The text up to the closing quote, and its length with both quotes.
fn unquote(text: &str, place: &FilePosition) -> Result<(String, usize), ImportError> {
    let (mut word, mut letters) = (String::new(), text.char_indices());
    while let Some((at, character)) = letters.next() {
        match character {
            '"' => return Ok((word, at + 2)),
            '\n' => break,
            '\\' if text[at + 1..].starts_with('"') => {
                word.push('"');
                letters.next();
            }
            character => word.push(character),
        }
    }
    Err(ImportError::new(place, "this quote is not closed: put a \" at the end of the word"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(String, usize, usize)> {
        let tokens = lex(&"f".into(), text).expect("tokens").into_iter();
        tokens.map(|it| (it.text, it.place.line, it.place.column)).collect()
    }

    #[test]
    fn tokens_have_positions_and_comments_are_left_out() {
        let token = |text: &str, line, column| (text.to_owned(), line, column);
        assert_eq!(
            tokens("a{ !10.0.0.0/8;// x\n} # y\n/* z\n */b\"c d\\\"e\" f#g h//i"),
            [
                token("a", 1, 1),
                token("{", 1, 2),
                token("!", 1, 4),
                token("10.0.0.0/8", 1, 5),
                token(";", 1, 15),
                token("}", 2, 1),
                token("b", 4, 4),
                token("c d\"e", 4, 5),
                token("f#g", 4, 14),
                token("h", 4, 18),
            ]
        );
    }
}
