//! Plans of CPUs beside those of the kubelet.
mod common;
mod load;
mod random;
mod vectors;
mod weak_points;
