//! Adapts our fields to the scanner trait of the `domain` crate.
use domain::base::Name as DomainName;
use domain::base::charstr::CharStr;
use domain::base::scan::{ConvertSymbols, EntrySymbol, Scanner, ScannerError, Symbol};
use domain::dep::octseq::str::Str;

use crate::BrokenRule;

use crate::base64;
use crate::fields::Fields;
use crate::lex::Token;
use crate::report::{EntryError, quote};

/// Names a field that `domain` wants and that is missing.
const FIELD: &str = "a field of the record data";

impl ScannerError for EntryError {
    fn custom(what: &'static str) -> Self {
        Self { at: None, what: what.into(), help: None, rule: None }
    }

    fn end_of_entry() -> Self {
        Self::custom("a field of the record data is missing")
    }

    fn short_buf() -> Self {
        Self::custom("the record data is too long")
    }

    fn trailing_tokens() -> Self {
        Self::custom("the record data has too many fields")
    }
}

impl Fields<'_> {
    /// Calls `op` for each character of a field.
    fn symbols(
        &self,
        token: Token,
        mut op: impl FnMut(Symbol) -> Result<(), EntryError>,
    ) -> Result<(), EntryError> {
        let mut bytes = Vec::new();
        if !token.escaped {
            return self.raw(token).iter().try_for_each(|&byte| op(plain(byte)));
        }
        let raw = self.raw(token);
        let mut at = 0;
        while at < raw.len() {
            let piece = match raw[at..] {
                [b'\\', digit, ..] if digit.is_ascii_digit() => 4.min(raw.len() - at),
                [b'\\', ..] => 2,
                _ => 1,
            };
            let start = token.start + at as u32;
            let piece_token = Token { start, end: start + piece as u32, ..token };
            bytes.clear();
            self.unescape(piece_token, &mut bytes)?;
            op(match piece {
                1 => plain(bytes[0]),
                2 => Symbol::SimpleEscape(bytes[0]),
                _ => Symbol::DecimalEscape(bytes[0]),
            })?;
            at += piece;
        }
        Ok(())
    }

    /// The bytes of one field.
    fn bytes(&mut self) -> Result<Vec<u8>, EntryError> {
        let token = self.token(FIELD)?;
        let mut bytes = Vec::new();
        self.unescape(token, &mut bytes)?;
        Ok(bytes)
    }
}

/// An unescaped byte. Bytes beyond ASCII stand for themselves, as in all name servers.
fn plain(byte: u8) -> Symbol {
    if byte.is_ascii() { Symbol::Char(byte.into()) } else { Symbol::DecimalEscape(byte) }
}

/// Appends a converter's output.
fn give(out: &mut Vec<u8>, data: Option<&[u8]>) {
    out.extend_from_slice(data.unwrap_or_default());
}

impl Scanner for Fields<'_> {
    type Octets = Vec<u8>;
    type OctetsBuilder = Vec<u8>;
    type Name = DomainName<Vec<u8>>;
    type Error = EntryError;

    fn has_space(&self) -> bool {
        self.peek().is_some_and(|token| token.spaced)
    }

    fn continues(&mut self) -> bool {
        self.peek().is_some()
    }

    fn scan_symbols<F>(&mut self, op: F) -> Result<(), EntryError>
    where
        F: FnMut(Symbol) -> Result<(), EntryError>,
    {
        let token = self.token(FIELD)?;
        self.symbols(token, op)
    }

    fn scan_entry_symbols<F>(&mut self, mut op: F) -> Result<(), EntryError>
    where
        F: FnMut(EntrySymbol) -> Result<(), EntryError>,
    {
        while self.peek().is_some() {
            self.scan_symbols(|symbol| op(symbol.into()))?;
            op(EntrySymbol::EndOfToken)?;
        }
        Ok(())
    }

    fn convert_token<C: ConvertSymbols<Symbol, EntryError>>(
        &mut self,
        mut convert: C,
    ) -> Result<Vec<u8>, EntryError> {
        let mut out = Vec::new();
        self.scan_symbols(|symbol| {
            give(&mut out, convert.process_symbol(symbol)?);
            Ok(())
        })?;
        give(&mut out, convert.process_tail()?);
        Ok(out)
    }

    fn convert_entry<C: ConvertSymbols<EntrySymbol, EntryError>>(
        &mut self,
        mut convert: C,
    ) -> Result<Vec<u8>, EntryError> {
        let mut out = Vec::new();
        self.rest_at = Some(self.taken());
        while self.peek().is_some() {
            self.scan_symbols(|symbol| {
                give(&mut out, convert.process_symbol(symbol.into())?);
                Ok(())
            })?;
        }
        give(&mut out, convert.process_tail()?);
        Ok(out)
    }

    fn scan_octets(&mut self) -> Result<Vec<u8>, EntryError> {
        self.bytes()
    }

    /// A key and its quoted value without a blank between them are one field (RFC 9460 §2.1).
    fn scan_svcb_octets(&mut self) -> Result<Vec<u8>, EntryError> {
        let mut bytes = self.bytes()?;
        while self.peek().is_some_and(|token| token.quoted && !token.spaced) {
            bytes.append(&mut self.bytes()?);
        }
        if let Some(text) = bytes.strip_prefix(b"ech=") {
            base64::check_at(self, text)?;
        }
        Ok(bytes)
    }

    fn scan_ascii_str<F, T>(&mut self, op: F) -> Result<T, EntryError>
    where
        F: FnOnce(&str) -> Result<T, EntryError>,
    {
        let bytes = self.bytes()?;
        match std::str::from_utf8(&bytes) {
            Ok(text) if text.is_ascii() => op(text),
            _ => Err(EntryError::custom("this is not ASCII")),
        }
    }

    fn scan_name(&mut self) -> Result<Self::Name, EntryError> {
        let name = self.name("a name")?;
        DomainName::from_octets(name.as_name().as_bytes().to_vec())
            .map_err(|_| EntryError::custom("this is not a name"))
    }

    fn scan_charstr(&mut self) -> Result<CharStr<Vec<u8>>, EntryError> {
        CharStr::from_octets(self.bytes()?).map_err(|_| {
            EntryError::custom("this string is longer than 255 bytes").rule(BrokenRule::STRING)
        })
    }

    fn scan_string(&mut self) -> Result<Str<Vec<u8>>, EntryError> {
        Str::from_utf8(self.bytes()?).map_err(|_| EntryError::custom("this is not UTF-8"))
    }

    fn scan_charstr_entry(&mut self) -> Result<Vec<u8>, EntryError> {
        let mut out = Vec::new();
        while self.peek().is_some() {
            self.charstr("a string", &mut out)?;
        }
        Ok(out)
    }

    /// Never: `rdata` reads the generic form before it calls `domain`.
    fn scan_opt_unknown_marker(&mut self) -> Result<bool, EntryError> {
        Ok(false)
    }

    fn octets_builder(&mut self) -> Result<Vec<u8>, EntryError> {
        Ok(Vec::new())
    }
}

impl Fields<'_> {
    /// Gives an error from `domain` the position of the last field.
    pub(crate) fn locate(&self, fault: EntryError) -> EntryError {
        match self.last() {
            Some(token) if fault.at.is_none() => {
                let what = format!("{}: {}", quote(self.raw(token)), fault.what);
                EntryError { at: Some(token.start as usize), what: what.into(), ..fault }
            }
            _ => fault,
        }
    }

    /// Appends a character-string with its length (RFC 1035 §3.3).
    pub(crate) fn charstr(&mut self, what: &str, out: &mut Vec<u8>) -> Result<(), EntryError> {
        let token = self.token(what)?;
        let start = out.len();
        out.push(0);
        self.unescape(token, out)?;
        let len = out.len() - start - 1;
        out[start] = u8::try_from(len).map_err(|_| {
            let what = format!("{} has {len} bytes", quote(self.raw(token)));
            EntryError::new(token.start as usize, what)
                .help("a string has at most 255 bytes; write several strings: \"…\" \"…\"")
                .rule(BrokenRule::STRING)
        })?;
        Ok(())
    }
}
