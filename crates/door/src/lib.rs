//! What control and plane say to each other: the snapshot pointer and the counters.
