//! Rules of a set: which of its members an answer has, and the comment of its operators.
mod packed;

use crate::{BrokenRule, RAMP_SECONDS_MAX, WeightRamp};
use image::{Location, ORDERED_MAX, Order};
use std::fmt;
use wire::Rtype;

/// Bytes of the name of a check.
pub const CHECK_NAME_MAX: usize = 63;
/// Instead of the name of a check: the set has none, also if its zone has one by default.
pub const CHECK_OFF: &str = "off";
/// The highest tier.
pub const TIER_MAX: u8 = 99;
/// Whether a letter is not a text, but changes how text is shown: control characters, separators of
/// lines, and those that change the order of letters (UAX #9).
pub fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes of a comment, in UTF-8.
pub const COMMENT_MAX: usize = 255;
/// The weight of a member that has none of its own.
pub const WEIGHT_DEFAULT: u16 = 1;
/// Why a set without an order by weight has no weight that changes.
pub(crate) const RAMP_NEEDS_WEIGHTS: &str = "a weight that changes over time needs an order that \
                                             weights decide: the policy `weighted` or `hash`, or \
                                             `then`";

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

    pub(crate) fn rules_mut(&mut self) -> Option<&mut SetRules> {
        match self {
            Self::All => None,
            Self::Rules(rules) => Some(rules),
        }
    }

    /// What the rules say of a member.
    pub fn member(&self, member: usize) -> MemberRules {
        self.rules().map(|rules| rules.member(member)).unwrap_or_default()
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
    /// One, each as often.
    One,
    /// One, by chance in proportion to the weights.
    Weighted,
    /// One, the same for each client.
    Hash,
    /// Those whose location has the longest path in common with that of the client.
    Nearest,
}

impl Choice {
    /// All choices, by their numbers.
    const EACH: [Self; 6] =
        [Self::All, Self::Failover, Self::One, Self::Weighted, Self::Hash, Self::Nearest];

    /// Its name in JSON and texts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Failover => "failover",
            Self::One => "one",
            Self::Weighted => "weighted",
            Self::Hash => "hash",
            Self::Nearest => "nearest",
        }
    }

    /// The choice of a name; `None` for others.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|choice| choice.word() == word)
    }

    /// Whether an answer has one member, if the rules do not say how many.
    const fn is_single(self) -> bool {
        matches!(self, Self::One | Self::Weighted | Self::Hash)
    }
}

/// Orders by their numbers in packed rules, with their names in JSON and texts.
pub const ORDERS: [(Order, &str); 3] =
    [(Order::Random, "random"), (Order::Weighted, "weighted"), (Order::Hash, "hash")];

/// What rules say of one member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberRules {
    /// Its tier.
    pub tier: u8,
    /// Its weight; 0: it is answered if no other is.
    pub weight: u16,
    /// How it has become, or becomes, that weight; `None`: it has it.
    pub ramp: Option<WeightRamp>,
    /// The path of its location; empty: not known.
    pub location: Box<str>,
}

impl Default for MemberRules {
    fn default() -> Self {
        Self { tier: 0, weight: WEIGHT_DEFAULT, ramp: None, location: Box::default() }
    }
}

impl MemberRules {
    /// The weight at a time, in seconds since 1970.
    pub fn weight_at(&self, now: u64) -> u16 {
        self.ramp.map_or(self.weight, |ramp| ramp.weight(self.weight, now))
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
    /// The check of its addresses; empty: that of its zone, if any; [`CHECK_OFF`]: none.
    pub check: Box<str>,
    /// How many members have to be up.
    pub min_up: MinUp,
    /// Whether no member is answered rather than one that is down.
    pub is_closed: bool,
    /// The tier of each member, in the order of the data; empty: all have tier 0.
    pub tiers: Box<[u8]>,
    /// The order in which members are answered, for choices that have none of their own.
    pub then: Order,
    /// The weight of each member; empty: all have [`WEIGHT_DEFAULT`].
    pub weights: Box<[u16]>,
    /// How each weight has become, or becomes, what it is; empty: none changes over time.
    pub ramps: Box<[Option<WeightRamp>]>,
    /// The path of each member's location; empty: none is known.
    pub locations: Box<[Box<str>]>,
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

    /// The weight of a member.
    pub fn weight(&self, member: usize) -> u16 {
        self.weights.get(member).copied().unwrap_or(WEIGHT_DEFAULT)
    }

    /// Where a member is.
    pub fn location(&self, member: usize) -> Location {
        let path = self.locations.get(member);
        path.and_then(|path| Location::parse(path).ok()).unwrap_or_default()
    }

    /// The order in which members are answered.
    pub fn order(&self) -> Order {
        match self.choice {
            Choice::Weighted => Order::Weighted,
            Choice::Hash => Order::Hash,
            _ => self.then,
        }
    }

    /// The most members of an answer; 0: no bound.
    pub fn bound(&self) -> u16 {
        if self.max == 0 && self.choice.is_single() { 1 } else { self.max }
    }

    /// What the rules say of a member.
    pub fn member(&self, member: usize) -> MemberRules {
        let location = self.locations.get(member).cloned().unwrap_or_default();
        let ramp = self.ramps.get(member).copied().flatten();
        MemberRules { tier: self.tier(member), weight: self.weight(member), ramp, location }
    }

    /// These rules with the weights of a time, in seconds since 1970.
    #[must_use]
    pub fn at(mut self, now: u64) -> Self {
        if !self.ramps.is_empty() {
            self.weights = (0..self.ramps.len()).map(|at| self.member(at).weight_at(now)).collect();
            self.ramps = Box::default();
        }
        self
    }

    /// When a weight changes next; `None`: all stay as they are.
    pub fn next_step(&self, now: u64) -> Option<u64> {
        self.ramps.iter().flatten().filter_map(|ramp| ramp.next_step(now)).min()
    }

    /// Sets what the rules say of each member.
    pub fn set_members(&mut self, members: &[MemberRules]) {
        let is_default = MemberRules::default();
        let lists = |differs: fn(&MemberRules, &MemberRules) -> bool| {
            let some = members.iter().any(|member| differs(member, &is_default));
            members.iter().filter(move |_| some)
        };
        self.tiers = lists(|a, b| a.tier != b.tier).map(|member| member.tier).collect();
        self.weights = lists(|a, b| a.weight != b.weight).map(|member| member.weight).collect();
        self.ramps = lists(|a, b| a.ramp != b.ramp).map(|member| member.ramp).collect();
        self.locations =
            lists(|a, b| a.location != b.location).map(|member| member.location.clone()).collect();
    }

    /// Whether versions before weights and locations can read the rules of a set of this type.
    pub fn is_plain(&self, rtype: Rtype) -> bool {
        let is_known = matches!(rtype, Rtype::A | Rtype::AAAA) || !self.has_choice();
        is_known && !self.needs_policy_form()
    }

    fn needs_policy_form(&self) -> bool {
        !matches!(self.choice, Choice::All | Choice::Failover)
            || self.then != Order::Random
            || !self.weights.is_empty()
            || !self.ramps.is_empty()
            || !self.locations.is_empty()
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
        let is_addresses = matches!(rtype, Rtype::A | Rtype::AAAA);
        if !is_addresses && !matches!(rtype, Rtype::SRV | Rtype::HTTPS | Rtype::PTR) {
            let what = format!(
                "only sets of type A, AAAA, SRV, HTTPS and PTR have a policy, not those of {rtype}"
            );
            return broken("policy", what);
        }
        if !self.check.is_empty() && !is_addresses {
            let what = format!("only sets of addresses have a check, not those of {rtype}");
            return broken("check", what);
        }
        if !self.check.is_empty() && !is_check_name(&self.check) {
            let what = format!(
                "is not the name of a check: up to {CHECK_NAME_MAX} letters, digits, `-` and `_`"
            );
            return broken("check", what);
        }
        self.check_members(members)?;
        self.check_order(members)?;
        match self.min_up {
            MinUp::Percent(1..=100) | MinUp::Members(1..) => Ok(()),
            _ => broken("min_up", "is a number from 1, or a share from 1% to 100%".into()),
        }
    }

    /// Checks what the rules say of each of so many members.
    fn check_members(&self, members: usize) -> Result<(), (&'static str, BrokenRule, String)> {
        let broken = |what| Err(("members", BrokenRule::SET_RULES, what));
        let lens = [self.tiers.len(), self.weights.len(), self.ramps.len(), self.locations.len()];
        if lens.iter().any(|len| *len != 0 && *len != members) {
            return broken("each member has one tier, weight and location".into());
        }
        if self.tiers.iter().any(|tier| *tier > TIER_MAX) {
            return broken(format!("the highest tier is {TIER_MAX}"));
        }
        if !self.ramps.is_empty() && self.order() == Order::Random {
            return broken(RAMP_NEEDS_WEIGHTS.into());
        }
        if self.ramps.iter().flatten().any(|ramp| !(1..=RAMP_SECONDS_MAX).contains(&ramp.over)) {
            return broken("a weight changes over 1 s to 30 d".into());
        }
        for path in self.locations.iter().filter(|path| !path.is_empty()) {
            if let Err(why) = Location::parse(path) {
                return broken(format!("{path:?} is no location: {why}"));
            }
        }
        Ok(())
    }

    /// Checks what decides the order of so many members.
    fn check_order(&self, members: usize) -> Result<(), (&'static str, BrokenRule, String)> {
        let broken = |field, what: String| Err((field, BrokenRule::SET_RULES, what));
        if self.then != Order::Random && self.choice.is_single() {
            let what = format!(
                "the policy `{}` has its own order: leave `then` out, or choose `all`, \
                 `failover` or `nearest`",
                self.choice.word()
            );
            return broken("then", what);
        }
        if self.choice == Choice::Nearest && self.min_up != MinUp::default() {
            let what = "counts members wherever they are, and the policy `nearest` answers those \
                        of one location: leave one of them out";
            return broken("min_up", what.into());
        }
        if members > ORDERED_MAX && self.needs_policy_form() && self.choice != Choice::One {
            let what = format!(
                "a set with weights, locations or an order has up to {ORDERED_MAX} members, not \
                 {members}"
            );
            return broken("members", what);
        }
        Ok(())
    }
}

/// Whether a set may name this check.
pub fn is_check_name(name: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=CHECK_NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
