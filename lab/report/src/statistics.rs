//! Lines through points.

/// Slope and intercept of the line with the least squares; none where no line is determined.
pub fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    (points.len() > 1 && spread > 0.0).then_some((slope, y - slope * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_and_intercept_are_those_of_the_line() {
        let points: Vec<_> = (0..60).map(|s| (f64::from(s), 1e6 + 500.0 * f64::from(s))).collect();
        let (slope, base) = line_through(&points).unwrap();
        assert!((slope - 500.0).abs() < 1e-6 && (base - 1e6).abs() < 1e-3, "{slope} {base}");
        assert_eq!(line_through(&points[..1]), None);
        assert_eq!(line_through(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
