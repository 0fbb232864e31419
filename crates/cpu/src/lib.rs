//! Which CPUs this process may use, and pinning to them.
