//! Cuts a stream into lines.
use crate::limits::{OBJECT_LEN_MAX, SKIPPED_HEAD_LEN};

/// A line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// The start of a line that is longer than an object may be. The rest of it is skipped.
    TooLong(Vec<u8>),
}

/// Cuts bytes into lines.
#[derive(Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// The start of the first line that was not returned.
    start: usize,
    /// No line ends before this.
    searched: usize,
    /// All bytes up to the next end of a line belong to one that is too long.
    is_skipping: bool,
}

impl Lines {
    /// Takes more bytes of the stream.
    pub fn push(&mut self, data: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(data);
    }

    /// Whether the stream is within a line.
    pub fn is_within(&self) -> bool {
        self.is_skipping || self.start < self.bytes.len()
    }

    /// The next line.
    pub fn next(&mut self) -> Option<Line> {
        loop {
            let rest = &self.bytes[self.searched..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
            let end = self.searched + end;
            let line = &self.bytes[self.start..end];
            let found = match (self.is_skipping, line.len() > OBJECT_LEN_MAX) {
                (true, _) => None,
                (false, false) => Some(Line::Whole(line.to_vec())),
                (false, true) => Some(Line::TooLong(head(line))),
            };
            self.is_skipping = false;
            (self.start, self.searched) = (end + 1, end + 1);
            if found.is_some() {
                return found;
            }
        }
        self.searched = self.bytes.len();
        let rest = &self.bytes[self.start..];
        if !self.is_skipping && rest.len() <= OBJECT_LEN_MAX {
            return None;
        }
        // Nothing of a line that is too long is kept.
        let found = (!self.is_skipping).then(|| Line::TooLong(head(rest)));
        (self.is_skipping, self.start, self.searched) = (true, 0, 0);
        self.bytes = Vec::new();
        found
    }
}

fn head(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(SKIPPED_HEAD_LEN)].to_vec()
}

/// The namespace and the name of the object in a line of which only the start is known. The API
/// server writes metadata first, in compact JSON.
pub fn object_name(head: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(head);
    let (_, metadata) = text.split_once("\"metadata\":{")?;
    let value = |key: &str| {
        let (_, value) = metadata.split_once(&format!("\"{key}\":\""))?;
        Some(value.split_once('"')?.0.to_owned())
    };
    Some((value("namespace").unwrap_or_default(), value("name")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines) -> Vec<Line> {
        std::iter::from_fn(|| lines.next()).collect()
    }

    #[test]
    fn lines_are_cut_wherever_the_bytes_are() {
        let text = b"first\nsecond\n\nlast";
        for at in 0..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for part in [&text[..at], &text[at..]] {
                lines.push(part);
                found.extend(all(&mut lines));
            }
            let whole = [&b"first"[..], b"second", b""].map(|line| Line::Whole(line.to_vec()));
            assert_eq!(found, whole, "cut at {at}");
            assert!(lines.is_within());
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_takes_no_memory() {
        let long = "x".repeat(OBJECT_LEN_MAX + 1);
        let head = Line::TooLong(b"x".repeat(SKIPPED_HEAD_LEN));
        let text = format!("one\n{long}\ntwo\n");
        for part in [1 << 20, 65_537, text.len()] {
            let (mut lines, mut found, mut most) = (Lines::default(), Vec::new(), 0);
            for data in text.as_bytes().chunks(part) {
                lines.push(data);
                found.extend(all(&mut lines));
                most = most.max(lines.bytes.len());
            }
            let short = |line: &str| Line::Whole(line.into());
            assert_eq!(
                found,
                [short("one"), Line::TooLong(b"x".repeat(SKIPPED_HEAD_LEN)), short("two")]
            );
            assert!(most <= OBJECT_LEN_MAX + part, "{most}");
        }
        let mut endless = Lines::default();
        let mut found = Vec::new();
        for _ in 0..40 {
            endless.push(&[b'x'; 1 << 20]);
            found.extend(all(&mut endless));
            assert!(endless.bytes.len() <= OBJECT_LEN_MAX + 1 && endless.is_within());
        }
        assert_eq!(found, [head]);
    }

    #[test]
    fn the_name_of_an_object_is_in_the_start_of_its_line() {
        let line = r#"{"type":"ADDED","object":{"kind":"EndpointSlice","apiVersion":"v1",
            "metadata":{"name":"web-1","generateName":"web-","namespace":"shop","uid":"#;
        let name = object_name(line.as_bytes());
        assert_eq!(name, Some(("shop".to_owned(), "web-1".to_owned())));
        let cluster = br#"{"type":"ADDED","object":{"metadata":{"name":"shop","uid":"1","#;
        assert_eq!(object_name(cluster), Some((String::new(), "shop".into())));
        assert_eq!(object_name(b"{\"metadata\":{\"labels\""), None);
    }
}
