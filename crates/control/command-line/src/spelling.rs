//! Guesses which word was meant.

/// The nearest known word, if at most a third of it differs.
pub fn nearest<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    let (distance, nearest) = words.iter().map(|other| (distance(word, other), *other)).min()?;
    (distance <= 1.max(nearest.len() / 3)).then_some(nearest)
}

/// The number of letters to insert, delete or replace; a swap of two letters counts as one.
fn distance(a: &str, b: &str) -> usize {
    let sorted = |word: &str| {
        let mut letters = word.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    if a != b && sorted(a) == sorted(b) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_others_are_not() {
        let words = ["listen", "workers", "id"];
        assert_eq!(nearest("listn", &words), Some("listen"));
        assert_eq!(nearest("worker", &words), Some("workers"));
        assert_eq!(nearest("wrokers", &words), Some("workers"));
        assert_eq!(nearest("naem", &["file", "name"]), Some("name"));
        assert_eq!(nearest("colour", &words), None);
    }
}
