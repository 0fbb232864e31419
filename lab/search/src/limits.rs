//! Limits.

/// Goals of one search.
pub const GOALS_MAX: usize = 8;

/// Steps between the lowest and the highest load.
pub const STEPS_MAX: f64 = 1_000_000.0;

/// Trials of one search.
pub const TRIALS_MAX: usize = 100_000;

/// Void trials at one load before it counts as above the generator's limit.
pub const VOIDS_MAX: usize = 3;
