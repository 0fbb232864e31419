//! Chooses the members of a set that may be answered: by their health, tiers and weights. Workers
//! choose among them for each query (`answer::choose`).
use compile::AnswerRules;
use image::Order;
use model::{Choice, LeftOut, MemberClass, SetRules};

/// The answered members of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Their numbers; none only if the rules say so. Those that all answers have come first.
    pub members: Vec<usize>,
    /// How an answer is selected from them; `None`: it has all.
    pub selection: Option<AnswerRules>,
    /// Members that are down or drained are among them, because there are too few others.
    pub is_open: bool,
}

/// Chooses among members of these classes; there is at least one.
///
/// A set answers its first class that is not empty, and as many of the next ones as it needs for
/// `min_up`. Tiers come first, so that a dead member of a low tier is not preferred to a living
/// one of a high tier. Weights come last: one of weight 0 is answered if no other is as well.
pub(crate) fn choose(rules: &SetRules, classes: &[MemberClass]) -> Chosen {
    let best = classes.iter().min().copied().unwrap_or(MemberClass::Up);
    let has_best = |member: &usize| classes[*member] == best;
    let tier = (0..classes.len()).filter(has_best).map(|member| rules.tier(member)).min();
    let is_of_tier = |member: &usize| match rules.choice {
        Choice::Failover => Some(rules.tier(*member)) == tier,
        _ => true,
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
    // Which members of a set with locations are left is known only for each client.
    if rules.choice != Choice::Nearest {
        drop_standby(rules, &mut members, classes);
    }
    let selection = select(rules, &mut members, classes);
    let is_open = members.iter().any(|member| classes[*member] >= MemberClass::DownOnceUp);
    if selection.is_none() {
        members.sort_unstable();
    }
    Chosen { members, selection, is_open }
}

/// Why a member is not among those that were chosen; `None`: it is.
pub(crate) fn left_out(
    rules: &SetRules,
    classes: &[MemberClass],
    chosen: &Chosen,
    member: usize,
) -> Option<LeftOut> {
    if chosen.members.contains(&member) {
        return None;
    }
    let Some(worst) = chosen.members.iter().map(|other| classes[*other]).max() else {
        return Some(LeftOut::State);
    };
    let tier = chosen.members.iter().map(|other| rules.tier(*other)).max().unwrap_or_default();
    Some(match () {
        () if rules.choice == Choice::Failover && rules.tier(member) > tier => LeftOut::Tier,
        () if rules.weight(member) == 0 && classes[member] <= worst => LeftOut::Weight,
        () => LeftOut::State,
    })
}

/// Leaves members of weight 0 out, if another one is of the same class or a better one.
fn drop_standby(rules: &SetRules, members: &mut Vec<usize>, classes: &[MemberClass]) {
    let weighted = members.iter().filter(|member| rules.weight(**member) > 0);
    if let Some(class) = weighted.map(|member| classes[*member]).min() {
        members.retain(|member| rules.weight(*member) > 0 || classes[*member] < class);
    }
}

/// How answers are selected from members, which are sorted by their classes.
fn select(
    rules: &SetRules,
    members: &mut Vec<usize>,
    classes: &[MemberClass],
) -> Option<AnswerRules> {
    let (first, others) = bounds(rules.bound(), members, classes);
    if members.len() < 2 {
        return None;
    }
    let mut locations = Vec::new();
    if rules.choice == Choice::Nearest {
        // All are of one class.
        members.sort_by_key(|member| rules.location(*member));
        locations = members.iter().map(|member| rules.location(*member)).collect();
    }
    let mut weights: Vec<u16> = members.iter().map(|member| rules.weight(*member)).collect();
    // Members that all answers have need none.
    let equal = |weights: &[u16]| weights.array_windows().all(|[one, next]| one == next);
    if equal(&weights[usize::from(first)..]) {
        weights.clear();
    }
    let order = match rules.order() {
        Order::Weighted if weights.is_empty() => Order::Random,
        order => order,
    };
    if order == Order::Random && (locations.is_empty() || !weights.contains(&0)) {
        weights.clear();
    }
    let is_plain = order == Order::Random && others == u16::MAX && locations.is_empty();
    (!is_plain).then_some(AnswerRules { order, first, others, weights, locations })
}

/// How many of the members, sorted by their classes, each answer with at most `max` has, and how
/// many of the others: all of the better classes, and of the last one that it has room for each as
/// often. Members for which there is never room are removed.
fn bounds(max: u16, members: &mut Vec<usize>, classes: &[MemberClass]) -> (u16, u16) {
    let bound = usize::from(max);
    if bound == 0 || bound >= members.len() {
        return (0, u16::MAX);
    }
    let last = classes[members[bound - 1]];
    members.retain(|member| classes[*member] <= last);
    let first = members.iter().filter(|member| classes[**member] < last).count() as u16;
    let others = max - first;
    match usize::from(others) < members.len() - usize::from(first) {
        true => (first, others),
        false => (0, u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemberClass::{Down, DownOnceUp, Drained, Unknown, Up};
    use model::MinUp;

    fn check(rules: &SetRules, classes: &[MemberClass], members: &[usize], is_open: bool) {
        let wanted = Chosen { members: members.into(), selection: None, is_open };
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
            let Chosen { members, selection, .. } = choose(&rules, classes);
            (members, selection.map(|selection| (selection.first, selection.others)))
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
    fn member_of_weight_zero_is_answered_if_no_other_is_as_well() {
        let weights = |weights: &[u16]| SetRules { weights: weights.into(), ..SetRules::default() };
        check(&weights(&[0, 5]), &[Up, Up], &[1], false);
        check(&weights(&[0, 5]), &[Up, Down], &[0], false);
        check(&weights(&[0, 0]), &[Up, Up], &[0, 1], false);
        let two = SetRules { min_up: MinUp::Members(2), ..weights(&[0, 5, 5]) };
        check(&two, &[Up, Down, Down], &[0, 1, 2], true);
        check(&two, &[Up, Up, Down], &[1], false);
    }

    #[test]
    fn policy_of_one_record_is_left_to_workers() {
        let rules = |choice, weights: &[u16]| SetRules {
            choice,
            weights: weights.into(),
            ..SetRules::default()
        };
        let of = |rules: &SetRules, classes: &[MemberClass]| {
            let Chosen { members, selection, .. } = choose(rules, classes);
            let selection = selection.unwrap_or_default();
            (members, selection.order, selection.others, selection.weights)
        };
        let (up, down) = ([Up; 3], [Up, Up, Down]);
        assert_eq!(of(&rules(Choice::One, &[]), &up), (vec![0, 1, 2], Order::Random, 1, vec![]));
        let weighted = rules(Choice::Weighted, &[7, 2, 5]);
        assert_eq!(of(&weighted, &up), (vec![0, 1, 2], Order::Weighted, 1, vec![7, 2, 5]));
        assert_eq!(of(&weighted, &down), (vec![0, 1], Order::Weighted, 1, vec![7, 2]));
        let equal = rules(Choice::Weighted, &[7, 7, 5]);
        assert_eq!(of(&equal, &down), (vec![0, 1], Order::Random, 1, vec![]));
        let hash = rules(Choice::Hash, &[7, 0, 5]);
        assert_eq!(of(&hash, &up), (vec![0, 2], Order::Hash, 1, vec![7, 5]));
        assert_eq!(choose(&hash, &down).selection, None, "one member is left");
        let shuffled = SetRules { then: Order::Hash, ..rules(Choice::All, &[]) };
        assert_eq!(of(&shuffled, &up), (vec![0, 1, 2], Order::Hash, u16::MAX, vec![]));
    }

    #[test]
    fn members_are_sorted_by_their_locations_for_nearest() {
        let paths: [Box<str>; 4] = ["us".into(), "eu/fra1".into(), "".into(), "eu".into()];
        let nearest =
            SetRules { choice: Choice::Nearest, locations: paths.into(), ..SetRules::default() };
        let Chosen { members, selection, .. } = choose(&nearest, &[Up, Up, Up, Down]);
        let locations = selection.expect("a selection").locations;
        assert!(locations.is_sorted() && members.len() == 3, "{members:?}");
        assert!(members.iter().zip(&locations).all(|(m, l)| nearest.location(*m) == *l));
    }

    #[test]
    fn member_that_no_answer_has_says_why() {
        let why = |rules: &SetRules, classes: &[MemberClass], member: usize| {
            left_out(rules, classes, &choose(rules, classes), member)
        };
        let all = SetRules::default();
        assert_eq!(why(&all, &[Up, Down], 0), None);
        assert_eq!(why(&all, &[Up, Down], 1), Some(LeftOut::State));
        let tiers = [0, 1].into();
        let failover = SetRules { choice: Choice::Failover, tiers, ..SetRules::default() };
        assert_eq!(why(&failover, &[Up, Up], 1), Some(LeftOut::Tier));
        let weights = SetRules { weights: [0, 5].into(), ..SetRules::default() };
        assert_eq!(why(&weights, &[Up, Up], 0), Some(LeftOut::Weight));
        let closed = SetRules { is_closed: true, ..SetRules::default() };
        assert_eq!(why(&closed, &[Down, Down], 1), Some(LeftOut::State));
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
