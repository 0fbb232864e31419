//! Every maximum of this crate.

/// Bytes of one mode's parameters.
pub const PARAMS_BYTES_MAX: usize = 64 << 10;
/// Steps of one list of a ladder.
pub const STEPS_MAX: usize = 1_024;
/// The largest ratio, capacity, step and number of replicas that strict parameters accept.
pub const NUMBER_MAX: f64 = 1e9;
/// The smallest ratio that strict parameters accept.
pub const RATIO_MIN: f64 = 0.001;
/// Replicas that any policy of Dunlin asks for.
pub const REPLICAS_MAX: u32 = 100_000;
/// Targets of one scaler.
pub const TARGETS_MAX: usize = 32;
/// Bytes of a line of a trace.
pub const TRACE_LINE_BYTES_MAX: usize = 64 << 10;
/// Samples of one window; later ones are merged into the newest.
pub const WINDOW_SAMPLES_MAX: usize = 4_096;
/// Bytes of the metrics of one replica.
pub const METRICS_BYTES_MAX: usize = 4 << 20;
/// Types of node whose costs are kept apart.
pub const NODE_TYPES_MAX: usize = 32;
