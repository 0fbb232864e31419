//! `packaging/releases`: the releases, for `make campaign-upgrade`. A clone may come without tags.
use std::fs;
use std::path::Path;

const FILE: &str = "packaging/releases";

/// A release.
#[derive(Debug, PartialEq, Eq)]
pub struct Release<'t> {
    /// Its tag, such as `v0.1.0-rc.1`.
    pub version: &'t str,
    /// Its commit: 40 hexadecimal digits.
    pub commit: &'t str,
}

/// Reads the lines of the file, the oldest release first.
///
/// # Errors
/// The line that is wrong, and what is expected.
fn read(text: &str) -> Result<Vec<Release<'_>>, String> {
    let mut releases: Vec<Release<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| Err(format!("{FILE}:{number}: {what}: {line:?}"));
        let Some((version, commit)) = line.split_once(' ') else {
            return wrong("expected a version, a space and a commit");
        };
        let is_version = version.strip_prefix('v').is_some_and(|rest| {
            let core = rest.split_once('-').map_or(rest, |(core, _)| core);
            let numbers: Vec<&str> = core.split('.').collect();
            numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok())
        });
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if !is_version {
            return wrong("expected a version such as v0.1.0 or v0.1.0-rc.1");
        }
        if commit.len() != 40 || !commit.bytes().all(is_digit) {
            return wrong("expected a commit of 40 hexadecimal digits");
        }
        if releases.iter().any(|other| other.version == version || other.commit == commit) {
            return wrong("the version or the commit is there already");
        }
        releases.push(Release { version, commit });
    }
    Ok(releases)
}

/// The version and the commit of the last release.
///
/// # Errors
/// The file cannot be read, is wrong, or names no release.
pub fn last(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|why| format!("{FILE}: {why}"))?;
    let releases = read(&text)?;
    let Release { version, commit } =
        releases.last().ok_or_else(|| format!("{FILE} names no release"))?;
    Ok(format!("{version} {commit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_the_project_are_read() {
        let last = last(&crate::root()).expect("the file of the project");
        assert!(last.starts_with('v'), "{last}");
    }

    #[test]
    fn wrong_line_is_named_with_what_is_expected() {
        let (one, two) = ("a".repeat(40), "0".repeat(40));
        let text = format!("# releases\n\nv0.1.0-rc.1 {one}\nv0.1.0 {two}\n");
        let releases = read(&text).expect("two releases");
        assert_eq!(releases[1], Release { version: "v0.1.0", commit: &two });
        for (line, expected) in [
            ("v0.1.0", "expected a version, a space and a commit"),
            (&format!("0.1.0 {one}"), "expected a version such as"),
            (&format!("v0.1 {one}"), "expected a version such as"),
            (&format!("v0.1.0 {}", &one[1..]), "40 hexadecimal digits"),
            (&format!("v0.1.0 {one} "), "40 hexadecimal digits"),
            (&format!("v0.1.0 {two}\nv0.1.0 {one}"), "there already"),
            (&format!("v0.1.0 {one}\nv0.2.0 {one}"), "there already"),
        ] {
            let why = read(line).expect_err(line);
            assert!(why.contains(expected) && why.starts_with("packaging/releases:"), "{why}");
        }
    }
}
