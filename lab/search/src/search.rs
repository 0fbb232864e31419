//! The search: names trials until all goals have their bounds.

use crate::classify::{Class, Stat, Target, relevant_bounds};
use crate::goal::Goal;
use crate::grid::Grid;
use crate::limits::{GOALS_MAX, TRIALS_MAX, VOIDS_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The range and the goals of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Goals; at equal progress the first goes first.
    pub goals: Vec<Goal>,
    /// The lowest load, queries a second.
    pub min: f64,
    /// The highest load, queries a second.
    pub max: f64,
    /// A trial at the highest load before the search, which does not count, seconds; 0: none.
    pub warmup_s: f64,
    /// Trial time after which the search gives up, seconds.
    pub time_max_s: f64,
}

/// The next trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Queries a second.
    pub load: f64,
    /// Seconds.
    pub duration_s: f64,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// For each goal the loss ratio, 0 to 1: queries without a right answer within its bound.
    Losses(Vec<f64>),
    /// The generator did not send what was due, so the trial says nothing of the server.
    Void,
}

/// A bound of a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Queries a second.
    pub load: f64,
    /// Trials at this load.
    pub trials: usize,
}

/// Why a goal's search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Both bounds are within the width.
    Width,
    /// Even the lowest load is an upper bound.
    BelowLowest,
    /// Even the highest load is a lower bound.
    AboveHighest,
    /// The generator cannot send the next higher load.
    Generator,
    /// Time or trials ran out.
    Time,
}

/// The result of one goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal's name.
    pub goal: String,
    /// The relevant lower bound.
    pub lower: Option<Bound>,
    /// The relevant upper bound.
    pub upper: Option<Bound>,
    /// Answers a second at the lower bound, in the trial at the allowed quantile.
    pub conditional_throughput: Option<f64>,
    /// Why it ended.
    pub end: End,
}

impl GoalResult {
    /// The relative width between both bounds.
    pub fn width(&self) -> Option<f64> {
        Some(1.0 - self.lower?.load / self.upper?.load)
    }
}

/// A target of a goal, with its width in steps.
#[derive(Clone, Copy, Debug)]
struct Stage {
    target: Target,
    width: u32,
}

/// The progress of one goal.
#[derive(Clone, Debug)]
struct Progress {
    stages: Vec<Stage>,
    stage: usize,
    /// The bounds of the stage before, or the first estimate.
    expected: (Option<u32>, Option<u32>),
    done: bool,
}

/// Trials at one load.
#[derive(Clone, Debug, Default)]
struct Trials {
    /// Duration in seconds, and losses by goal.
    all: Vec<(f64, Vec<f64>)>,
    voids: usize,
}

/// A running search.
#[derive(Clone, Debug)]
pub struct Search {
    config: Config,
    grid: Grid,
    trials: BTreeMap<u32, Trials>,
    progress: Vec<Progress>,
    /// The highest index to try; lower than the grid's where the generator has its limit.
    highest: u32,
    is_limited: bool,
    is_warm: bool,
    /// 0 before the trial at the highest load, 1 before that at the estimate, 2 behind both.
    estimates: u8,
    requested: Option<(u32, f64)>,
    spent_s: f64,
    count: usize,
}

impl Search {
    /// A search that has not begun.
    ///
    /// # Errors
    /// A goal or the range of loads is invalid: why.
    pub fn new(config: Config) -> Result<Self, String> {
        if config.goals.is_empty() || config.goals.len() > GOALS_MAX {
            return Err(format!("{} goals: expected 1 to {GOALS_MAX}", config.goals.len()));
        }
        config.goals.iter().try_for_each(Goal::check)?;
        let width = config.goals.iter().map(|goal| goal.width).fold(1.0, f64::min);
        let grid = Grid::new(config.min, config.max, width)?;
        let progress = config.goals.iter().map(|goal| Progress {
            stages: stages(goal, &grid),
            stage: 0,
            expected: (None, None),
            done: false,
        });
        Ok(Self {
            grid,
            trials: BTreeMap::new(),
            progress: progress.collect(),
            highest: grid.last,
            is_limited: false,
            is_warm: config.warmup_s <= 0.0,
            estimates: 0,
            requested: None,
            spent_s: 0.0,
            count: 0,
            config,
        })
    }

    /// Trial time so far, seconds.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// Trials so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The share of stages that are done, 0 to 1: a rough measure of progress.
    pub fn done_share(&self) -> f64 {
        let all: usize = self.progress.iter().map(|goal| goal.stages.len()).sum();
        let done: usize = self.progress.iter().map(Progress::stages_done).sum();
        done as f64 / all.max(1) as f64
    }

    /// The next trial; none once all goals have ended, or time or trials have run out.
    pub fn next_trial(&mut self) -> Option<Request> {
        if self.spent_s >= self.config.time_max_s || self.count >= TRIALS_MAX {
            return None;
        }
        let (index, duration_s) = match self.is_warm {
            false => (self.highest, self.config.warmup_s),
            true => match self.first_estimate() {
                Some(request) => request,
                None => self.nominate()?,
            },
        };
        self.requested = Some((index, duration_s));
        Some(Request { load: self.grid.load(index), duration_s })
    }

    /// Records the outcome of the trial that [`Self::next_trial`] named.
    ///
    /// # Errors
    /// No trial was requested, or the losses do not fit the goals.
    pub fn record(&mut self, outcome: Outcome) -> Result<(), String> {
        let (index, duration_s) = self.requested.take().ok_or("no trial was requested")?;
        self.spent_s += duration_s;
        self.count += 1;
        let losses = match outcome {
            Outcome::Void => {
                self.count_void(index);
                return Ok(());
            }
            Outcome::Losses(losses) => losses,
        };
        let is_right = losses.iter().all(|loss| (0.0..=1.0).contains(loss));
        if losses.len() != self.config.goals.len() || !is_right {
            return Err(format!("losses {losses:?}: expected one of 0 to 1 for each goal"));
        }
        if !self.is_warm {
            self.is_warm = true;
            return Ok(());
        }
        self.trials.entry(index).or_default().all.push((duration_s, losses));
        Ok(())
    }

    fn count_void(&mut self, index: u32) {
        let trials = self.trials.entry(index).or_default();
        trials.voids += 1;
        if trials.voids >= VOIDS_MAX {
            self.is_limited = true;
            // Far above the limit, halving the load finds it sooner than single steps.
            let step = ((2f64).ln() / self.grid.load(1).ln().max(1.0)) as u32;
            let known = self.trials.range(..index).next_back().map_or(0, |(known, _)| *known);
            self.highest = index.saturating_sub(step.max(1)).max(known);
            if self.highest == index {
                self.highest = index.saturating_sub(1);
            }
        }
    }

    /// The first two trials: at the highest load, then at the rate that was answered there.
    fn first_estimate(&mut self) -> Option<(u32, f64)> {
        let duration_s = self.config.goals.iter().map(|goal| goal.initial_s.min(goal.trial_s));
        let duration_s = duration_s.fold(0.0, f64::max);
        let is_known =
            |all: &Self, index| all.trials.get(&index).is_some_and(|t| !t.all.is_empty());
        if self.estimates == 0 {
            if !is_known(self, self.highest) {
                return Some((self.highest, duration_s));
            }
            self.estimates = 1;
            let index = self.estimate(self.highest, 0);
            if !is_known(self, index) {
                return Some((index, duration_s));
            }
        }
        if self.estimates == 1 {
            self.estimates = 2;
            for goal in 0..self.progress.len() {
                let low = self.estimate(self.highest, goal);
                let high = (low + self.progress[goal].stages[0].width).min(self.highest);
                self.progress[goal].expected = (Some(low), Some(high));
            }
        }
        None
    }

    /// The load that a goal may reach, by the answered rate of the lowest overload so far.
    fn estimate(&self, highest: u32, goal: usize) -> u32 {
        let goal_loss = self.config.goals[goal].loss_ratio;
        let losses = self.trials.range(..=highest).filter_map(|(index, trials)| {
            let (_, losses) = trials.all.last()?;
            Some((*index, losses[goal]))
        });
        let overload = losses.into_iter().find(|(_, loss)| *loss > goal_loss);
        let Some((index, loss)) = overload else { return highest };
        self.grid.index(self.grid.load(index) * (1.0 - loss) / (1.0 - goal_loss))
    }

    /// The next load: of the goal whose stage is earliest, then the lowest load.
    fn nominate(&mut self) -> Option<(u32, f64)> {
        let mut best: Option<(usize, u32, f64)> = None;
        for goal in 0..self.progress.len() {
            let Some((index, duration_s)) = self.nominate_for(goal) else { continue };
            let stage = self.progress[goal].stage;
            if best.is_none_or(|(s, i, _)| (stage, index) < (s, i)) {
                best = Some((stage, index, duration_s));
            }
        }
        best.map(|(_, index, duration_s)| (index, duration_s))
    }

    fn stats(&self, goal: usize, target: &Target) -> BTreeMap<u32, Stat> {
        let stat = |(index, trials): (&u32, &Trials)| {
            let mut stat = Stat::default();
            trials.all.iter().for_each(|(s, losses)| stat.add(target, *s, losses[goal]));
            (*index, stat)
        };
        self.trials.range(..=self.highest).filter(|(_, t)| !t.all.is_empty()).map(stat).collect()
    }

    fn nominate_for(&mut self, goal: usize) -> Option<(u32, f64)> {
        while !self.progress[goal].done {
            let Progress { stages, stage, expected, .. } = &self.progress[goal];
            let Stage { target, width } = stages[*stage];
            let bounds = relevant_bounds(&self.stats(goal, &target), &target);
            if let Some(index) = candidate(bounds, *expected, width, self.highest) {
                return Some((index, target.trial_s));
            }
            let progress = &mut self.progress[goal];
            progress.expected = bounds;
            match progress.stage + 1 < progress.stages.len() {
                true => progress.stage += 1,
                false => progress.done = true,
            }
        }
        None
    }

    /// The result so far.
    pub fn result(&self) -> Vec<GoalResult> {
        (0..self.progress.len()).map(|goal| self.result_of(goal)).collect()
    }

    fn result_of(&self, goal: usize) -> GoalResult {
        let progress = &self.progress[goal];
        let Stage { target, width } = *progress.stages.last().expect("a goal has a final stage");
        let stats = self.stats(goal, &target);
        let (lower, upper) = relevant_bounds(&stats, &target);
        let bound = |index: u32| Bound {
            load: self.grid.load(index),
            trials: self.trials.get(&index).map_or(0, |trials| trials.all.len()),
        };
        let throughput =
            |index: u32| self.grid.load(index) * (1.0 - stats[&index].loss_at_quantile(&target));
        let end = match (lower, upper) {
            (Some(low), Some(high)) if high - low <= width => End::Width,
            (None, Some(0)) => End::BelowLowest,
            (Some(low), None) if low == self.highest && self.is_limited => End::Generator,
            (None, None) if self.highest == 0 && self.is_limited => End::Generator,
            (Some(low), None) if low == self.highest => End::AboveHighest,
            _ => End::Time,
        };
        GoalResult {
            goal: self.config.goals[goal].name.clone(),
            lower: lower.map(bound),
            upper: upper.map(bound),
            conditional_throughput: lower.map(throughput),
            end,
        }
    }

    /// The class of a load for a goal's final target, for tests and reports.
    pub fn class(&self, goal: usize, load: f64) -> Class {
        let Some(stage) = self.progress[goal].stages.last() else { return Class::Undecided };
        let stats = self.stats(goal, &stage.target);
        stats.get(&self.grid.index(load)).map_or(Class::Undecided, |s| s.class(&stage.target))
    }
}

impl Progress {
    fn stages_done(&self) -> usize {
        if self.done { self.stages.len() } else { self.stage }
    }
}

/// The targets of a goal, the coarsest first.
fn stages(goal: &Goal, grid: &Grid) -> Vec<Stage> {
    let ratio = match goal.preceding {
        0 => 1.0,
        count => (goal.initial_s / goal.duration_sum_s).powf(1.0 / f64::from(count)),
    };
    let width = grid.steps(goal.width);
    let stage = |back: u32| {
        let duration_sum_s = goal.duration_sum_s * ratio.powi(back as i32);
        let target = Target {
            loss_ratio: goal.loss_ratio,
            exceed_ratio: goal.exceed_ratio,
            trial_s: goal.trial_s.min(duration_sum_s),
            duration_sum_s,
        };
        Stage { target, width: width.saturating_mul(1 << back.min(16)) }
    };
    (0..=goal.preceding).rev().map(stage).collect()
}

/// The next load of a stage; none if it has ended.
///
/// Expected bounds are confirmed first. A missing bound is searched away from the known one, each
/// step as long as the whole way so far. An interval is halved.
fn candidate(
    bounds: (Option<u32>, Option<u32>),
    expected: (Option<u32>, Option<u32>),
    width: u32,
    highest: u32,
) -> Option<u32> {
    let expected = (expected.0.map(|e| e.min(highest)), expected.1.map(|e| e.min(highest)));
    match bounds {
        (Some(low), Some(high)) => {
            if high - low <= width {
                return None;
            }
            let inside = |index: &u32| (low + 1..high).contains(index);
            let confirm = expected.0.filter(inside).or(expected.1.filter(inside));
            // Halves in multiples of the width, so that no interval is left that is just too wide.
            let middle = low + ((high - low) / 2).div_ceil(width) * width;
            Some(confirm.unwrap_or_else(|| if middle < high { middle } else { low + width }))
        }
        (None, Some(0)) => None,
        (None, Some(high)) => {
            let start = expected.1.or(expected.0).unwrap_or(high).max(high);
            let step = (start - high).max(width);
            let is_below = |index: &u32| *index < high;
            let below = expected.0.filter(is_below).or(expected.1.filter(is_below));
            Some(below.unwrap_or_else(|| high.saturating_sub(step)))
        }
        (Some(low), None) if low >= highest => None,
        (Some(low), None) => {
            let start = expected.0.or(expected.1).unwrap_or(low).min(low);
            let step = (low - start).max(width);
            let is_above = |index: &u32| *index > low;
            let above = expected.1.filter(is_above).or(expected.0.filter(is_above));
            Some(above.unwrap_or_else(|| low.saturating_add(step).min(highest)))
        }
        (None, None) => Some(expected.0.or(expected.1).unwrap_or(highest)),
    }
}

#[cfg(test)]
mod tests;
