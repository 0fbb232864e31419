//! Zones that are transferred from primaries of the tests.
mod lies;
mod primary;
