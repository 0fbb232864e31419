//! Results of a sweep: points, their runs, and fits.

use std::collections::BTreeMap;

use lab::record::RunRecord;
use lab::statistics::{MedianEstimate, middle};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::costs::CostRecord;
use crate::usl::Usl;

/// A sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The variable of the fit, such as `processes`.
    pub scale: String,
    /// Points in their order.
    pub points: Vec<Point>,
    /// For each group of other settings a fit over [`Self::scale`].
    pub fits: Vec<Fit>,
}

/// A point: one combination of settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its settings.
    pub settings: BTreeMap<String, String>,
    /// The class of core sets that it represents, such as `two cores, one L2`, and its members.
    pub class: Option<CoreClass>,
    /// Indexes of its runs.
    pub runs: Vec<usize>,
    /// Answers a second.
    pub rate: Option<MedianEstimate>,
    /// The costs of an answer, from one more run; `None`: not wanted, or not known.
    pub costs: Option<Box<CostRecord>>,
    /// Why it was not measured.
    pub skipped: Option<String>,
}

/// Core sets that the topology makes equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreClass {
    /// Its name.
    pub name: String,
    /// All its core sets; the first one was measured.
    pub members: Vec<String>,
}

/// A fit of the Universal Scalability Law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The settings that its points share.
    pub group: BTreeMap<String, String>,
    /// The law; none for fewer than three numbers.
    pub law: Option<Usl>,
}

impl Sweep {
    /// A sweep whose numbers follow from the runs.
    ///
    /// # Errors
    /// A point names a run that is not there.
    pub fn new(scale: &str, mut points: Vec<Point>, runs: &[RunRecord]) -> Result<Self> {
        for point in &mut points {
            point.rate = middle(&rates(&point.runs, runs)?);
        }
        let fits = fits(scale, &points);
        Ok(Self { scale: scale.into(), points, fits })
    }

    /// The point with the highest median.
    pub fn best(&self) -> Option<&Point> {
        let median = |point: &Point| point.rate.map_or(0.0, |rate| rate.median);
        let measured = self.points.iter().filter(|point| point.rate.is_some());
        measured.max_by(|a, b| median(a).total_cmp(&median(b)))
    }
}

/// Answers a second of these runs.
///
/// # Errors
/// There is no such run.
pub fn rates(indexes: &[usize], runs: &[RunRecord]) -> Result<Vec<f64>> {
    let rate = |index: &usize| {
        let run = runs.get(*index).ok_or_else(|| format!("there is no run {index}"))?;
        Ok(run.derived.answered_rate)
    };
    indexes.iter().map(rate).collect()
}

fn fits(scale: &str, points: &[Point]) -> Vec<Fit> {
    let mut groups: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for point in points {
        let number = point.settings.get(scale).and_then(|value| value.parse::<f64>().ok());
        if let (Some(number), Some(rate)) = (number, point.rate) {
            let mut others = point.settings.clone();
            others.remove(scale);
            groups.entry(others).or_default().push((number, rate.median));
        }
    }
    groups.into_iter().map(|(group, points)| Fit { group, law: Usl::fit(&points) }).collect()
}
