//! The text of `--version`.

/// The version with what was built, `0.1.0 (1d09426f50a0)`: `commit` is what the environment of the
/// build says (`DUNLIN_COMMIT`, by `git describe`), which is absent in a source archive and while
/// developing.
pub fn version(number: &str, commit: Option<&str>) -> String {
    match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{number} ({commit})"),
        None => format!("{number} (commit unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_names_the_commit_or_says_that_it_is_unknown() {
        assert_eq!(version("0.1.0", Some("v0.1.0-3-g1d09426+")), "0.1.0 (v0.1.0-3-g1d09426+)");
        for absent in [None, Some("")] {
            assert_eq!(version("0.1.0", absent), "0.1.0 (commit unknown)");
        }
    }
}
