//! Rewrite rules.
use crate::DepthMask;
use core::cmp::Ordering;
use core::iter;
use wire::{Name, NameBuf, NameError, QName};

/// Answers queries for one name, or for all names at and below it, from another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteRule {
    /// The query name, in lower case.
    pub from: NameBuf,
    /// The name to look up, in lower case.
    pub to: NameBuf,
    /// Whether names below `from` are excluded.
    pub exact: bool,
}

impl RewriteRule {
    /// The name to look up for a query name of this rule.
    ///
    /// # Errors
    /// The name is too long.
    pub fn apply(&self, name: &QName) -> Result<NameBuf, NameError> {
        let below = name.as_bytes().len() - self.from.as_name().len();
        NameBuf::joined(&name.as_bytes()[..below], self.to.as_name())
    }

    /// Translates a name of the answer back; `None` if it stays as it is, or would be too long.
    pub fn revert(&self, name: Name<'_>) -> Option<NameBuf> {
        let (from, to) = (self.from.as_name(), self.to.as_name());
        let is_about = if self.exact { name == to } else { name.is_within(to) };
        let below = name.len() - to.len().min(name.len());
        is_about.then(|| NameBuf::joined(&name.as_bytes()[..below], from).ok()).flatten()
    }
}

/// All rewrite rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rewrites<'r> {
    rules: &'r [RewriteRule],
    depths: DepthMask,
}

impl<'r> Rewrites<'r> {
    /// Rules in the order of [`Rewrites::sort`], no two for the same names.
    pub fn new(rules: &'r [RewriteRule]) -> Self {
        let mut depths = DepthMask::default();
        rules.iter().for_each(|rule| depths.insert(rule.from.as_name().labels().count()));
        Self { rules, depths }
    }

    /// Sorts rules for [`Rewrites::new`]: in canonical order (RFC 4034 §6.1), and for one name the
    /// exact rule last.
    pub fn sort(rules: &mut [RewriteRule]) {
        rules.sort_unstable_by(|a, b| {
            a.from.as_name().canonical_cmp(b.from.as_name()).then(a.exact.cmp(&b.exact))
        });
    }

    /// Whether there are no rules.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule with a number from [`Rewrites::find`].
    pub fn get(&self, number: usize) -> Option<&'r RewriteRule> {
        self.rules.get(number)
    }

    /// The number of the rule for a name: the one with the longest `from`, and for the same `from`
    /// the exact one.
    pub fn find(&self, name: &QName) -> Option<usize> {
        let mut best = None;
        for depth in self.depths.up_to(name.labels()) {
            let suffix = name.from(name.start_of_last(depth));
            let compare =
                |rule: &RewriteRule| wire::canonical_cmp(rule.from.as_name().as_bytes(), suffix);
            let first = self.rules.partition_point(|rule| compare(rule) == Ordering::Less);
            let same = self.rules[first..].iter().take_while(|rule| compare(rule).is_eq());
            let about = same.enumerate().filter(|(_, rule)| !rule.exact || depth == name.labels());
            best = about.last().map(|(nth, _)| first + nth).or(best);
        }
        best
    }

    /// Whether a rule applies to some name at or below this one.
    pub fn touch(&self, name: Name<'_>) -> bool {
        let from = |at: usize| self.rules.get(at).map(|rule| rule.from.as_name());
        let at = |name: Name<'_>| {
            self.rules.partition_point(|rule| rule.from.as_name().canonical_cmp(name).is_lt())
        };
        // In canonical order a name is directly followed by those below it.
        let is_below = from(at(name)).is_some_and(|from| from.is_within(name));
        // The first of two rules with one name also applies to names below it.
        let covers = |name: &Name<'_>| {
            let at = at(*name);
            from(at) == Some(*name) && !self.rules[at].exact
        };
        is_below || iter::successors(Some(name), |name| name.parent()).any(|name| covers(&name))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
    }

    fn rules() -> Vec<RewriteRule> {
        let rule = |(from, to, exact)| RewriteRule { from: name(from), to: name(to), exact };
        let mut rules: Vec<_> = [
            ("old.example", "new.example.net", false),
            ("deep.old.example", "x", false),
            ("www.old.example", "web.example", true),
            ("old.example", "apex.example", true),
            ("alone.example", "other.example", true),
        ]
        .map(rule)
        .into();
        Rewrites::sort(&mut rules);
        rules
    }

    fn apply(text: &str) -> Option<String> {
        let rules = rules();
        let rewrites = Rewrites::new(&rules);
        let mut qname = QName::new();
        qname.set(name(text).as_name());
        let rule = rewrites.get(rewrites.find(&qname)?).unwrap();
        let other = rule.apply(&qname).map(|name| name.as_name().to_string());
        Some(other.unwrap_or_else(|why| why.to_string()))
    }

    #[test]
    fn the_longest_name_decides_and_the_exact_one_before_the_suffix() {
        for (text, other) in [
            ("A.Old.example", Some("a.new.example.net.")),
            ("a.b.old.example", Some("a.b.new.example.net.")),
            ("old.example", Some("apex.example.")),
            ("www.old.example", Some("web.example.")),
            ("a.www.old.example", Some("a.www.new.example.net.")),
            ("deep.old.example", Some("x.")),
            ("a.deep.old.example", Some("a.x.")),
            ("alone.example", Some("other.example.")),
            ("a.alone.example", None),
            ("bold.example", None),
            ("example", None),
            (".", None),
        ] {
            assert_eq!(apply(text).as_deref(), other, "{text}");
        }
        let long = [["a"; 60].join("."), ["b"; 60].join(".")].join(".") + ".old.example";
        assert_eq!(apply(&long).unwrap(), NameError::NameLength.to_string());
    }

    #[test]
    fn names_of_an_answer_are_called_what_was_asked_for() {
        let rules = rules();
        let revert = |from: &str, exact, text: &str| {
            let is_match = |rule: &&RewriteRule| {
                rule.from.as_name() == name(from).as_name() && rule.exact == exact
            };
            let rule = rules.iter().find(is_match).unwrap();
            rule.revert(name(text).as_name()).map(|name| name.as_name().to_string())
        };
        let suffix = |text| revert("old.example", false, text);
        assert_eq!(suffix("a.NEW.example.net").as_deref(), Some("a.old.example."));
        assert_eq!(suffix("new.example.net").as_deref(), Some("old.example."));
        assert_eq!(suffix("example.net"), None);
        assert_eq!(suffix("anew.example.net"), None);
        let exact = |text| revert("www.old.example", true, text);
        assert_eq!(exact("web.example").as_deref(), Some("www.old.example."));
        assert_eq!(exact("a.web.example"), None, "it would not be looked up there");
        let long = [["a"; 60].join("."), ["b"; 60].join(".")].join(".") + ".x";
        assert_eq!(revert("deep.old.example", false, &long), None, "too long");
    }

    #[test]
    fn a_zone_is_touched_by_what_is_above_at_or_below_it() {
        let rules = rules();
        let rewrites = Rewrites::new(&rules);
        for (text, touched) in [
            ("old.example", true),
            ("example", true),
            ("a.b.old.example", true),
            ("a.alone.example", false),
            ("new.example.net", false),
            (".", true),
        ] {
            assert_eq!(rewrites.touch(name(text).as_name()), touched, "{text}");
        }
    }
}
