//! Tables: with spaces for a terminal, with bars for Markdown.

use std::fmt::Write;

/// Maximum width of a column. A longer cell shifts the rest of its line.
const COLUMN_WIDTH_MAX: usize = 200;

/// Rows of cells under a header. Text is left-aligned, numbers are right-aligned.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    texts: usize,
}

impl Table {
    /// A table with these columns, of which the first is text and all others are numbers.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new(), texts: 1 }
    }

    /// The same with more columns of text in front.
    pub fn texts(mut self, columns: usize) -> Self {
        self.texts = columns;
        self
    }

    /// Adds a row; surplus cells are dropped, missing ones are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
        self
    }

    /// As Markdown; a bar in a cell is escaped.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        };
        line(&self.head);
        let rule = |column: usize| if column < self.texts { "---" } else { "---:" };
        line(&(0..self.head.len()).map(|column| rule(column).to_owned()).collect::<Vec<_>>());
        self.rows.iter().for_each(|row| line(row));
        text
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| {
            let widest = lines().map(|line| line[column].chars().count()).max();
            widest.unwrap_or_default().min(COLUMN_WIDTH_MAX)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for line in lines() {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                match column < self.texts {
                    true => write!(text, "{gap}{cell:<width$}")?,
                    false => write!(text, "{gap}{cell:>width$}")?,
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}
