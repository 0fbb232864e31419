//! Weights that change over time.
/// Seconds that a weight may take to change: 30 days.
pub const RAMP_SECONDS_MAX: u32 = 30 * 86_400;
/// The steps of a change of at least so many seconds; a shorter one has a step each second.
const STEPS_MAX: u32 = 100;

/// A change of a member's weight over time, in equal steps. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightRamp {
    /// The weight at its start; `None`: the one that the member has when the set is written.
    pub from: Option<u16>,
    /// When it starts; `None`: when the set is written.
    pub start: Option<u64>,
    /// How many seconds it takes, from 1 to [`RAMP_SECONDS_MAX`].
    pub over: u32,
}

impl WeightRamp {
    /// When it starts. A stored one knows it.
    pub fn start(&self) -> u64 {
        self.start.unwrap_or_default()
    }

    /// When it ends.
    pub fn end(&self) -> u64 {
        self.start().saturating_add(self.over.into())
    }

    fn steps(&self) -> u64 {
        self.over.clamp(1, STEPS_MAX).into()
    }

    /// The steps that it has made by a time.
    fn step(&self, now: u64) -> u64 {
        let over = u64::from(self.over.max(1));
        now.saturating_sub(self.start()).min(over) * self.steps() / over
    }

    /// The weight at a time, if it is `to` at the end.
    pub fn weight(&self, to: u16, now: u64) -> u16 {
        let from = i64::from(self.from.unwrap_or_default());
        let way = (i64::from(to) - from) * self.step(now) as i64 / self.steps() as i64;
        (from + way) as u16
    }

    /// When it makes its next step; `None`: it has ended.
    pub(crate) fn next_step(&self, now: u64) -> Option<u64> {
        let next = self.step(now) + 1;
        let after = next * u64::from(self.over.max(1));
        (next <= self.steps()).then(|| self.start().saturating_add(after.div_ceil(self.steps())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(from: u16, start: u64, over: u32) -> WeightRamp {
        WeightRamp { from: Some(from), start: Some(start), over }
    }

    /// Each step is made at the time that the step before it names, and never two in a second.
    #[test]
    fn weight_changes_at_most_each_second_and_each_hundredth() {
        for (from, to, over) in
            [(0, 100, 600), (100, 0, 600), (7, 65_535, 1), (65_535, 0, 30 * 86_400), (0, 10, 7)]
        {
            let ramp = ramp(from, 1_000, over);
            assert_eq!((ramp.weight(to, 0), ramp.weight(to, 1_000)), (from, from));
            let (mut now, mut steps) = (900, 0);
            while let Some(next) = ramp.next_step(now) {
                assert!(next > now && next > 1_000, "{next}");
                assert_eq!(ramp.weight(to, next - 1), ramp.weight(to, now), "{from} to {to}");
                (now, steps) = (next, steps + 1);
            }
            assert_eq!((now, steps), (1_000 + u64::from(over), over.min(100)));
            assert_eq!((ramp.weight(to, now), ramp.weight(to, u64::MAX)), (to, to));
        }
        assert_eq!(
            [0, 150, 299, 300, 599, 600].map(|at| ramp(0, 0, 600).weight(100, at)),
            [0, 25, 49, 50, 99, 100]
        );
    }
}
