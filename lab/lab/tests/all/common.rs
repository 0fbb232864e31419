//! Shared by these tests: how to report a missing requirement.

use test_support::skip;

pub use skip::skip;
