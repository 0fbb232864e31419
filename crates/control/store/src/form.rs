//! The form of what a store writes: one number for its files, its keys in etcd and its snapshots.
//!
//! ```text
//! form  tree  keys  snapshot
//!    5     5     1         4   the log has form 3, which counts by itself
//!    6     6     2         5   weights that may change over time, locations, and the policies
//!                         that need them; sets of views; ALIAS records
//!    7     7     3         6   only in a build for tests
//! ```
//! A store keeps its form: what a new version writes can be read by the version before, until an
//! operator raises the form. A write that needs a newer form is refused until then.
use model::{Policy, SetValue, View};
use std::fmt;
use wire::Rtype;

/// Whether this build knows one form more than a release does, for tests of the rule above.
const IS_NEXT: bool = option_env!("DUNLIN_NEXT_FORM").is_some();
const _: () = assert!(
    !IS_NEXT || cfg!(debug_assertions),
    "DUNLIN_NEXT_FORM is for tests: a release is built without it"
);

/// A comment that begins so needs the next form, in a build that knows it.
const NEXT_COMMENT: &str = "next form";
/// What stands before the rules of a set, and before those that need the next form.
const RULES: u8 = 1;
const RULES_OF_NEXT: u8 = 2;

/// The form of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form(pub u32);

impl Form {
    /// The oldest form that this version opens.
    pub const OLDEST: Self = Self(5);
    /// What the release before this version writes. A new store has it, so that one can go back.
    pub const PREVIOUS: Self = Self(5);
    /// The newest form that this version knows.
    pub const NEWEST: Self = Self(if IS_NEXT { 7 } else { 6 });
    /// The first form whose sets have views, weights, locations, and policies that need these.
    const WITH_POLICIES: Self = Self(6);

    /// The number in the key `format` of etcd.
    pub const fn of_keys(self) -> u32 {
        self.0 - 4
    }

    /// The form of keys with this number.
    pub const fn from_keys(number: u32) -> Self {
        Self(number.saturating_add(4))
    }

    /// The number in a snapshot.
    pub const fn of_snapshot(self) -> u8 {
        self.0 as u8 - 1
    }

    /// The oldest form that holds snapshots with this number.
    pub fn from_snapshot(number: u8) -> Self {
        Self(u32::from(number) + 1).max(Self::OLDEST)
    }

    /// The oldest form that can hold a set of this view and type with this policy.
    pub fn of(view: View, rtype: Rtype, policy: &Policy) -> Self {
        match policy.rules() {
            _ if is_next(policy) => Self::NEWEST,
            _ if view != View::DEFAULT || rtype == Rtype::ALIAS => Self::WITH_POLICIES,
            Some(rules) if !rules.is_plain(rtype) => Self::WITH_POLICIES,
            _ => Self::OLDEST,
        }
    }

    /// Whether this version opens a store of this form.
    ///
    /// # Errors
    /// It does not, and what to do.
    pub fn check(self) -> Result<Self, String> {
        if self > Self::NEWEST {
            return Err(format!(
                "it was written by a newer version of Dunlin (form {self}; the newest known is \
                 {}): use that version. One can go back to this one until `dunlin store upgrade`; \
                 after it, write `dunlin zones snapshot --format {} FILE` with the newer version, \
                 and restore FILE with this one into another [server] data_dir",
                Self::NEWEST,
                Self::NEWEST.of_snapshot()
            ));
        }
        if self < Self::OLDEST {
            return Err(format!(
                "it was written by a version of Dunlin before the first release (form {self}; the \
                 oldest known is {}): write `dunlin zones snapshot FILE` with that version, and \
                 restore FILE with this one into another [server] data_dir",
                Self::OLDEST
            ));
        }
        Ok(self)
    }

    /// Whether a store of this form takes what needs another one.
    ///
    /// # Errors
    /// It does not, and what to do.
    pub fn check_need(self, needed: Self) -> Result<(), String> {
        if needed <= self {
            return Ok(());
        }
        Err(format!(
            "it needs form {needed}, and the store has form {self}, which an older version can \
             read: run `dunlin store upgrade` once you need not go back"
        ))
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a set needs the form that only a build for tests knows.
pub(crate) fn is_next(policy: &Policy) -> bool {
    IS_NEXT && policy.comment().starts_with(NEXT_COMMENT)
}

/// What stands before the rules of this set.
pub(crate) fn rules_mark(value: &SetValue) -> u8 {
    if is_next(&value.policy) { RULES_OF_NEXT } else { RULES }
}

/// Whether rules follow this.
pub(crate) fn is_rules_mark(mark: u8) -> bool {
    mark == RULES || IS_NEXT && mark == RULES_OF_NEXT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::{Revision, SetRules};

    /// The numbers of a release. The build for tests has other ones.
    #[test]
    fn release_knows_no_form_for_tests() {
        if IS_NEXT {
            return assert_eq!((Form::PREVIOUS, Form::NEWEST), (Form(5), Form(7)));
        }
        assert_eq!((Form::OLDEST, Form::PREVIOUS, Form::NEWEST), (Form(5), Form(5), Form(6)));
        let numbers = (Form(5).of_keys(), Form(5).of_snapshot());
        assert_eq!(numbers, (1, 4), "as 50b22d4 wrote them");
        let back = (Form::from_keys(1), Form::from_snapshot(4), Form::from_snapshot(2));
        assert_eq!(back, (Form(5), Form(5), Form(5)));
        let policy = Policy::All.with_comment("next form");
        assert_eq!(Form::of(View::DEFAULT, Rtype::A, &policy), Form::OLDEST);
        let mut value = Vec::new();
        let set = SetValue { ttl: 60, policy, data: vec![[10, 0, 0, 1][..].into()] };
        codec::set_value(&mut value, Revision(1), &set);
        value[12] = RULES_OF_NEXT;
        codec::read_value(&value).expect_err("the next form is not known");
    }

    #[test]
    fn form_is_refused_with_what_to_do() {
        let newer = Form(Form::NEWEST.0 + 1).check().expect_err("newer");
        let older = Form(Form::OLDEST.0 - 1).check().expect_err("older");
        for (error, parts) in [
            (newer, ["newer version of Dunlin", "dunlin store upgrade", "zones snapshot --format"]),
            (older, ["before the first release (form 4", "the oldest known is 5", "restore FILE"]),
        ] {
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!(Form::NEWEST.check(), Ok(Form::NEWEST));
        let why = Form(5).check_need(Form(6)).expect_err("it is older");
        assert!(why.contains("needs form 6") && why.contains("has form 5"), "{why}");
        assert_eq!(Form(6).check_need(Form(5)), Ok(()));
    }

    /// What v0.1.0-rc.0 cannot read needs form 6, and nothing else does.
    #[test]
    fn policies_that_are_new_need_the_form_that_is_new() {
        let plain = || SetRules::default();
        let max = SetRules { max: 2, ..plain() };
        let one = SetRules { choice: model::Choice::One, ..plain() };
        let weights = SetRules { weights: [1, 2].into(), ..plain() };
        let locations = SetRules { locations: ["eu".into(), "".into()].into(), ..plain() };
        let ramp = model::WeightRamp { from: Some(1), start: Some(5), over: 60 };
        let ramps = SetRules { ramps: [Some(ramp), None].into(), ..plain() };
        for (rtype, rules, form) in [
            (Rtype::A, &max, 5),
            (Rtype::SRV, &max, 6),
            (Rtype::A, &one, 6),
            (Rtype::A, &weights, 6),
            (Rtype::AAAA, &locations, 6),
            (Rtype::A, &ramps, 6),
        ] {
            let policy = Policy::new(rules.clone());
            let needed = Form::of(View::DEFAULT, rtype, &policy);
            assert_eq!(needed, Form(form), "{rtype} {rules:?}");
        }
        let comment = Policy::All.with_comment("rack 7");
        assert_eq!(Form::of(View::DEFAULT, Rtype::SRV, &comment), Form(5));
        assert_eq!(Form::of(View::DEFAULT, Rtype::ALIAS, &Policy::All), Form(6));
        let view = View::from_word("internal").expect("a view");
        assert_eq!(Form::of(view, Rtype::A, &Policy::All), Form(6));
    }

    #[test]
    fn rules_round_trip_in_each_form() {
        let rules = SetRules { check: "web".into(), ..SetRules::default() };
        for comment in ["", "rack 7", NEXT_COMMENT] {
            let policy = Policy::new(rules.clone()).with_comment(comment);
            let set = SetValue { ttl: 60, policy, data: vec![[10, 0, 0, 1][..].into()] };
            let mut value = Vec::new();
            codec::set_value(&mut value, Revision(1), &set);
            let (_, read) = codec::read_value(&value).expect("our own value");
            assert_eq!(read.to_value(), set);
        }
    }
}
