//! Words that the project does not use any more. `words.txt` lists the files that still have some,
//! with how many; it may only shrink.
use crate::repository;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// A word or phrase in lower case, and what to write instead.
const WORDS: [(&str, &str); 45] = [
    ("abroad", "`ForwardConfig`, or what it is"),
    ("are told", "name who receives what: reported, received"),
    ("asked wrongly", "usage error"),
    ("asker", "client, or `UpstreamClient`"),
    ("clerk", "`Writer`"),
    ("desk", "`RecordService`, or what it does"),
    ("dice", "random numbers"),
    ("door", "API, inputs, outputs"),
    ("doors", "API, inputs, outputs"),
    ("elsewhere's", "forwarded"),
    ("everybody", "every client, all"),
    ("everybody else's", "forwarded"),
    ("glance", "`fast_parse`"),
    ("has be asked", "sends queries to"),
    ("is told", "name who receives what: reports, receives"),
    ("kitchen", "`WorkerDeps`"),
    ("ledger", "`Rrl`"),
    ("mailbox", "`UpdateQueue`"),
    ("mouth", "`Sender`"),
    ("names of others", "forwarded names"),
    ("neighbours", "`PeerShards`"),
    ("nobody", "no client, unauthenticated, or the noun itself"),
    ("nobody's", "no client's, or the noun itself"),
    ("nowhere", "`NoForwarding`"),
    ("obey", "apply"),
    ("octet", "byte"),
    ("octets", "bytes"),
    ("others' names", "forwarded names"),
    ("past the kernel", "AF_XDP, kernel bypass"),
    ("plate", "README"),
    ("predecessor", "old process"),
    ("put off", "deferred"),
    ("scout", "`Classifier`"),
    ("seats", "`ConnectionLimiter`"),
    ("shelf", "what it holds"),
    ("somebody", "a client, a process: the noun itself"),
    ("somebody else's", "forwarded, another server's"),
    ("successor", "new process"),
    ("take over", "hot restart"),
    ("take-over", "hot restart"),
    ("takes over", "hot restart"),
    ("was told", "name who receives what: reported, received"),
    ("whoever", "the noun: a client, an operator"),
    ("wish", "`Command`"),
    ("wishes", "`Command`"),
];

/// Words that no new item has in its name, and what to write instead. Names of standards stay, such
/// as that of the question section.
const NAME_WORDS: [(&str, &str); 16] = [
    ("beside", "what it is: reference, companion"),
    ("happened", "event, result"),
    ("kept", "stored, saved, pending"),
    ("look", "read, check, find"),
    ("looked", "read, checked, found"),
    ("looks", "reads, checks, finds"),
    ("mend", "repair, clear"),
    ("mended", "repaired, cleared"),
    ("mends", "repairs, clears"),
    ("note", "record, comment"),
    ("question", "query"),
    ("questions", "queries"),
    ("said", "reported, published"),
    ("seen", "known, observed"),
    ("told", "reported, received"),
    ("whole", "complete, all"),
];

/// What an item is declared by.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "mod", "static", "struct", "trait", "type"];

/// Files that quote these words, or are made by a program.
const EXEMPT: [&str; 3] = ["xtask/src/words.rs", "xtask/words.txt", "LICENSE"];

/// Parts of lines that keep such a word: names of the field, names that other versions read, data.
const ALLOWED: [&str; 10] = [
    "-octets",
    "\"take-over\"",
    "\\\"take-over\\\"",
    "rule::mailbox",
    "alias = \"octets",
    "mailbox queries",
    "mailbox = \"mailbox\"",
    "nobody.invalid",
    "octet-stream",
    "type octets",
];

/// Kinds of file that people read and write.
const KINDS: [&str; 10] =
    [".awk", ".c", ".json", ".md", ".rs", ".service", ".sh", ".toml", ".yaml", ".yml"];

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let allowed = fs::read_to_string(root.join("xtask/words.txt")).unwrap_or_default();
    compare(&read_allowed(&allowed), &count_all(root))
}

/// Writes how many there are of each file.
///
/// # Errors
/// The file cannot be written.
pub fn write(root: &Path) -> io::Result<()> {
    let mut text = String::new();
    for (file, found) in count_all(root) {
        writeln!(text, "{} {file}", found.len()).expect("memory");
    }
    fs::write(root.join("xtask/words.txt"), text)
}

fn compare(
    allowed: &BTreeMap<String, usize>,
    counted: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, found) in counted {
        let most = allowed.get(file).copied().unwrap_or(0);
        if found.len() > most {
            wrong.push(format!("{file}: {} such words, {most} allowed:", found.len()));
            wrong.extend(found.iter().map(|one| format!("  {file}:{one}")));
        }
    }
    for (file, most) in allowed {
        let count = counted.get(file).map_or(0, Vec::len);
        if count < *most {
            wrong.push(format!(
                "{file}: {count} such words, {most} listed: cargo xtask words --write"
            ));
        }
    }
    wrong
}

fn read_allowed(text: &str) -> BTreeMap<String, usize> {
    let line = |line: &str| {
        let (count, file) = line.split_once(' ')?;
        Some((file.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The files that have such words: where, which, and what to write instead.
fn count_all(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut counted = BTreeMap::new();
    for file in repository::tracked(root, &[]).into_iter().filter(|file| is_read(file)) {
        let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
        let mut found = find(&text);
        if file.ends_with(".rs") {
            found.extend(find_names(&text));
        }
        if !found.is_empty() {
            counted.insert(file, found);
        }
    }
    counted
}

fn is_read(file: &str) -> bool {
    let is_script = !file.rsplit('/').next().unwrap_or_default().contains('.');
    let is_script =
        is_script && ["bench/", "scripts/", "Makefile"].iter().any(|f| file.starts_with(f));
    !EXEMPT.contains(&file) && (is_script || KINDS.iter().any(|kind| file.ends_with(kind)))
}

fn find(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut line = line.to_lowercase();
        for allowed in ALLOWED {
            line = line.replace(allowed, "");
        }
        for (word, instead) in WORDS {
            let count =
                line.match_indices(word).filter(|(at, _)| is_old_word(&line, *at, word)).count();
            found.extend((0..count).map(|_| format!("{}: `{word}`: {instead}", number + 1)));
        }
    }
    found
}

/// Items whose names have one of these words as a part.
fn find_names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let items = words.windows(2).filter(|pair| ITEMS.contains(&pair[0]));
        if line.trim_start().starts_with("//") {
            continue;
        }
        for name in items.map(|pair| pair[1]) {
            let parts = parts(name);
            let is_look_up = name.to_lowercase().replace('_', "").contains("lookup");
            for (word, instead) in NAME_WORDS.iter().filter(|(word, _)| {
                parts.iter().any(|part| part == word) && !(is_look_up && *word == "look")
            }) {
                found.push(format!("{}: `{name}`: `{word}`: {instead}", number + 1));
            }
        }
    }
    found
}

/// The words of a name in `snake_case` or `CamelCase`, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut before = '_';
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before.is_lowercase()) || parts.is_empty() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c != '_') {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

/// Whether it is a whole word, and neither a method of the standard library
/// (`Ipv4Addr::octets`) nor a flag.
fn is_old_word(line: &str, at: usize, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    let before = line[..at].chars().next_back();
    let after = line[at + word.len()..].chars().next();
    let is_method = before == Some('.') && after == Some('(');
    // A flag keeps its name until a release renames it: `--take-over`.
    let is_flag = line[..at].ends_with("--");
    let is_part = before.is_some_and(is_letter) || after.is_some_and(is_letter);
    !is_part && !is_method && !is_flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_words_only_become_fewer() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        let found = find("Nobody knows.\nan octet, OCTETS; desktop\n`Desk`\nip.octets()");
        let lines: Vec<&str> =
            found.iter().map(|one| one.split(':').next().expect("a line")).collect();
        assert_eq!(lines, ["1", "2", "2", "3"]);
    }

    #[test]
    fn words_are_found_in_names_of_items() {
        let text = "struct KeptSlice;\nfn look_up() {}\nfn take_said() { seen(); }\n\
                    // fn told\nconst TOLD_MAX: u8 = 1;\nfn keptlike() {}\n";
        let lines: Vec<String> = find_names(text).iter().map(|one| one[..1].to_owned()).collect();
        assert_eq!(lines, ["1", "3", "5"]);
    }

    #[test]
    fn more_words_than_listed_and_fewer_are_reported() {
        let allowed = read_allowed("2 a.md\n1 b.md\n");
        let counted = |counts: &[(&str, usize)]| {
            let one =
                |(file, count): &(&str, usize)| ((*file).to_owned(), vec![String::new(); *count]);
            counts.iter().map(one).collect()
        };
        assert!(compare(&allowed, &counted(&[("a.md", 2), ("b.md", 1)])).is_empty());
        assert!(compare(&allowed, &counted(&[("a.md", 3), ("b.md", 1)]))[0].starts_with("a.md: 3"));
        assert!(compare(&allowed, &counted(&[("a.md", 2)]))[0].starts_with("b.md: 0"));
        assert!(compare(&allowed, &counted(&[("a.md", 2), ("b.md", 1), ("c.md", 1)])).len() == 2);
    }
}
