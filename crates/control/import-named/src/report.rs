//! The remarks of an import, up to a limit.
use crate::limits::REMARKS_MAX;
use import_report::{FilePosition, ImportRemark};

/// The remarks of an import.
#[derive(Debug, Default)]
pub struct Report {
    remarks: Vec<ImportRemark>,
    /// The number of remarks above the limit.
    more: usize,
}

impl Report {
    /// Adds a remark.
    pub fn add(&mut self, place: &FilePosition, is_lost: bool, text: impl Into<String>) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(ImportRemark { place: place.clone(), is_lost, text: text.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds all remarks of a list.
    pub fn extend(&mut self, remarks: Vec<ImportRemark>) {
        for remark in remarks {
            self.add(&remark.place, remark.is_lost, remark.text);
        }
    }

    /// All remarks by their positions.
    pub fn close(mut self) -> Vec<ImportRemark> {
        if self.more > 0
            && let Some(last) = self.remarks.last().cloned()
        {
            let text = format!("and {} more notes", self.more);
            self.remarks.push(ImportRemark { text, ..last });
        }
        let order = |one: &ImportRemark| (one.place.file.clone(), one.place.line, one.place.column);
        self.remarks.sort_by_key(order);
        self.remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_above_the_limit_are_counted() {
        let mut report = Report::default();
        for line in (1..=REMARKS_MAX + 2).rev() {
            report.add(&FilePosition { file: "f".into(), line, column: 1 }, true, "x");
        }
        let remarks = report.close();
        assert_eq!(remarks.len(), REMARKS_MAX + 1);
        assert_eq!(remarks[1].to_string(), "f:3:1: lost: and 2 more notes");
    }
}
