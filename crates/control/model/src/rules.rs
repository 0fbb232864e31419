//! Rules of a set: which of its members an answer has, and the comment of its operators.
//!
//! ```text
//! packed   form (1): 0, with 1 for a comment and 2 for a closed set; choice (1); most members in
//!          an answer (2), 0: all; kind of min_up (1), min_up (2); length of the check (1), check;
//!          tiers (2), each (1); in forms with a comment the comment, which is all that follows
//! ```
//! Numbers are little-endian. A later form may have weights and locations.
use crate::BrokenRule;
use std::fmt;
use wire::Rtype;

/// Bytes of the name of a check.
pub const CHECK_NAME_MAX: usize = 63;
/// The highest tier.
pub const TIER_MAX: u8 = 99;
/// Whether a letter is no text, but changes how text is shown: control characters, separators of
/// lines, and those that change the order of letters (UAX #9).
pub fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes of a comment, in UTF-8.
pub const COMMENT_MAX: usize = 255;
/// Bits of the form. Versions that do not know one refuse the rules.
const FORM_COMMENT: u8 = 1;
const FORM_CLOSED: u8 = 2;

/// Which members of a set an answer has, if not simply all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All: a plain set.
    All,
    /// Those that the rules choose.
    Rules(Box<SetRules>),
}

impl Policy {
    /// The rules; `None`: a plain set.
    pub fn rules(&self) -> Option<&SetRules> {
        match self {
            Self::All => None,
            Self::Rules(rules) => Some(rules),
        }
    }

    /// Rules that change nothing are those of a plain set.
    pub fn new(rules: SetRules) -> Self {
        if rules == SetRules::default() { Self::All } else { Self::Rules(Box::new(rules)) }
    }

    /// The packed rules; empty: a plain set.
    pub fn pack(&self) -> Vec<u8> {
        self.rules().map(SetRules::pack).unwrap_or_default()
    }

    /// The comment; empty: none.
    pub fn comment(&self) -> &str {
        self.rules().map_or("", |rules| &*rules.comment)
    }

    /// The same rules with another comment.
    #[must_use]
    pub fn with_comment(self, comment: &str) -> Self {
        let rules = match self {
            Self::All => SetRules::default(),
            Self::Rules(rules) => *rules,
        };
        Self::new(SetRules { comment: comment.into(), ..rules })
    }

    /// Reads packed rules. `None`: they were never packed so.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        match packed {
            [] => Some(Self::All),
            _ => Some(Self::Rules(Box::new(SetRules::unpack(packed)?))),
        }
    }
}

/// The choice among the members that may be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All of them.
    #[default]
    All,
    /// Those of the lowest tier that has any.
    Failover,
}

impl Choice {
    /// Names of choices that Dunlin does not make yet.
    pub const NOT_YET: [&'static str; 4] = ["one", "weighted", "hash", "nearest"];

    /// Its name in JSON and texts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Failover => "failover",
        }
    }

    /// The choice of a name; `None` for others.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::All, Self::Failover].into_iter().find(|choice| choice.word() == word)
    }
}

/// How many members have to be up. With fewer, those of the next classes are answered, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinUp {
    /// This many.
    Members(u16),
    /// This share of all members, in percent; rounded up.
    Percent(u16),
}

impl Default for MinUp {
    fn default() -> Self {
        Self::Members(1)
    }
}

impl MinUp {
    /// The number for a set of so many members; at least 1.
    pub fn of(self, members: usize) -> usize {
        let wanted = match self {
            Self::Members(number) => number.into(),
            Self::Percent(percent) => (members * usize::from(percent)).div_ceil(100),
        };
        wanted.clamp(1, members.max(1))
    }
}

/// `2`, or `50%`.
impl fmt::Display for MinUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members(number) => number.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Rules of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRules {
    /// The choice.
    pub choice: Choice,
    /// The most members of an answer; 0: no bound.
    pub max: u16,
    /// The check of its addresses; empty: none.
    pub check: Box<str>,
    /// How many members have to be up.
    pub min_up: MinUp,
    /// Whether no member is answered rather than one that is down.
    pub is_closed: bool,
    /// The tier of each member, in the order of the data; empty: all have tier 0.
    pub tiers: Box<[u8]>,
    /// What operators note of the set; empty: nothing. No answer has it.
    pub comment: Box<str>,
}

impl SetRules {
    /// Whether more than a comment is there, so that answers may lack members.
    pub fn has_choice(&self) -> bool {
        let plain = Self { comment: self.comment.clone(), ..Self::default() };
        *self != plain
    }

    /// The tier of a member.
    pub fn tier(&self, member: usize) -> u8 {
        self.tiers.get(member).copied().unwrap_or_default()
    }

    /// Checks the rules of a set of this type with so many members.
    ///
    /// # Errors
    /// The field, the rule that it breaks, and what is wrong.
    pub fn check(
        &self,
        rtype: Rtype,
        members: usize,
    ) -> Result<(), (&'static str, BrokenRule, String)> {
        let broken = |field, what: String| Err((field, BrokenRule::SET_RULES, what));
        if self.comment.len() > COMMENT_MAX {
            return broken("comment", format!("is up to {COMMENT_MAX} bytes of text"));
        }
        if let Some(letter) = self.comment.chars().find(|letter| is_control(*letter)) {
            let letter = u32::from(letter);
            let what = format!(
                "is text without control characters, and U+{letter:04X} is one: leave it out"
            );
            return broken("comment", what);
        }
        if !self.has_choice() {
            return Ok(());
        }
        if !matches!(rtype, Rtype::A | Rtype::AAAA) {
            let what =
                format!("only sets of addresses have a policy or a check, not those of {rtype}");
            return broken("policy", what);
        }
        if !self.check.is_empty() && !is_check_name(&self.check) {
            let what = format!(
                "is not the name of a check: up to {CHECK_NAME_MAX} letters, digits, `-` and `_`"
            );
            return broken("check", what);
        }
        if !self.tiers.is_empty() && self.tiers.len() != members {
            return broken("members", "each member has one tier".into());
        }
        if self.tiers.iter().any(|tier| *tier > TIER_MAX) {
            return broken("members", format!("the highest tier is {TIER_MAX}"));
        }
        match self.min_up {
            MinUp::Percent(1..=100) | MinUp::Members(1..) => Ok(()),
            _ => broken("min_up", "is a number from 1, or a share from 1% to 100%".into()),
        }
    }

    fn pack(&self) -> Vec<u8> {
        let (kind, min_up) = match self.min_up {
            MinUp::Members(number) => (0, number),
            MinUp::Percent(percent) => (1, percent),
        };
        let form = if self.comment.is_empty() { 0 } else { FORM_COMMENT };
        let form = if self.is_closed { form | FORM_CLOSED } else { form };
        let mut packed = vec![form, self.choice as u8];
        packed.extend_from_slice(&self.max.to_le_bytes());
        packed.push(kind);
        packed.extend_from_slice(&min_up.to_le_bytes());
        packed.push(self.check.len() as u8);
        packed.extend_from_slice(self.check.as_bytes());
        packed.extend_from_slice(&(self.tiers.len() as u16).to_le_bytes());
        packed.extend_from_slice(&self.tiers);
        packed.extend_from_slice(self.comment.as_bytes());
        packed
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let [form @ 0..=3, choice, m0, m1, kind, u0, u1, len, rest @ ..] = packed else {
            return None;
        };
        let (check, rest) = rest.split_at_checked(usize::from(*len))?;
        let ([t0, t1], rest) = rest.split_first_chunk()?;
        let (tiers, comment) = rest.split_at_checked(u16::from_le_bytes([*t0, *t1]).into())?;
        let choice = match choice {
            0 => Choice::All,
            1 => Choice::Failover,
            _ => return None,
        };
        let number = u16::from_le_bytes([*u0, *u1]);
        let min_up = match kind {
            0 => MinUp::Members(number),
            1 => MinUp::Percent(number),
            _ => return None,
        };
        (comment.is_empty() == (form & FORM_COMMENT == 0)).then_some(())?;
        Some(Self {
            choice,
            max: u16::from_le_bytes([*m0, *m1]),
            check: std::str::from_utf8(check).ok()?.into(),
            min_up,
            is_closed: form & FORM_CLOSED != 0,
            tiers: tiers.into(),
            comment: std::str::from_utf8(comment).ok()?.into(),
        })
    }
}

/// Whether a check may be called so.
pub fn is_check_name(name: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=CHECK_NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> SetRules {
        SetRules {
            choice: Choice::Failover,
            max: 3,
            check: "web".into(),
            min_up: MinUp::Percent(50),
            is_closed: false,
            tiers: [0, 1].into(),
            comment: Box::default(),
        }
    }

    #[test]
    fn packed_rules_are_read_back_and_cut_ones_are_refused() {
        let packed = Policy::new(rules()).pack();
        assert_eq!(Policy::unpack(&packed), Some(Policy::new(rules())));
        for len in 1..packed.len() {
            assert_eq!(Policy::unpack(&packed[..len]), None, "{len}");
        }
        assert_eq!(Policy::unpack(&[packed, vec![0]].concat()), None);
        assert_eq!(Policy::new(SetRules::default()), Policy::All);
        assert!(Policy::All.pack().is_empty());
    }

    #[test]
    fn comment_is_packed_behind_the_rules_and_costs_nothing_without_one() {
        let plain = Policy::new(rules()).pack();
        let commented = Policy::new(rules()).with_comment("Rack 7, für Ümit");
        let packed = commented.pack();
        assert_eq!(packed.len(), plain.len() + commented.comment().len());
        assert_eq!((plain[0], packed[0]), (0, 1), "older versions refuse the form");
        assert_eq!(Policy::unpack(&packed), Some(commented.clone()));
        assert_eq!(commented.with_comment("").pack(), plain);
        let alone = Policy::All.with_comment("x");
        assert_eq!(Policy::unpack(&alone.pack()), Some(alone.clone()));
        assert_eq!(alone.with_comment(""), Policy::All);
        // Form 1 without a comment, and a comment that is no UTF-8.
        assert_eq!(Policy::unpack(&[&[1], &plain[1..]].concat()), None);
        assert_eq!(Policy::unpack(&[&[1], &plain[1..], &[0xff]].concat()), None);
    }

    #[test]
    fn closed_set_is_packed_in_a_form_that_older_versions_refuse() {
        for comment in ["", "rack 7"] {
            let rules = SetRules { is_closed: true, comment: comment.into(), ..rules() };
            let packed = Policy::new(rules.clone()).pack();
            assert!(packed[0] >= 2);
            assert_eq!(Policy::unpack(&packed), Some(Policy::new(rules)));
        }
        assert_eq!(Policy::unpack(&image::Part { first: 1, others: 1 }.pack()), None);
    }

    #[test]
    fn all_sets_can_have_comments_within_the_bounds() {
        let check = |comment: &str, rtype| {
            let rules = SetRules { comment: comment.into(), ..SetRules::default() };
            rules.check(rtype, 1).map_err(|why| why.0)
        };
        assert_eq!(check("a note", Rtype::MX), Ok(()));
        assert_eq!(check(&"é".repeat(127), Rtype::A), Ok(()));
        assert_eq!(check(&"é".repeat(128), Rtype::A), Err("comment"), "256 bytes");
        for control in ["a\nb", "\0", "\u{7f}", "\u{85}", "a\u{202e}b", "\u{2028}", "\u{2069}"] {
            assert_eq!(check(control, Rtype::A), Err("comment"), "{control:?}");
        }
    }

    #[test]
    fn rules_that_a_set_cannot_have_are_refused_with_their_field() {
        let field = |rules: &SetRules, rtype| rules.check(rtype, 2).err().map(|why| why.0);
        assert_eq!(field(&rules(), Rtype::A), None);
        assert_eq!(field(&rules(), Rtype::MX), Some("policy"));
        assert_eq!(field(&SetRules { check: "a b".into(), ..rules() }, Rtype::A), Some("check"));
        assert_eq!(field(&SetRules { tiers: [1].into(), ..rules() }, Rtype::A), Some("members"));
        let zero = SetRules { min_up: MinUp::Members(0), ..rules() };
        assert_eq!(field(&zero, Rtype::AAAA), Some("min_up"));
    }

    #[test]
    fn share_of_members_is_rounded_up_and_is_never_none() {
        let of = |min_up: MinUp, members| min_up.of(members);
        assert_eq!(of(MinUp::Percent(50), 5), 3);
        assert_eq!(of(MinUp::Percent(1), 5), 1);
        assert_eq!(of(MinUp::Members(9), 5), 5);
    }
}
