//! Our fields as the scanner that the `domain` crate reads record data from.
use domain::base::Name as DomainName;
use domain::base::charstr::CharStr;
use domain::base::scan::{ConvertSymbols, EntrySymbol, Scanner, ScannerError, Symbol};
use domain::dep::octseq::str::Str;

use model::Rule;

use crate::fields::Fields;
use crate::lex::Token;
use crate::report::{Fault, quote};

/// What is missing when `domain` wants a field.
const FIELD: &str = "a field of the record data";

impl ScannerError for Fault {
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
        mut op: impl FnMut(Symbol) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut octets = Vec::new();
        if !token.escaped {
            return self.raw(token).iter().try_for_each(|&octet| op(plain(octet)));
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
            octets.clear();
            self.unescape(piece_token, &mut octets)?;
            op(match piece {
                1 => plain(octets[0]),
                2 => Symbol::SimpleEscape(octets[0]),
                _ => Symbol::DecimalEscape(octets[0]),
            })?;
            at += piece;
        }
        Ok(())
    }

    /// The octets of one field.
    fn octets(&mut self) -> Result<Vec<u8>, Fault> {
        let token = self.token(FIELD)?;
        let mut octets = Vec::new();
        self.unescape(token, &mut octets)?;
        Ok(octets)
    }
}

/// An octet without a backslash. What is no ASCII means itself, as in all name servers.
fn plain(octet: u8) -> Symbol {
    if octet.is_ascii() { Symbol::Char(octet.into()) } else { Symbol::DecimalEscape(octet) }
}

/// Adds what a converter has to give.
fn give(out: &mut Vec<u8>, data: Option<&[u8]>) {
    out.extend_from_slice(data.unwrap_or_default());
}

impl Scanner for Fields<'_> {
    type Octets = Vec<u8>;
    type OctetsBuilder = Vec<u8>;
    type Name = DomainName<Vec<u8>>;
    type Error = Fault;

    fn has_space(&self) -> bool {
        self.peek().is_some_and(|token| token.spaced)
    }

    fn continues(&mut self) -> bool {
        self.peek().is_some()
    }

    fn scan_symbols<F>(&mut self, op: F) -> Result<(), Fault>
    where
        F: FnMut(Symbol) -> Result<(), Fault>,
    {
        let token = self.token(FIELD)?;
        self.symbols(token, op)
    }

    fn scan_entry_symbols<F>(&mut self, mut op: F) -> Result<(), Fault>
    where
        F: FnMut(EntrySymbol) -> Result<(), Fault>,
    {
        while self.peek().is_some() {
            self.scan_symbols(|symbol| op(symbol.into()))?;
            op(EntrySymbol::EndOfToken)?;
        }
        Ok(())
    }

    fn convert_token<C: ConvertSymbols<Symbol, Fault>>(
        &mut self,
        mut convert: C,
    ) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        self.scan_symbols(|symbol| {
            give(&mut out, convert.process_symbol(symbol)?);
            Ok(())
        })?;
        give(&mut out, convert.process_tail()?);
        Ok(out)
    }

    fn convert_entry<C: ConvertSymbols<EntrySymbol, Fault>>(
        &mut self,
        mut convert: C,
    ) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        self.lacks_rest |= self.peek().is_none();
        while self.peek().is_some() {
            self.scan_symbols(|symbol| {
                give(&mut out, convert.process_symbol(symbol.into())?);
                Ok(())
            })?;
        }
        give(&mut out, convert.process_tail()?);
        Ok(out)
    }

    fn scan_octets(&mut self) -> Result<Vec<u8>, Fault> {
        self.octets()
    }

    /// A key and its quoted value without a blank between them are one field (RFC 9460 §2.1).
    fn scan_svcb_octets(&mut self) -> Result<Vec<u8>, Fault> {
        let mut octets = self.octets()?;
        while self.peek().is_some_and(|token| token.quoted && !token.spaced) {
            octets.append(&mut self.octets()?);
        }
        Ok(octets)
    }

    fn scan_ascii_str<F, T>(&mut self, op: F) -> Result<T, Fault>
    where
        F: FnOnce(&str) -> Result<T, Fault>,
    {
        let octets = self.octets()?;
        match std::str::from_utf8(&octets) {
            Ok(text) if text.is_ascii() => op(text),
            _ => Err(Fault::custom("this is not ASCII")),
        }
    }

    fn scan_name(&mut self) -> Result<Self::Name, Fault> {
        let name = self.name("a name")?;
        DomainName::from_octets(name.as_name().octets().to_vec())
            .map_err(|_| Fault::custom("this is not a name"))
    }

    fn scan_charstr(&mut self) -> Result<CharStr<Vec<u8>>, Fault> {
        CharStr::from_octets(self.octets()?)
            .map_err(|_| Fault::custom("this string is longer than 255 octets").rule(Rule::STRING))
    }

    fn scan_string(&mut self) -> Result<Str<Vec<u8>>, Fault> {
        Str::from_utf8(self.octets()?).map_err(|_| Fault::custom("this is not UTF-8"))
    }

    fn scan_charstr_entry(&mut self) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        while self.peek().is_some() {
            self.charstr("a string", &mut out)?;
        }
        Ok(out)
    }

    /// Never: the generic form is read before `domain` is asked.
    fn scan_opt_unknown_marker(&mut self) -> Result<bool, Fault> {
        Ok(false)
    }

    fn octets_builder(&mut self) -> Result<Vec<u8>, Fault> {
        Ok(Vec::new())
    }
}

impl Fields<'_> {
    /// Gives a fault of `domain` its place: the field it took last.
    pub(crate) fn locate(&self, fault: Fault) -> Fault {
        match self.last() {
            Some(token) if fault.at.is_none() => {
                let what = format!("{}: {}", quote(self.raw(token)), fault.what);
                Fault::new(token.start as usize, what)
            }
            _ => fault,
        }
    }

    /// Appends a character-string with its length (RFC 1035 §3.3).
    pub(crate) fn charstr(&mut self, what: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
        let token = self.token(what)?;
        let start = out.len();
        out.push(0);
        self.unescape(token, out)?;
        let len = out.len() - start - 1;
        out[start] = u8::try_from(len).map_err(|_| {
            let what = format!("{} has {len} octets", quote(self.raw(token)));
            Fault::new(token.start as usize, what)
                .help("a string has at most 255; write it as several: \"…\" \"…\"")
                .rule(Rule::STRING)
        })?;
        Ok(())
    }
}
