//! The Universal Scalability Law: throughput over the number of cores, threads or processes.
//!
//! X(N) = λN / (1 + α(N − 1) + βN(N − 1)) (Gunther). N/X is linear in 1/λ, α/λ and β/λ, so a
//! weighted linear fit finds them.

use serde::{Deserialize, Serialize};

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usl {
    /// Throughput of one, a second.
    pub lambda: f64,
    /// Contention: the share of serial work.
    pub alpha: f64,
    /// Coherence: the cost of each pair.
    pub beta: f64,
    /// The number with the highest throughput; none without coherence cost.
    pub peak: Option<f64>,
}

impl Usl {
    /// Fits the law to pairs of number and throughput. Contention and coherence are at least 0.
    /// None for fewer than three different numbers, or values that are not above 0.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let mut numbers: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let is_right = points.iter().all(|(n, x)| *n >= 1.0 && *x > 0.0 && x.is_finite());
        if numbers.len() < 3 || !is_right {
            return None;
        }
        // Without coherence, without contention, and without either, where a value would be below
        // 0.
        let all = [[true, true, true], [true, true, false], [true, false, true]];
        let found = all.into_iter().find_map(|terms| {
            let [a, b, c] = least_squares(points, terms)?;
            (a > 0.0 && b >= 0.0 && c >= 0.0).then_some([a, b, c])
        });
        let [a, b, c] = found.or_else(|| least_squares(points, [true, false, false]))?;
        let (lambda, alpha, beta) = (1.0 / a, b / a, c / a);
        let peak = (beta > 0.0).then(|| ((1.0 - alpha).max(0.0) / beta).sqrt());
        Some(Self { lambda, alpha, beta, peak })
    }

    /// Throughput of `n` by the law.
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0))
    }
}

/// Coefficients of 1, N − 1 and N(N − 1) for N/X, those without a term 0. The weight X/N makes
/// errors relative.
fn least_squares(points: &[(f64, f64)], terms: [bool; 3]) -> Option<[f64; 3]> {
    let mut matrix = [[0.0; 4]; 3];
    for (n, x) in points {
        let weight = x / n;
        let basis = [1.0, n - 1.0, n * (n - 1.0)];
        for row in 0..3 {
            for column in 0..3 {
                matrix[row][column] += weight * basis[row] * weight * basis[column];
            }
            matrix[row][3] += weight * basis[row];
        }
    }
    for (term, is_used) in terms.into_iter().enumerate() {
        if !is_used {
            matrix[term] = [0.0; 4];
            matrix.iter_mut().for_each(|row| row[term] = 0.0);
            matrix[term][term] = 1.0;
        }
    }
    solve(matrix)
}

/// Gaussian elimination with pivots; none for a singular matrix.
fn solve(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        let head = matrix[column];
        if head[column].abs() < 1e-12 {
            return None;
        }
        for (row, values) in matrix.iter_mut().enumerate() {
            if row != column {
                let factor = values[column] / head[column];
                values.iter_mut().zip(head).for_each(|(value, other)| *value -= factor * other);
            }
        }
    }
    Some([0, 1, 2].map(|row| matrix[row][3] / matrix[row][row]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters_are_found() {
        let truth = Usl { lambda: 995.6, alpha: 0.0267, beta: 0.000_769, peak: None };
        let points: Vec<_> = (1..=32).map(|n| (f64::from(n), truth.at(f64::from(n)))).collect();
        let fit = Usl::fit(&points).unwrap();
        assert!((fit.lambda / truth.lambda - 1.0).abs() < 1e-9, "{fit:?}");
        assert!((fit.alpha - truth.alpha).abs() < 1e-9 && (fit.beta - truth.beta).abs() < 1e-9);
        assert!((fit.peak.unwrap() - 35.6).abs() < 0.1, "{fit:?}");
    }

    #[test]
    fn linear_and_superlinear_throughput_has_no_negative_cost() {
        let linear: Vec<_> = (1..=4).map(|n| (f64::from(n), 100.0 * f64::from(n))).collect();
        let fit = Usl::fit(&linear).unwrap();
        assert!(fit.alpha.abs() < 1e-9 && fit.beta.abs() < 1e-9, "{fit:?}");
        let more = [(1.0, 100.0), (2.0, 210.0), (4.0, 450.0)];
        let fit = Usl::fit(&more).unwrap();
        assert!(fit.alpha >= 0.0 && fit.beta >= 0.0, "{fit:?}");
    }

    #[test]
    fn too_few_points_have_no_fit() {
        assert_eq!(Usl::fit(&[(1.0, 10.0), (2.0, 20.0), (2.0, 21.0)]), None);
        assert_eq!(Usl::fit(&[(1.0, 10.0), (2.0, 0.0), (3.0, 21.0)]), None);
    }
}
