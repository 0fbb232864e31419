//! Panics on purpose, for tests of what becomes of a query whose handling panics. A build without
//! debug assertions has none of this.
#[cfg(debug_assertions)]
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(debug_assertions)]
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Has names that begin with the label `panic-STEP` panic at this step, in this process.
#[cfg(debug_assertions)]
pub fn enable_injected_panics() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Panics if a test has enabled it, and the name in wire format begins with the label `panic-STEP`.
/// A closure gives the name: a build without debug assertions must not even check its bounds.
#[inline(always)]
pub fn inject_panic<'n>(step: &str, name: impl FnOnce() -> &'n [u8]) {
    #[cfg(debug_assertions)]
    if IS_ENABLED.load(Ordering::Relaxed) {
        let name = name();
        let label = name.get(1..1 + name.first().map_or(0, |len| usize::from(*len)));
        let named = label.and_then(|label| label.strip_prefix(b"panic-"));
        assert!(named != Some(step.as_bytes()), "injected at {step}");
    }
    #[cfg(not(debug_assertions))]
    let _ = (step, name);
}
