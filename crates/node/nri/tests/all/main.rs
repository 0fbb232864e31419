//! The protocol beside a real runtime.
mod containerd;
