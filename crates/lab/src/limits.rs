//! What there is at most.

/// Samples of one side of a comparison: what the exact test can weigh in a second.
pub const SAMPLES_MAX: usize = 50;

/// Samples a bootstrap draws of a statistic.
pub const RESAMPLES: usize = 4_000;
