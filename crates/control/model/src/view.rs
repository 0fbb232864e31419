//! The view of a set: which clients it is for.
use std::fmt;

/// Bytes of the name of a view.
pub const VIEW_NAME_LEN_MAX: usize = 63;
/// What names the view of all clients.
const DEFAULT: &str = "default";

/// The clients that a set is for, and a part of its key: all, or those of a named view, which see
/// its sets in place of those of all clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// First, so that views sort as they do in keys: that of all clients is the least.
    len: u8,
    name: [u8; VIEW_NAME_LEN_MAX],
}

impl View {
    /// That of all clients.
    pub const DEFAULT: Self = Self { len: 0, name: [0; VIEW_NAME_LEN_MAX] };

    /// Its name in JSON and texts.
    pub fn word(&self) -> &str {
        match self.as_bytes() {
            [] => DEFAULT,
            name => str::from_utf8(name).unwrap_or(DEFAULT),
        }
    }

    /// The view of a name; `None`: no view can have it.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            DEFAULT => Some(Self::DEFAULT),
            "" => None,
            name => Self::from_bytes(name.as_bytes()),
        }
    }

    /// Its name in keys; empty: all clients.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name[..self.len.into()]
    }

    /// The view of a name in keys; `None`: no view can have it.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        if !bytes.iter().all(is_allowed) || bytes == DEFAULT.as_bytes() {
            return None;
        }
        let mut view = Self::DEFAULT;
        view.name.get_mut(..bytes.len())?.copy_from_slice(bytes);
        view.len = bytes.len() as u8;
        Some(view)
    }
}

impl Default for View {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_named_as_in_the_config_and_sort_as_in_keys() {
        let longest = "v".repeat(VIEW_NAME_LEN_MAX);
        for word in ["default", "internal", "a.b-c_D9", &longest] {
            let view = View::from_word(word).expect(word);
            assert_eq!((view.word(), View::from_bytes(view.as_bytes())), (word, Some(view)));
        }
        for word in ["", "a b", "a/b", "é", &format!("{longest}v")] {
            assert_eq!(View::from_word(word), None, "{word}");
        }
        assert_eq!(View::from_bytes(b"default"), None, "it has one key");
        let of = |word| View::from_word(word).expect("a view");
        assert!(View::DEFAULT < of("z") && of("z") < of("aa") && of("aa") < of("ab"));
    }
}
