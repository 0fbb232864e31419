//! Each figure stands on one page: the tables that a `make` target measured are not on two.
//!
//! A table belongs to the targets `make bench-…` and `make campaign-…` that its heading or the
//! paragraph before it names. Other pages link to it.
use crate::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let read = repository::pages(root);
    let mut pages: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (page, text) in &read {
        for target in measured(text) {
            pages.entry(target).or_default().insert(page);
        }
    }
    let twice = pages.iter().filter(|(_, pages)| pages.len() > 1);
    let mut wrong: Vec<String> = twice
        .map(|(target, pages)| {
            let pages: Vec<&str> = pages.iter().copied().collect();
            format!("figures of {target} are on {}: keep one", pages.join(" and "))
        })
        .collect();
    if pages.is_empty() {
        wrong.push("no page has figures".into());
    }
    wrong
}

/// The targets whose tables a page has.
fn measured(text: &str) -> BTreeSet<String> {
    let (mut heading, mut paragraph, mut before) = (Vec::new(), Vec::new(), "");
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('#') {
            (heading, paragraph) = (targets(line), Vec::new());
        } else if line.starts_with('|') && !before.starts_with('|') {
            found.extend(heading.iter().chain(&paragraph).cloned());
        } else if !line.starts_with('|') && !line.is_empty() {
            // The lines of one paragraph follow each other.
            if before.is_empty() {
                paragraph.clear();
            }
            paragraph.extend(targets(line));
        }
        before = line;
    }
    found
}

fn targets(line: &str) -> Vec<String> {
    let quoted = line.split('`').skip(1).step_by(2);
    let words = quoted.filter_map(|quoted| {
        let target = quoted.strip_prefix("make ")?.split(' ').next()?;
        let is_one = target.starts_with("bench-") || target.starts_with("campaign-");
        is_one.then(|| format!("make {target}"))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_target_are_on_one_page() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn tables_belong_to_their_heading_and_to_the_paragraph_before_them() {
        let page = "# Costs: `make bench-a`\n\nOf `make bench-b` and `make test`\nand \
                    `make campaign-c SECONDS=3`:\n\n| figure |\n| --- |\n| 1 |\n\n\
                    See `make bench-d`.\n\n## Other\n\nNo table here, but `make bench-e`.\n";
        let expected = ["make bench-a", "make bench-b", "make campaign-c"];
        assert_eq!(measured(page).into_iter().collect::<Vec<_>>(), expected);
    }
}
