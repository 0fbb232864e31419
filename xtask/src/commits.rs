//! A commit says what it does, why if it is long, and is short enough to be read.
use std::path::Path;
use std::process::Command;

/// The commit after which the rules hold: earlier ones are as they are.
const SINCE: &str = "19a15356";
/// Characters of a subject.
const SUBJECT_LEN_MAX: usize = 72;
/// Inserted lines above which a commit has a body that says why.
const BODY_FROM: u32 = 100;
/// Inserted lines of a commit, without moved files.
const LINES_MAX: u32 = 3_000;

/// What begins a commit, and a part of it, in the output of git.
const COMMIT: char = '\u{1e}';
const PART: char = '\u{1f}';

/// What is wrong, a line each. A clone without these commits, such as a shallow one or a source
/// archive, has nothing to check.
pub fn violations(root: &Path) -> Vec<String> {
    let format = format!("--format={COMMIT}%h{PART}%s{PART}%b{PART}");
    let range = format!("{SINCE}..HEAD");
    let options = ["log", "--no-merges", "-M", "--shortstat", &format, &range];
    let output = Command::new("git").args(options).current_dir(root).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).split(COMMIT).skip(1).filter_map(check).collect()
}

/// The fault of a commit.
fn check(commit: &str) -> Option<String> {
    let mut parts = commit.split(PART);
    let (hash, subject, body) = (parts.next()?, parts.next()?, parts.next()?);
    let inserted = inserted(parts.next().unwrap_or_default());
    let why = if subject.chars().count() > SUBJECT_LEN_MAX {
        format!("its subject has more than {SUBJECT_LEN_MAX} characters")
    } else if inserted > BODY_FROM && body.trim().is_empty() {
        format!("{inserted} lines, and no body that says why")
    } else if inserted > LINES_MAX {
        format!("{inserted} lines, and {LINES_MAX} are the most that are not moved")
    } else {
        return None;
    };
    Some(format!("{hash} {subject}: {why}"))
}

/// The inserted lines in git's summary, such as ` 2 files changed, 7 insertions(+)`.
fn inserted(summary: &str) -> u32 {
    let part = summary.split(", ").find(|part| part.contains("insertion"));
    let number = part.and_then(|part| part.trim().split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_short_or_say_why() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn long_commit_needs_a_body_and_has_a_limit() {
        let check = |subject: &str, body: &str, lines: u32| {
            let summary = format!("\n\n 1 file changed, {lines} insertions(+), 1 deletion(-)\n");
            check(&format!("1a2b3c{PART}{subject}{PART}{body}{PART}{summary}"))
        };
        assert_eq!(check("a: do this", "", 100), None);
        assert!(check("a: do this", "\n", 101).expect("no body").ends_with("that says why"));
        assert_eq!(check("a: do this", "It was slow.", 3_000), None);
        assert!(check("a: do this", "It was slow.", 3_001).is_some());
        assert!(check(&"x".repeat(73), "", 1).is_some());
        assert_eq!(super::check(&format!("1a{PART}a{PART}{PART}")), None, "only moved files");
    }
}
