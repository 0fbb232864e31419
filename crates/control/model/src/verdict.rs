//! The outcome of health checks and rules for the members of a set.
use crate::rules::{MemberRules, SetRules};
use wire::NameBuf;

/// Classes of members, the one that is answered first is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberClass {
    /// It passes its check.
    Up,
    /// Nothing is known of it.
    Unknown,
    /// It fails its check, and passed once.
    DownOnceUp,
    /// It fails its check, and never passed.
    Down,
    /// An operator has taken it out.
    Drained,
}

/// Why no answer has a member, whichever client queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Members of a better class of health are answered.
    State,
    /// Members of a lower tier are answered.
    Tier,
    /// It has weight 0, and another member is answered.
    Weight,
}

/// A set with rules, and what became of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedSet {
    /// The name whose members it has, if it stands for an ALIAS record.
    pub alias: Option<NameBuf>,
    /// Its rules, with the weights of now.
    pub rules: SetRules,
    /// Its members.
    pub members: Vec<JudgedMember>,
}

/// A member of a set with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedMember {
    /// The data of its record.
    pub data: Box<[u8]>,
    /// Its health; `None`: the set has no check.
    pub class: Option<MemberClass>,
    /// What the rules say of it now.
    pub rules: MemberRules,
    /// What is stored of it: also how its weight changes.
    pub stored: MemberRules,
    /// Why no answer has it; `None`: answers are chosen among it and others.
    pub left_out: Option<LeftOut>,
}
