//! Made-up courses of a cluster and its load: six kinds, each from a seed.
use fastrand::Rng;

/// Seconds of a step.
pub const STEP_S: f64 = 15.0;
/// Steps of a course: 6 hours.
pub const STEPS: usize = 1_440;
/// Queries a second that one replica carries, as the parameters say.
pub const CAPACITY: f64 = 20_000.0;

/// The kinds of course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// A day's wave in 6 hours, with noise.
    Diurnal,
    /// Eight times the load within one step, for 10 to 40 minutes.
    FlashCrowd,
    /// Nodes come and go in bursts.
    NodeStorm,
    /// A large part of the nodes is not ready for a while, and metrics are missing.
    Partition,
    /// Few nodes with many Pods: much load.
    FewNodes,
    /// Large nodes: many cores, little load.
    LargeNodes,
}

impl Course {
    pub const ALL: [Self; 6] = [
        Self::Diurnal,
        Self::FlashCrowd,
        Self::NodeStorm,
        Self::Partition,
        Self::FewNodes,
        Self::LargeNodes,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Diurnal => "diurnal",
            Self::FlashCrowd => "flash crowd × 8",
            Self::NodeStorm => "node storm",
            Self::Partition => "partition",
            Self::FewNodes => "few nodes, many Pods",
            Self::LargeNodes => "large nodes",
        }
    }
}

/// One moment of a course.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub nodes: u64,
    pub ready: u64,
    pub cores_per_node: u64,
    /// Queries a second that clients send.
    pub qps: f64,
    /// Whether too few replicas can be asked for their metrics.
    pub is_blind: bool,
}

/// A course, and what one replica really carries.
pub struct Made {
    pub moments: Vec<Moment>,
    pub capacity: f64,
}

/// A number of which the logarithm is evenly distributed.
fn spread(random: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.f64())
}

/// The course of a seed.
pub fn make(course: Course, seed: u64) -> Made {
    let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ course as u64);
    let capacity = CAPACITY * (0.9 + 0.2 * random.f64());
    let (base, nodes, cores_per_node) = match course {
        Course::FewNodes => (spread(&mut random, 5e4, 2e5), random.u64(3..=8), 16),
        Course::LargeNodes => (spread(&mut random, 2e3, 2e4), random.u64(10..=60), 96),
        _ => (spread(&mut random, 5e3, 6e4), random.u64(10..=300), random.u64(2..=16)),
    };
    let usual = Moment { nodes, ready: nodes, cores_per_node, qps: base, is_blind: false };
    let mut moments = vec![usual; STEPS];
    match course {
        Course::Diurnal => wave(&mut moments, &mut random),
        Course::FlashCrowd => crowd(&mut moments, &mut random),
        Course::NodeStorm => storm(&mut moments, &mut random),
        Course::Partition => partition(&mut moments, &mut random),
        Course::FewNodes | Course::LargeNodes => walk(&mut moments, &mut random),
    }
    for moment in &mut moments {
        moment.qps *= 0.95 + 0.1 * random.f64();
    }
    Made { moments, capacity }
}

fn wave(moments: &mut [Moment], random: &mut Rng) {
    let (depth, phase) = (0.3 + 0.6 * random.f64(), random.f64());
    for (index, moment) in moments.iter_mut().enumerate() {
        let turn = index as f64 / STEPS as f64 + phase;
        moment.qps *= 4.0 * (1.0 + depth * (std::f64::consts::TAU * turn).sin());
        // The cluster's own autoscaler follows, some.
        let more = 1.0 + 0.5 * depth * (std::f64::consts::TAU * (turn - 0.02)).sin();
        moment.nodes = (moment.nodes as f64 * more).ceil() as u64;
        moment.ready = moment.nodes;
    }
}

fn crowd(moments: &mut [Moment], random: &mut Rng) {
    let base = moments[0].qps;
    for _ in 0..random.usize(1..=2) {
        let length = random.usize(40..=160);
        let begin = random.usize(0..STEPS - length);
        for moment in &mut moments[begin..begin + length] {
            moment.qps = 8.0 * base;
        }
    }
}

fn storm(moments: &mut [Moment], random: &mut Rng) {
    let mut index = 0;
    while index < STEPS {
        let length = random.usize(4..=120);
        let factor = spread(random, 0.4, 3.0);
        for moment in moments.iter_mut().skip(index).take(length) {
            moment.nodes = ((moment.nodes as f64 * factor) as u64).max(2);
            moment.ready = moment.nodes;
            moment.qps *= factor.powf(0.4);
        }
        index += length + random.usize(0..=60);
    }
}

fn partition(moments: &mut [Moment], random: &mut Rng) {
    for _ in 0..3 {
        let length = random.usize(8..=80);
        let begin = random.usize(0..STEPS - length);
        let share = 0.3 + 0.4 * random.f64();
        for moment in &mut moments[begin..begin + length] {
            moment.ready = ((moment.nodes as f64 * (1.0 - share)) as u64).max(1);
            moment.is_blind = true;
        }
    }
}

/// A slow random walk of the load, with small crowds.
fn walk(moments: &mut [Moment], random: &mut Rng) {
    let (mut level, mut crowd) = (1.0_f64, 0);
    for moment in moments {
        level = (level * (1.0 + 0.03 * (random.f64() - 0.5))).clamp(0.5, 2.0);
        if crowd == 0 && random.usize(0..400) == 0 {
            crowd = random.usize(10..60);
        }
        let factor = if crowd > 0 { 2.0 } else { 1.0 };
        crowd = usize::saturating_sub(crowd, 1);
        moment.qps *= level * factor;
    }
}
