//! Memory bandwidth that is left beside other work: a loop that copies, as STREAM has it.
use crate::limits::COPY_BYTES;
use crate::{Result, failed};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Copies on a CPU, once or until the flag is set; bytes a second.
fn copy(cpu: usize, begin: &Barrier, is_over: &AtomicBool) -> Result<f64> {
    let (from, mut to) = (vec![1_u8; COPY_BYTES], vec![2_u8; COPY_BYTES]);
    begin.wait();
    cpu::pin(cpu).map_err(failed("cannot pin a loop that copies"))?;
    let begin = Instant::now();
    let mut bytes = 0;
    loop {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        bytes += COPY_BYTES;
        if is_over.load(Ordering::Relaxed) {
            return Ok(bytes as f64 / begin.elapsed().as_secs_f64());
        }
    }
}

/// Does something while a CPU copies. Returns what that led to, and bytes copied a second.
fn while_copying<T>(cpu: usize, act: impl FnOnce() -> T) -> Result<(T, f64)> {
    let (begin, is_over) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let copying = scope.spawn(|| copy(cpu, &begin, &is_over));
        begin.wait();
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        let copied = copying.join().map_err(|_| "a loop that copies panicked".to_owned())?;
        Ok((done, copied?))
    })
}

/// The share of the bandwidth of copies on this CPU that is left beside some work.
///
/// # Errors
/// The CPU cannot be used, or the work fails.
pub fn share_left<T>(
    cpu: usize,
    alone: Duration,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, f64)> {
    let ((), free) = while_copying(cpu, || thread::sleep(alone))?;
    let (done, left) = while_copying(cpu, work)?;
    Ok((done?, left / free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_measured_during_work_and_its_error_is_passed_on() {
        let first = cpu::allowed().unwrap().iter().next().unwrap();
        let pause = Duration::from_millis(50);
        let work = || {
            thread::sleep(pause);
            Ok(7)
        };
        let (done, left) = share_left(first, pause, work).unwrap();
        assert!(done == 7 && left > 0.0, "{left}");
        assert_eq!(share_left(first, pause, || Err::<(), _>("no".into())), Err("no".into()));
    }
}
