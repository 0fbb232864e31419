//! `dunlin fabric` between network namespaces. Needs root, iproute2 and Linux 6.6.
mod churn;
mod figures;
mod order;
mod program;
mod switch;
mod switch_frames;
mod switch_moves;
mod switch_program;
mod watch;

/// Whether namespaces can be made.
fn is_root() -> bool {
    if !rustix::process::geteuid().is_root() {
        test_support::skip::skip("it needs root");
        return false;
    }
    true
}
