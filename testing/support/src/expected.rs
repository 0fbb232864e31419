//! Files that hold the expected outcome of a test. `BLESS=1` writes it: review the difference.
use std::fs;
use std::path::Path;

/// Checks that a file has this text.
///
/// # Panics
/// It has not.
pub fn check(file: &Path, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(file, text).expect("it can be written");
        return;
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(text, expected, "{}: BLESS=1 writes it", file.display());
}

/// Checks that a page has this table, which begins with `head` and ends before an empty line.
///
/// # Panics
/// It has not.
pub fn check_table(page: &Path, head: &str, table: &str) {
    let text = fs::read_to_string(page).expect("a page");
    let begin = text.find(head).expect("a table");
    let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end + 1);
    check(page, &(text[..begin].to_owned() + table + &text[end..]));
}
