//! Searches of 1,000 simulated servers: sharp and soft knees, noise, loss, warm-up.

use lab_search::{Config, End, Goal, Outcome, Request, Search};

const SERVERS: u64 = 1_000;
const MIN: f64 = 1_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Everything above the capacity is lost.
    Sharp,
    /// Loss begins at 90 % of the capacity and grows with the square of the excess.
    Soft,
    /// The capacity of each trial differs by about one percent.
    Noisy,
    /// One trial in ten loses a few percent at any load.
    Spikes,
    /// Two queries in a thousand are lost at any load.
    Lossy,
    /// The first trials have half of the capacity.
    WarmUp,
}

const SHAPES: [Shape; 6] =
    [Shape::Sharp, Shape::Soft, Shape::Noisy, Shape::Spikes, Shape::Lossy, Shape::WarmUp];

struct Server {
    shape: Shape,
    capacity: f64,
    trials: u32,
    random: fastrand::Rng,
}

impl Server {
    fn new(seed: u64) -> (Self, f64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = SHAPES[seed as usize % SHAPES.len()];
        let capacity = 5_000.0 * (random.f64() * (400f64).ln()).exp();
        let max = capacity * (1.2 + 18.8 * random.f64());
        (Self { shape, capacity, trials: 0, random }, max)
    }

    /// About normal, of mean 0 and variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    fn loss(&mut self, load: f64, duration_s: f64) -> f64 {
        self.trials += 1;
        let hard = |capacity: f64| (1.0 - capacity / load).max(0.0);
        let ratio = match self.shape {
            Shape::Sharp => hard(self.capacity),
            Shape::Soft => {
                let excess = (load / self.capacity - 0.9).max(0.0);
                (excess * excess).min(1.0).max(hard(self.capacity))
            }
            Shape::Noisy => {
                let noise = 1.0 + 0.01 * self.normal();
                hard(self.capacity * noise)
            }
            Shape::Spikes if self.random.u32(..10) == 0 => hard(self.capacity).max(0.03),
            Shape::Spikes => hard(self.capacity),
            Shape::Lossy => hard(self.capacity).max(0.002),
            Shape::WarmUp if self.trials <= 2 => hard(self.capacity / 2.0),
            Shape::WarmUp => hard(self.capacity),
        };
        let planned = (load * duration_s).round();
        ((planned * ratio).round() / planned.max(1.0)).clamp(0.0, 1.0)
    }

    /// The load that a goal can reach, for shapes without chance.
    fn truth(&self, goal: &Goal) -> Option<f64> {
        match self.shape {
            Shape::Sharp | Shape::WarmUp => Some(self.capacity / (1.0 - goal.loss_ratio)),
            // Half a query of a trial is rounded to none.
            Shape::Soft => {
                let unseen = 0.5 / self.capacity;
                Some(self.capacity * (0.9 + goal.loss_ratio.max(unseen).sqrt()))
            }
            _ => None,
        }
    }
}

fn goals() -> Vec<Goal> {
    vec![Goal::ndr(), Goal::pdr()]
}

fn search(seed: u64) -> (Search, Server) {
    let (mut server, max) = Server::new(seed);
    let config = Config { goals: goals(), min: MIN, max, warmup_s: 1.0, time_max_s: 5_000.0 };
    let mut search = Search::new(config).unwrap();
    while let Some(Request { load, duration_s }) = search.next_trial() {
        let loss = server.loss(load, duration_s);
        search.record(Outcome::Losses(vec![loss, loss])).unwrap();
    }
    (search, server)
}

/// Trial time of one bisection for each goal, each load measured for the whole duration sum.
fn bisection_s(seed: u64) -> f64 {
    let (mut server, max) = Server::new(seed);
    let mut spent_s = 0.0;
    for goal in goals() {
        let (mut low, mut high) = (MIN, max);
        while 1.0 - low / high > goal.width {
            let load = (low * high).sqrt();
            let trials = (goal.duration_sum_s / goal.trial_s).round() as u32;
            let bad = (0..trials).filter(|_| server.loss(load, goal.trial_s) > goal.loss_ratio);
            let is_bad = bad.count() as f64 > f64::from(trials) * goal.exceed_ratio;
            spent_s += goal.duration_sum_s;
            *(if is_bad { &mut high } else { &mut low }) = load;
        }
    }
    spent_s
}

#[test]
fn search_ends_within_its_width_on_simulated_servers() {
    let (mut all, mut right) = (0, 0);
    for seed in 0..SERVERS {
        let (search, server) = search(seed);
        for (result, goal) in search.result().iter().zip(goals()) {
            all += 1;
            // A server that always loses has no rate without loss.
            let expected = match (server.shape, goal.loss_ratio) {
                (Shape::Lossy, 0.0) => result.end == End::BelowLowest,
                _ => result.width().is_some_and(|width| width <= goal.width + 1e-9),
            };
            right += usize::from(expected);
            if !expected {
                println!("seed {seed} {:?} {}: {result:?}", server.shape, server.capacity);
            }
        }
    }
    println!("{right} of {all} goals ended within their width");
    assert!(right * 100 >= all * 95, "{right} of {all}");
}

#[test]
fn noise_free_bounds_hold_the_capacity() {
    let (mut all, mut right) = (0, 0);
    for seed in 0..SERVERS {
        let (search, server) = search(seed);
        for (result, goal) in search.result().iter().zip(goals()) {
            let Some(truth) = server.truth(&goal) else { continue };
            let (low, high) = (result.lower.unwrap().load, result.upper.unwrap().load);
            // Whole queries of a trial of one second round the loss.
            let slack = 1.0 + 2.0 / truth;
            all += 1;
            let holds = low <= truth * slack && truth <= high * slack;
            right += usize::from(holds);
            if !holds {
                println!("seed {seed} {:?} {}: {truth} {low} {high}", server.shape, goal.name);
            }
        }
    }
    assert!(all > 800 && right * 100 >= all * 99, "{right} of {all}");
}

#[test]
fn search_needs_less_time_than_bisection() {
    let (mut ours_s, mut theirs_s, mut worse) = (0.0, 0.0, 0);
    for seed in 0..SERVERS {
        let (ours, theirs) = (search(seed).0.spent_s(), bisection_s(seed));
        (ours_s, theirs_s) = (ours_s + ours, theirs_s + theirs);
        worse += u64::from(ours >= theirs);
    }
    let mean = |sum: f64| sum / SERVERS as f64;
    println!("mean trial time {} s, bisection {} s, {worse} worse", mean(ours_s), mean(theirs_s));
    assert!(ours_s < theirs_s && worse * 20 < SERVERS, "{ours_s} {theirs_s} {worse}");
}
