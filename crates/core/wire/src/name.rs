//! Domain names in wire format (RFC 1035 §3.1): labels, each behind its length, up to the root.
use core::cmp::Ordering;
use core::fmt;

/// An absolute, uncompressed, valid name, borrowed. It keeps its case; equality, order and hashing
/// ignore it (RFC 4343).
#[derive(Clone, Copy)]
pub struct Name<'a>(&'a [u8]);

/// An owned name of at most 255 bytes, without an allocation.
#[derive(Clone)]
pub struct NameBuf {
    len: u8,
    bytes: [u8; Name::LEN_MAX],
}

/// Why bytes or text are not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The bytes end before the root label.
    Short,
    /// A label of more than 63 bytes, or a compression pointer where none is allowed.
    LabelLength,
    /// More than 255 bytes in all.
    NameLength,
    /// Text: an empty label, as in `a..b`.
    EmptyLabel,
    /// Text: a backslash without a character or three digits up to 255 behind it.
    Escape,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the name ends before its root label",
            Self::LabelLength => "a label is longer than 63 bytes",
            Self::NameLength => "the name is longer than 255 bytes",
            Self::EmptyLabel => "a label is empty",
            Self::Escape => {
                "a backslash stands before neither a character nor three digits up to 255"
            }
        })
    }
}

impl core::error::Error for NameError {}

impl<'a> Name<'a> {
    /// The root.
    pub const ROOT: Name<'static> = Name(&[0]);
    /// Bytes of the longest name (RFC 1035 §2.3.4).
    pub const LEN_MAX: usize = 255;
    /// Bytes of the longest label (RFC 1035 §2.3.4).
    pub const LABEL_MAX: usize = 63;
    /// The most labels of a name, without the root.
    pub const LABELS_MAX: usize = 127;

    /// The name at the start of `bytes`; the rest is ignored.
    ///
    /// # Errors
    /// There is no valid uncompressed name.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NameError> {
        let mut at = 0;
        loop {
            match *bytes.get(at).ok_or(NameError::Short)? {
                0 if at < Self::LEN_MAX => return Ok(Self(&bytes[..=at])),
                len if usize::from(len) <= Self::LABEL_MAX => at += 1 + usize::from(len),
                _ => return Err(NameError::LabelLength),
            }
            if at >= Self::LEN_MAX {
                return Err(NameError::NameLength);
            }
        }
    }

    /// The wire format with the root label.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Bytes of the wire format, 1 to 255.
    #[allow(clippy::len_without_is_empty, reason = "a name is never empty")]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether this is the root.
    pub const fn is_root(self) -> bool {
        self.0.len() == 1
    }

    /// The labels from the left, without the root.
    pub fn labels(self) -> Labels<'a> {
        Labels(self.0)
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(self) -> Option<Self> {
        match self.0[0] {
            0 => None,
            len => Some(Self(&self.0[1 + usize::from(len)..])),
        }
    }

    /// Whether this name is `ancestor` or lies below it.
    pub fn is_within(self, ancestor: Name<'_>) -> bool {
        let Some(cut) = self.len().checked_sub(ancestor.len()) else { return false };
        if !self.0[cut..].eq_ignore_ascii_case(ancestor.0) {
            return false;
        }
        // The cut must lie between two labels.
        let mut at = 0;
        while at < cut {
            at += 1 + usize::from(self.0[at]);
        }
        at == cut
    }

    /// Canonical order (RFC 4034 §6.1): labels from the right, each as lower-case bytes.
    pub fn canonical_cmp(self, other: Name<'_>) -> Ordering {
        canonical_cmp(self.0, other.0)
    }
}

/// Canonical order (RFC 4034 §6.1) of two absolute names, or of two names relative to the same
/// origin without a root label.
pub fn canonical_cmp(a: &[u8], b: &[u8]) -> Ordering {
    let (mut starts_a, mut starts_b) = ([0u8; Name::LABELS_MAX], [0u8; Name::LABELS_MAX]);
    let (mut i, mut j) = (starts(a, &mut starts_a), starts(b, &mut starts_b));
    while i > 0 && j > 0 {
        (i, j) = (i - 1, j - 1);
        let (label_a, label_b) = (label_at(a, starts_a[i]), label_at(b, starts_b[j]));
        let lower = u8::to_ascii_lowercase;
        let order = label_a.iter().map(lower).cmp(label_b.iter().map(lower));
        if order != Ordering::Equal {
            return order;
        }
    }
    i.cmp(&j)
}

/// Writes the offset of each label; returns how many there are.
fn starts(name: &[u8], into: &mut [u8; Name::LABELS_MAX]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < name.len() && name[at] != 0 {
        into[count] = at as u8;
        count += 1;
        at += 1 + usize::from(name[at]);
    }
    count
}

fn label_at(bytes: &[u8], at: u8) -> &[u8] {
    let at = usize::from(at);
    &bytes[at + 1..at + 1 + usize::from(bytes[at])]
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Name<'_> {}

/// Iterator over the labels of a name, from the left, without their lengths and the root.
#[derive(Clone, Debug)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(*self.0.first()?);
        if len == 0 {
            return None;
        }
        let (label, rest) = self.0[1..].split_at(len);
        self.0 = rest;
        Some(label)
    }
}

/// Presentation format (RFC 1035 §5.1) with the final dot. Bytes that are not visible characters
/// are written as `\DDD`.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(byte))?;
                    }
                    0x21..=0x7e => write!(f, "{}", char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl NameBuf {
    /// The root.
    pub const fn root() -> Self {
        Self { len: 1, bytes: [0; Name::LEN_MAX] }
    }

    /// The borrowed form.
    pub fn as_name(&self) -> Name<'_> {
        Name(&self.bytes[..usize::from(self.len)])
    }

    /// Reads presentation format. A name without a final dot is relative to `origin`; `@` is the
    /// origin itself.
    ///
    /// # Errors
    /// The text is not a name, or the name is too long.
    pub fn from_text(text: &[u8], origin: Name<'_>) -> Result<Self, NameError> {
        match text {
            b"@" => return Ok(origin.into()),
            b"." => return Ok(Self::root()),
            b"" => return Err(NameError::EmptyLabel),
            _ => {}
        }
        let mut builder =
            NameBuilder { name: Self { len: 0, bytes: [0; Name::LEN_MAX] }, start: 0 };
        let mut rest = text.iter().copied();
        builder.open()?;
        let mut relative = true;
        while let Some(byte) = rest.next() {
            relative = true;
            match byte {
                b'.' => {
                    builder.close()?;
                    relative = false;
                    if rest.len() > 0 {
                        builder.open()?;
                    }
                }
                b'\\' => builder.push(unescape(&mut rest)?)?,
                _ => builder.push(byte)?,
            }
        }
        if relative {
            builder.close()?;
        }
        builder.append(if relative { origin } else { Name::ROOT })
    }

    /// One label in front of `parent`.
    ///
    /// # Errors
    /// The label is empty or longer than 63 bytes, or the name longer than 255.
    pub fn with_label(label: &[u8], parent: Name<'_>) -> Result<Self, NameError> {
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        if label.len() > Name::LABEL_MAX {
            return Err(NameError::LabelLength);
        }
        let len = 1 + label.len() + parent.len();
        if len > Name::LEN_MAX {
            return Err(NameError::NameLength);
        }
        let mut name = Self { len: len as u8, bytes: [0; Name::LEN_MAX] };
        name.bytes[0] = label.len() as u8;
        name.bytes[1..=label.len()].copy_from_slice(label);
        name.bytes[1 + label.len()..len].copy_from_slice(parent.as_bytes());
        Ok(name)
    }

    /// The labels of `relative`, which has no root, in front of `origin`. `relative` must consist
    /// of whole labels.
    ///
    /// # Errors
    /// The name would be longer than 255 bytes.
    pub fn joined(relative: &[u8], origin: Name<'_>) -> Result<Self, NameError> {
        let len = relative.len() + origin.len();
        if len > Name::LEN_MAX {
            return Err(NameError::NameLength);
        }
        let mut bytes = [0; Name::LEN_MAX];
        bytes[..relative.len()].copy_from_slice(relative);
        bytes[relative.len()..len].copy_from_slice(origin.as_bytes());
        Ok(Self { len: len as u8, bytes })
    }

    /// Length bytes are at most 63, so they are never letters.
    pub fn make_lowercase(&mut self) {
        self.bytes[..usize::from(self.len)].make_ascii_lowercase();
    }
}

/// The byte of an escape: `\X` or `\DDD`.
fn unescape(rest: &mut impl Iterator<Item = u8>) -> Result<u8, NameError> {
    let first = rest.next().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u16::from(first - b'0');
    for _ in 0..2 {
        let digit = rest.next().filter(u8::is_ascii_digit).ok_or(NameError::Escape)?;
        value = value * 10 + u16::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::Escape)
}

/// A name while its text is read: `start` is the length byte of the open label.
struct NameBuilder {
    name: NameBuf,
    start: usize,
}

impl NameBuilder {
    fn open(&mut self) -> Result<(), NameError> {
        self.start = self.name.len.into();
        self.push(0)
    }

    fn push(&mut self, byte: u8) -> Result<(), NameError> {
        let at = usize::from(self.name.len);
        if at - self.start > Name::LABEL_MAX {
            return Err(NameError::LabelLength);
        }
        // One byte is reserved for the root.
        if at >= Name::LEN_MAX - 1 {
            return Err(NameError::NameLength);
        }
        self.name.bytes[at] = byte;
        self.name.len += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), NameError> {
        let len = usize::from(self.name.len) - self.start - 1;
        if len == 0 {
            return Err(NameError::EmptyLabel);
        }
        self.name.bytes[self.start] = len as u8;
        Ok(())
    }

    fn append(mut self, suffix: Name<'_>) -> Result<NameBuf, NameError> {
        let at = usize::from(self.name.len);
        let end = at + suffix.len();
        if end > Name::LEN_MAX {
            return Err(NameError::NameLength);
        }
        self.name.bytes[at..end].copy_from_slice(suffix.as_bytes());
        self.name.len = end as u8;
        Ok(self.name)
    }
}

impl From<Name<'_>> for NameBuf {
    fn from(name: Name<'_>) -> Self {
        let mut bytes = [0; Name::LEN_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Self { len: name.len() as u8, bytes }
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_name() == other.as_name()
    }
}

impl Eq for NameBuf {}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_name(), f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_name(), f)
    }
}

#[cfg(test)]
mod tests;
