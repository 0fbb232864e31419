//! Text into the tokens of one entry (RFC 1035 §5.1): blanks, quotes, escapes, parentheses,
//! comments. Pure: a slice in, tokens out.

use crate::report::Fault;

/// A field of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    /// Where its text begins in the entry, behind the quote if there is one.
    pub start: u32,
    /// Where its text ends, before the quote if there is one.
    pub end: u32,
    /// It stood in double quotes.
    pub quoted: bool,
    /// It has a backslash somewhere.
    pub escaped: bool,
    /// Blanks or the line's begin stood before it, not another token.
    pub spaced: bool,
}

/// What `lex` found out about an entry besides its tokens.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Octets with the final line end.
    pub len: usize,
    /// Line ends among them.
    pub lines: u64,
    /// The first thing wrong with it.
    pub fault: Option<Fault>,
}

/// What an octet may be outside of quotes.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
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

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Word; 256];
    let mut octet = 0;
    while octet < 0x20 {
        kinds[octet] = Kind::Control;
        octet += 1;
    }
    kinds[0x7f] = Kind::Control;
    kinds[b' ' as usize] = Kind::Blank;
    kinds[b'\t' as usize] = Kind::Blank;
    kinds[b'\n' as usize] = Kind::LineEnd;
    kinds[b'\r' as usize] = Kind::CarriageReturn;
    kinds[b';' as usize] = Kind::Comment;
    kinds[b'(' as usize] = Kind::Open;
    kinds[b')' as usize] = Kind::Close;
    kinds[b'"' as usize] = Kind::Quote;
    kinds[b'\\' as usize] = Kind::Escape;
    kinds
};

/// Reads the entry that `text` begins with; `last` says that no more text will follow. Nothing
/// when the entry does not end within `text`. Whatever is wrong, the entry ends where it would
/// have ended, so that the next one can be read.
pub(crate) fn lex(text: &[u8], last: bool, tokens: &mut Vec<Token>) -> Option<Entry> {
    tokens.clear();
    let mut lexer = Lexer { text, last, at: 0, fault: None };
    let (mut open, mut depth, mut lines, mut spaced) = (0, 0usize, 0, true);
    loop {
        let at = lexer.at;
        let Some(kind) = lexer.kind()? else { break };
        match kind {
            Kind::Blank => lexer.at += 1,
            Kind::LineEnd => {
                (lexer.at, lines) = (at + 1, lines + 1);
                if depth == 0 {
                    return Some(Entry { len: lexer.at, lines, fault: lexer.fault });
                }
            }
            Kind::Comment => lexer.at = lexer.line_end()?,
            Kind::Open => {
                if depth == 0 {
                    open = at;
                }
                (lexer.at, depth) = (at + 1, depth + 1);
            }
            Kind::Close => {
                lexer.at += 1;
                match depth.checked_sub(1) {
                    Some(left) => depth = left,
                    None => lexer.fail(
                        at,
                        "this parenthesis was never opened",
                        "in text, put it in quotes",
                    ),
                }
            }
            Kind::Quote => {
                tokens.push(Token { spaced, ..lexer.quoted()? });
                spaced = false;
                continue;
            }
            Kind::Word | Kind::Escape => {
                tokens.push(Token { spaced, ..lexer.word()? });
                spaced = false;
                continue;
            }
            Kind::CarriageReturn | Kind::Control => lexer.control()?,
        }
        spaced = true;
    }
    if depth > 0 {
        lexer.fault = Some(
            Fault::new(open, "this parenthesis is never closed")
                .help("all that follows was taken for part of this record"),
        );
    }
    Some(Entry { len: text.len(), lines, fault: lexer.fault })
}

const LONG_TEXT: &str = "a long text is several strings, each in its quotes: \"…\" \"…\"";

/// Where the lexer stands. Its methods give nothing when the text ends too early to tell.
struct Lexer<'t> {
    text: &'t [u8],
    last: bool,
    at: usize,
    fault: Option<Fault>,
}

impl Lexer<'_> {
    /// The kind of the octet at hand; an inner nothing at the very end.
    fn kind(&self) -> Option<Option<Kind>> {
        match self.text.get(self.at) {
            Some(&octet) => Some(Some(KINDS[usize::from(octet)])),
            None if self.last => Some(None),
            None => None,
        }
    }

    /// Keeps the first fault of the entry.
    fn fail(&mut self, at: usize, what: &'static str, help: &'static str) {
        self.fault.get_or_insert_with(|| Fault::new(at, what).help(help));
    }

    /// The next line end, or the very end.
    fn line_end(&self) -> Option<usize> {
        match self.text[self.at..].iter().position(|&octet| octet == b'\n') {
            Some(len) => Some(self.at + len),
            None => self.last.then_some(self.text.len()),
        }
    }

    /// Passes an octet that may stand nowhere, unless it is the first of CR LF.
    fn control(&mut self) -> Option<()> {
        let at = self.at;
        self.at += 1;
        let next = self.kind()?;
        if self.text[at] != b'\r' || !matches!(next, Some(Kind::LineEnd) | None) {
            self.fail(at, "a control character stands here", "write it as `\\DDD`, in decimal");
        }
        Some(())
    }

    /// A word: up to what can be no part of one.
    fn word(&mut self) -> Option<Token> {
        let (start, mut escaped) = (self.at, false);
        loop {
            match self.kind()? {
                Some(Kind::Word) => self.at += 1,
                Some(Kind::Escape) => {
                    escaped = true;
                    self.escape()?;
                }
                _ => break,
            }
        }
        Some(token(start, self.at, false, escaped))
    }

    /// A quoted string, on one line.
    fn quoted(&mut self) -> Option<Token> {
        self.at += 1;
        let (start, mut escaped) = (self.at, false);
        loop {
            match self.kind()? {
                Some(Kind::Quote) => {
                    self.at += 1;
                    return Some(token(start, self.at - 1, true, escaped));
                }
                Some(Kind::Escape) => {
                    escaped = true;
                    self.escape()?;
                }
                Some(Kind::LineEnd) | None => {
                    self.fail(start - 1, "this quote is not closed on its line", LONG_TEXT);
                    return Some(token(start, self.at, true, escaped));
                }
                Some(Kind::Control | Kind::CarriageReturn) => self.control()?,
                Some(_) => self.at += 1,
            }
        }
    }

    /// A backslash and the octet behind it, which loses its meaning.
    fn escape(&mut self) -> Option<()> {
        let at = self.at;
        self.at += 1;
        match self.kind()? {
            Some(Kind::LineEnd | Kind::CarriageReturn | Kind::Control) | None => {
                self.fail(at, "nothing stands behind this backslash", "for itself, write `\\\\`");
            }
            Some(_) => self.at += 1,
        }
        Some(())
    }
}

fn token(start: usize, end: usize, quoted: bool, escaped: bool) -> Token {
    // An entry is shorter than 2^32 octets: limits.rs.
    Token { start: start as u32, end: end as u32, quoted, escaped, spaced: true }
}
