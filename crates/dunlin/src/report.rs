//! What SIGUSR1 asks for: the counters of each worker, and how evenly they are loaded.
use crate::app::COUNTERS;
use door::CountersView;
use packet::Drop;
use plane::Totals;
use wire::Rcode;

/// The counters of one thread that answers.
pub struct Counted {
    /// The thread's name.
    pub name: String,
    pub plane: CountersView<{ plane::COUNTERS }>,
    pub answers: CountersView<COUNTERS>,
}

/// Logs the counters of each, and of all.
pub fn log(all: &[Counted]) {
    for Counted { name, plane, answers } in all {
        log_line(name, &Totals::sum([plane]), &answers.read());
    }
    let totals = Totals::sum(all.iter().map(|counted| &counted.plane));
    log_line("all", &totals, &CountersView::sum(all.iter().map(|counted| &counted.answers)));
    let workers = all.iter().filter(|counted| counted.name.starts_with("worker-"));
    let received: Vec<u64> =
        workers.map(|counted| Totals::sum([&counted.plane]).received).collect();
    let imbalance = imbalance(&received);
    tracing::info!(imbalance, "most received by a worker, over the mean");
}

fn log_line(thread: &str, totals: &Totals, answers: &[u64; COUNTERS]) {
    let named = |names: &mut dyn Iterator<Item = (String, u64)>| -> String {
        let some: Vec<String> = names
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        some.join(", ")
    };
    let rcodes =
        Rcode::ALL.iter().map(|rcode| rcode.name().to_owned()).zip(answers.iter().copied());
    let truncated = ("truncated".to_owned(), answers[COUNTERS - 1]);
    let reasons = Drop::ALL.iter().map(|reason| reason.name().to_owned()).zip(totals.dropped);
    let Totals { bursts, received, replied, .. } = *totals;
    let answers = named(&mut rcodes.chain([truncated]));
    let dropped = named(&mut { reasons });
    tracing::info!(thread, bursts, received, replied, answers, dropped, "counters");
}

/// The most over the mean; 1 is even, and so is nothing at all.
fn imbalance(received: &[u64]) -> f64 {
    let sum: u64 = received.iter().sum();
    let most = received.iter().max().copied().unwrap_or_default();
    if sum == 0 { 1.0 } else { most as f64 * received.len() as f64 / sum as f64 }
}

#[cfg(test)]
mod tests {
    use super::imbalance;

    #[test]
    fn imbalance_is_one_when_even() {
        assert_eq!(imbalance(&[5, 5]), 1.0);
        assert_eq!(imbalance(&[30, 10]), 1.5);
        assert_eq!(imbalance(&[0, 0]), 1.0);
        assert_eq!(imbalance(&[]), 1.0);
    }
}
