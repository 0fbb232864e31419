//! ISC's findings about core sets, decided by rates and by how near each CPU is to the receiving
//! one.

use lab_host::core_sets::Distance;

use super::findings::{finding, holds, ranges, rate};
use super::{Finding, FindingOutcome, Group, Range, Step};

/// "The core that shares its cache with the receiving core is the fastest": steps of single cores.
pub fn nearest(claim: &str, step: &Step) -> Finding {
    let other = |group: &Group| match group.distances[..] {
        [distance] if distance != Distance::Same => Some(distance),
        _ => None,
    };
    best_of_nearest(claim, step, other)
}

/// "The best pair is the receiving core with its cache neighbor": steps of pairs.
pub fn nearest_pair(claim: &str, step: &Step) -> Finding {
    let other = |group: &Group| match group.distances[..] {
        [Distance::Same, distance] | [distance, Distance::Same] => Some(distance),
        _ => None,
    };
    best_of_nearest(claim, step, other)
}

/// "Three or four cores are no better than the best pair".
pub fn larger(claim: &str, sets: &Step, pairs: &Step) -> Finding {
    let (Some((larger, many)), Some((pair, two))) = (sets.best(), pairs.best()) else {
        return finding(claim, FindingOutcome::NotVisible, "no set of three or four was measured");
    };
    let because = format!(
        "the best pair, {}, answers {}; {} {}; {}",
        pair.label,
        rate(two),
        larger.label,
        rate(many),
        ranges(&two, &many)
    );
    finding(claim, holds(!many.is_above(&two)), because)
}

/// Whether the set whose CPU is nearest to the receiving one is above all others. `other` gives the
/// distance of a set's CPU that does not receive, for sets that the claim is about.
fn best_of_nearest(
    claim: &str,
    step: &Step,
    other: impl Fn(&Group) -> Option<Distance>,
) -> Finding {
    let measured = || step.groups.iter().filter_map(|group| Some((group, group.range?)));
    let distances = || measured().filter_map(|(group, _)| other(group));
    let (Some(near), Some(far)) = (distances().min(), distances().max()) else {
        let because = "the runs do not say how near their CPUs are to the receiving one";
        return finding(claim, FindingOutcome::NotVisible, because);
    };
    if !near.is_shared_cache() || near == far {
        let because = match near.is_shared_cache() {
            true => format!("each core is as near to the receiving one: {}", near.name()),
            false => "no core shares a cache with the receiving one".into(),
        };
        return finding(claim, FindingOutcome::NotVisible, because);
    }
    let is_near = |group: &Group| other(group) == Some(near);
    let highest = |is_wanted: &dyn Fn(&Group) -> bool| -> Option<(&Group, Range)> {
        let wanted = measured().filter(|(group, _)| is_wanted(group));
        wanted.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    };
    let found = highest(&is_near).zip(highest(&|group| !is_near(group)));
    let Some(((nearest, range), (rival, next))) = found else {
        return finding(claim, FindingOutcome::NotVisible, "only one kind of set was measured");
    };
    let because = format!(
        "{} answers {}, the best other set, {}, {}; {}",
        nearest.label,
        rate(range),
        rival.label,
        rate(next),
        ranges(&next, &range)
    );
    let above_all = measured().all(|(group, other)| is_near(group) || range.is_above(&other));
    finding(claim, holds(above_all), because)
}

#[cfg(test)]
mod tests;
