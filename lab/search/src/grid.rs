//! The grid of loads: equal steps on a logarithmic scale.

use crate::limits::STEPS_MAX;

/// Loads from the lowest to the highest, by index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    min: f64,
    /// ln(highest / lowest) / steps.
    step: f64,
    /// The index of the highest load.
    pub last: u32,
}

impl Grid {
    /// A grid whose steps are at most `width` apart, as a share of the higher load.
    ///
    /// # Errors
    /// The loads are not in order, or there would be too many steps.
    pub fn new(min: f64, max: f64, width: f64) -> Result<Self, String> {
        if !(min > 0.0 && min < max && max.is_finite()) {
            return Err(format!("loads of {min} to {max} a second: expected 0 < lowest < highest"));
        }
        let range = (max / min).ln();
        let steps = (range / -(-width).ln_1p()).ceil().max(1.0);
        if steps > STEPS_MAX {
            return Err(format!("{steps} steps between {min} and {max} are more than {STEPS_MAX}"));
        }
        Ok(Self { min, step: range / steps, last: steps as u32 })
    }

    /// The load at an index.
    pub fn load(&self, index: u32) -> f64 {
        self.min * (self.step * f64::from(index)).exp()
    }

    /// The highest index whose load is at most `load`; 0 for a load below the lowest.
    pub fn index(&self, load: f64) -> u32 {
        let steps = (load.max(self.min) / self.min).ln() / self.step;
        // A load of the grid itself must not fall below its index by rounding.
        ((steps + 1e-9) as u32).min(self.last)
    }

    /// Whole steps within a relative width, at least one.
    pub fn steps(&self, width: f64) -> u32 {
        ((-(-width).ln_1p() / self.step + 1e-9) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_indexes_are_inverse_and_steps_within_the_width() {
        let grid = Grid::new(1_000.0, 2_000_000.0, 0.005).unwrap();
        for index in (0..=grid.last).step_by(37) {
            assert_eq!(grid.index(grid.load(index)), index);
            if index > 0 {
                let width = 1.0 - grid.load(index - 1) / grid.load(index);
                assert!(width <= 0.005 + 1e-12, "{width}");
            }
        }
        assert!((grid.load(grid.last) - 2_000_000.0).abs() < 1e-3);
        assert_eq!((grid.index(1.0), grid.index(1e12)), (0, grid.last));
        assert_eq!((grid.steps(0.005), grid.steps(0.001)), (1, 1));
        assert!(grid.steps(0.01) >= 2);
        assert!(Grid::new(2.0, 1.0, 0.1).is_err() && Grid::new(1.0, 1e300, 1e-6).is_err());
    }
}
