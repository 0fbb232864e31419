//! Chooses the members of a set that are answered.
use crate::health::MemberClass;
use image::Part;
use model::{Choice, SetRules};

/// The answered members of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Their numbers; none only if the rules say so. With a part, those that all answers have
    /// come first.
    pub members: Vec<usize>,
    /// How many of them an answer has; `None`: all.
    pub part: Option<Part>,
    /// Members that are down or drained are among them, because there are too few others.
    pub is_open: bool,
}

/// Chooses among members of these classes; there is at least one.
///
/// A set answers its first class that is not empty, and as many of the next ones as it needs for
/// `min_up`. Tiers come first, so that a dead member of a low tier is not preferred to a living
/// one of a high tier.
pub(crate) fn choose(rules: &SetRules, classes: &[MemberClass]) -> Chosen {
    let best = classes.iter().min().copied().unwrap_or(MemberClass::Up);
    let has_best = |member: &usize| classes[*member] == best;
    let tier = (0..classes.len()).filter(has_best).map(|member| rules.tier(member)).min();
    let is_of_tier = |member: &usize| match rules.choice {
        Choice::All => true,
        Choice::Failover => Some(rules.tier(*member)) == tier,
    };
    let mut members: Vec<usize> = (0..classes.len()).filter(is_of_tier).collect();
    members.sort_by_key(|member| classes[*member]);
    let needed = rules.min_up.of(members.len());
    // The class of the last member that is needed is answered as a whole. Drained members are
    // answered only if there are no others.
    let mut last = members.get(needed - 1).map_or(best, |member| classes[*member]);
    if last == MemberClass::Drained && best != last {
        let others = members.iter().map(|member| classes[*member]);
        last = others.filter(|class| *class != MemberClass::Drained).max().unwrap_or(best);
    }
    members.retain(|member| classes[*member] <= last);
    if rules.is_closed {
        members.retain(|member| classes[*member] <= MemberClass::Unknown);
    }
    let part = part_of(rules.max, &mut members, classes);
    let is_open = members.iter().any(|member| classes[*member] >= MemberClass::DownOnceUp);
    if part.is_none() {
        members.sort_unstable();
    }
    Chosen { members, part, is_open }
}

/// The part of members, by their classes, that an answer with at most `max` has: all of the better
/// classes, and of the last one that it has room for each as often.
fn part_of(max: u16, members: &mut Vec<usize>, classes: &[MemberClass]) -> Option<Part> {
    let bound = usize::from(max);
    if bound == 0 || bound >= members.len() {
        return None;
    }
    let last = classes[members[bound - 1]];
    members.retain(|member| classes[*member] <= last);
    let first = members.iter().filter(|member| classes[**member] < last).count() as u16;
    let others = max - first;
    let is_part = usize::from(others) < members.len() - usize::from(first);
    is_part.then_some(Part { first, others })
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemberClass::{Down, DownOnceUp, Drained, Unknown, Up};
    use model::MinUp;

    fn check(rules: &SetRules, classes: &[MemberClass], members: &[usize], is_open: bool) {
        let wanted = Chosen { members: members.into(), part: None, is_open };
        assert_eq!(choose(rules, classes), wanted, "{classes:?}");
    }

    #[test]
    fn first_class_that_is_not_empty_is_answered() {
        let all = SetRules::default();
        check(&all, &[Up, Down, Unknown, Up, DownOnceUp, Drained], &[0, 3], false);
        check(&all, &[Drained, Down, Unknown, DownOnceUp], &[2], false);
        check(&all, &[Drained, Down, DownOnceUp, Down], &[2], true);
        check(&all, &[Drained, Down, Down], &[1, 2], true);
        check(&all, &[Drained, Drained], &[0, 1], true);
    }

    #[test]
    fn set_opens_earlier_with_min_up() {
        let half = SetRules { min_up: MinUp::Percent(50), ..SetRules::default() };
        check(&half, &[Up, Up, Down, DownOnceUp], &[0, 1], false);
        check(&half, &[Up, Down, Down, DownOnceUp], &[0, 3], true);
        check(&half, &[Up, Unknown, Unknown, Down], &[0, 1, 2], false);
        check(&half, &[Up, Drained, Drained, Drained], &[0], false);
        check(&half, &[Up, Down, Drained, Drained, Drained], &[0, 1], true);
    }

    #[test]
    fn failover_takes_the_lowest_tier_with_a_living_member() {
        let tiers = |tiers: &[u8]| SetRules {
            choice: Choice::Failover,
            tiers: tiers.into(),
            ..SetRules::default()
        };
        check(&tiers(&[0, 0, 1]), &[Up, Up, Up], &[0, 1], false);
        check(&tiers(&[0, 0, 1]), &[Down, DownOnceUp, Up], &[2], false);
        check(&tiers(&[1, 0, 1]), &[DownOnceUp, DownOnceUp, Down], &[1], true);
        let early = SetRules { min_up: MinUp::Members(2), ..tiers(&[0, 1, 1]) };
        check(&early, &[DownOnceUp, Up, Down], &[1, 2], true);
    }

    #[test]
    fn bound_prefers_the_better_class_and_rotates_among_equals() {
        let of = |max, min_up, classes: &[MemberClass]| {
            let rules = SetRules { max, min_up: MinUp::Members(min_up), ..SetRules::default() };
            let Chosen { members, part, .. } = choose(&rules, classes);
            (members, part.map(|part| (part.first, part.others)))
        };
        let classes = [DownOnceUp, Up, Unknown, Up];
        assert_eq!(of(2, 3, &classes), (vec![1, 3], None));
        assert_eq!(of(3, 3, &classes), (vec![1, 2, 3], None));
        assert_eq!(of(1, 3, &classes), (vec![1, 3], Some((0, 1))));
        assert_eq!(of(2, 1, &[Up; 4]), (vec![0, 1, 2, 3], Some((0, 2))));
        assert_eq!(of(2, 3, &[Unknown, Up, Unknown]), (vec![1, 0, 2], Some((1, 1))));
        assert_eq!(of(4, 1, &[Up; 4]), (vec![0, 1, 2, 3], None));
    }

    #[test]
    fn closed_set_never_answers_members_that_are_down() {
        let closed = SetRules { is_closed: true, ..SetRules::default() };
        check(&closed, &[Down, DownOnceUp, Drained], &[], false);
        check(&closed, &[Down, Unknown, Up], &[2], false);
        check(&closed, &[Down, Unknown], &[1], false);
        let early = SetRules { min_up: MinUp::Members(3), ..closed };
        check(&early, &[Down, Unknown, Up], &[1, 2], false);
    }
}
