//! The remarks of an import, up to a limit.
use crate::limits::REMARKS_MAX;
use crate::{FilePosition, ImportRemark};

/// The remarks of an import, in the order in which they are found.
#[derive(Debug, Default)]
pub struct Remarks {
    first: Vec<ImportRemark>,
    /// The number of remarks above the limit, and whether something is lost in one of them.
    more: (usize, bool),
}

impl Remarks {
    /// Adds a remark.
    pub fn add(&mut self, place: &FilePosition, is_lost: bool, text: impl Into<String>) {
        if self.first.len() < REMARKS_MAX {
            self.first.push(ImportRemark { place: place.clone(), is_lost, text: text.into() });
        } else {
            self.more = (self.more.0 + 1, self.more.1 | is_lost);
        }
    }

    /// Adds all remarks of a list.
    pub fn extend(&mut self, remarks: Vec<ImportRemark>) {
        for remark in remarks {
            self.add(&remark.place, remark.is_lost, remark.text);
        }
    }

    /// All remarks by their positions, the files by name.
    pub fn close(self) -> Vec<ImportRemark> {
        self.close_by(|place| (place.file.clone(), place.line, place.column))
    }

    /// All remarks in an order of their positions; the last one has the number of further ones.
    pub fn close_by<K: Ord>(mut self, order: impl Fn(&FilePosition) -> K) -> Vec<ImportRemark> {
        self.first.sort_by_key(|remark| order(&remark.place));
        let (more, is_lost) = self.more;
        if more > 0
            && let Some(last) = self.first.last()
        {
            let (place, text) = (last.place.clone(), format!("and {more} more notes"));
            self.first.push(ImportRemark { place, is_lost, text });
        }
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_above_the_limit_are_counted() {
        let mut remarks = Remarks::default();
        for line in (1..=REMARKS_MAX + 2).rev() {
            let place = FilePosition { file: "f".into(), line, column: 1 };
            remarks.add(&place, line == 1, "x");
        }
        let remarks = remarks.close();
        assert_eq!(remarks.len(), REMARKS_MAX + 1);
        assert_eq!(remarks[0].to_string(), "f:3:1: note: x");
        let last = remarks.last().map(ToString::to_string);
        assert_eq!(last.as_deref(), Some("f:4098:1: lost: and 2 more notes"));
    }
}
