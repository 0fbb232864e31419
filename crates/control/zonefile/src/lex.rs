//! Splits text into the tokens of one entry (RFC 1035 §5.1): blanks, quotes, escapes, parentheses,
//! comments. No I/O.

use crate::report::EntryError;

/// A field of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    /// Where its text begins in the entry, after an opening quote.
    pub start: u32,
    /// Where its text ends, before a closing quote.
    pub end: u32,
    /// It is in double quotes.
    pub quoted: bool,
    /// It contains a backslash.
    pub escaped: bool,
    /// Follows a blank or the start of the line, not another token.
    pub spaced: bool,
}

/// What `lex` learns about an entry besides its tokens.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Bytes including the final line end.
    pub len: usize,
    /// Line ends in the entry.
    pub lines: u64,
    /// Its first error.
    pub fault: Option<EntryError>,
    /// Where its first comment begins.
    pub comment: Option<usize>,
}

/// The meaning of a byte outside of quotes.
#[derive(Clone, Copy, PartialEq)]
enum ByteClass {
    Word,
    Blank,
    LineEnd,
    CarriageReturn,
    Comment,
    Open,
    Close,
    Quote,
    Escape,
    Control,
}

const KINDS: [ByteClass; 256] = {
    let mut kinds = [ByteClass::Word; 256];
    let mut byte = 0;
    while byte < 0x20 {
        kinds[byte] = ByteClass::Control;
        byte += 1;
    }
    kinds[0x7f] = ByteClass::Control;
    kinds[b' ' as usize] = ByteClass::Blank;
    kinds[b'\t' as usize] = ByteClass::Blank;
    kinds[b'\n' as usize] = ByteClass::LineEnd;
    kinds[b'\r' as usize] = ByteClass::CarriageReturn;
    kinds[b';' as usize] = ByteClass::Comment;
    kinds[b'(' as usize] = ByteClass::Open;
    kinds[b')' as usize] = ByteClass::Close;
    kinds[b'"' as usize] = ByteClass::Quote;
    kinds[b'\\' as usize] = ByteClass::Escape;
    kinds
};

/// Reads the first entry of `text`; `last`: no more text follows. Returns `None` if the entry does
/// not end in `text`. An entry with errors ends where it would end without them, so that the next
/// one can be read.
pub(crate) fn lex(text: &[u8], last: bool, tokens: &mut Vec<Token>) -> Option<Entry> {
    tokens.clear();
    let mut lexer = Lexer { text, last, at: 0, fault: None };
    let mut comment = None;
    let (mut open, mut depth, mut lines, mut spaced) = (0, 0usize, 0, true);
    loop {
        let at = lexer.at;
        let Some(kind) = lexer.kind()? else { break };
        match kind {
            ByteClass::Blank => lexer.at += 1,
            ByteClass::LineEnd => {
                (lexer.at, lines) = (at + 1, lines + 1);
                if depth == 0 {
                    return Some(Entry { len: lexer.at, lines, fault: lexer.fault, comment });
                }
            }
            ByteClass::Comment => {
                comment.get_or_insert(at);
                lexer.at = lexer.line_end()?;
            }
            ByteClass::Open => {
                if depth == 0 {
                    open = at;
                }
                (lexer.at, depth) = (at + 1, depth + 1);
            }
            ByteClass::Close => {
                lexer.at += 1;
                match depth.checked_sub(1) {
                    Some(left) => depth = left,
                    None => lexer.fail(
                        at,
                        "this parenthesis has no opening one",
                        "quote a parenthesis that belongs to text",
                    ),
                }
            }
            ByteClass::Quote => {
                tokens.push(Token { spaced, ..lexer.quoted()? });
                spaced = false;
                continue;
            }
            ByteClass::Word | ByteClass::Escape => {
                tokens.push(Token { spaced, ..lexer.word()? });
                spaced = false;
                continue;
            }
            ByteClass::CarriageReturn | ByteClass::Control => lexer.control()?,
        }
        spaced = true;
    }
    if depth > 0 {
        lexer.fault = Some(
            EntryError::new(open, "this parenthesis is not closed")
                .help("everything after it was read as part of this record"),
        );
    }
    Some(Entry { len: text.len(), lines, fault: lexer.fault, comment })
}

const LONG_TEXT: &str = "split a long text into several quoted strings: \"…\" \"…\"";

/// The lexer's position. Methods return `None` if they need more text.
struct Lexer<'t> {
    text: &'t [u8],
    last: bool,
    at: usize,
    fault: Option<EntryError>,
}

impl Lexer<'_> {
    /// The class of the current byte; `Some(None)` at the end of the file.
    fn kind(&self) -> Option<Option<ByteClass>> {
        match self.text.get(self.at) {
            Some(&byte) => Some(Some(KINDS[usize::from(byte)])),
            None if self.last => Some(None),
            None => None,
        }
    }

    /// Keeps the first error of the entry.
    fn fail(&mut self, at: usize, what: &'static str, help: &'static str) {
        self.fault.get_or_insert_with(|| EntryError::new(at, what).help(help));
    }

    /// The next line end, or the end of the file.
    fn line_end(&self) -> Option<usize> {
        match self.text[self.at..].iter().position(|&byte| byte == b'\n') {
            Some(len) => Some(self.at + len),
            None => self.last.then_some(self.text.len()),
        }
    }

    /// Skips a control character, which is an error except in CR LF.
    fn control(&mut self) -> Option<()> {
        let at = self.at;
        self.at += 1;
        let next = self.kind()?;
        if self.text[at] != b'\r' || !matches!(next, Some(ByteClass::LineEnd) | None) {
            self.fail(at, "this is a control character", "write it as `\\DDD`, in decimal");
        }
        Some(())
    }

    /// Takes a word.
    fn word(&mut self) -> Option<Token> {
        let (start, mut escaped) = (self.at, false);
        loop {
            match self.kind()? {
                Some(ByteClass::Word) => self.at += 1,
                Some(ByteClass::Escape) => {
                    escaped = true;
                    self.escape()?;
                }
                _ => break,
            }
        }
        Some(token(start, self.at, false, escaped))
    }

    /// Takes a quoted string, which ends on its line.
    fn quoted(&mut self) -> Option<Token> {
        self.at += 1;
        let (start, mut escaped) = (self.at, false);
        loop {
            match self.kind()? {
                Some(ByteClass::Quote) => {
                    self.at += 1;
                    return Some(token(start, self.at - 1, true, escaped));
                }
                Some(ByteClass::Escape) => {
                    escaped = true;
                    self.escape()?;
                }
                Some(ByteClass::LineEnd) | None => {
                    self.fail(start - 1, "this quote is not closed on its line", LONG_TEXT);
                    return Some(token(start, self.at, true, escaped));
                }
                Some(ByteClass::Control | ByteClass::CarriageReturn) => self.control()?,
                Some(_) => self.at += 1,
            }
        }
    }

    /// Skips a backslash and the byte that it escapes.
    fn escape(&mut self) -> Option<()> {
        let at = self.at;
        self.at += 1;
        match self.kind()? {
            Some(ByteClass::LineEnd | ByteClass::CarriageReturn | ByteClass::Control) | None => {
                self.fail(
                    at,
                    "the line ends after this backslash",
                    "for a backslash, write `\\\\`",
                );
            }
            Some(_) => self.at += 1,
        }
        Some(())
    }
}

fn token(start: usize, end: usize, quoted: bool, escaped: bool) -> Token {
    // Entries are shorter than 2^32 bytes: limits.rs.
    Token { start: start as u32, end: end as u32, quoted, escaped, spaced: true }
}
