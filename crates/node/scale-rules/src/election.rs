//! Election of one of several scalers by a Lease, with the clock as an argument.
//!
//! Only the monotonic clock of this process counts, never the times that a Lease holds: a step of
//! the wall clock changes nothing. A write to a target comes right after a successful renewal, and
//! every write to the Lease names the version that was read, so of two scalers that both believe to
//! lead only one can renew.

/// How long a lease holds without a renewal.
pub const LEASE_S: f64 = 15.0;
/// How long a leader may write after its last renewal.
pub const RENEWAL_MAX_S: f64 = 10.0;
/// Time between renewals.
pub const RETRY_S: f64 = 2.0;

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it; empty after it was given up.
    pub holder: String,
    /// The version of the object.
    pub version: String,
}

/// What to do with the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is none: create it.
    Create,
    /// It is ours: renew it.
    Renew,
    /// Its holder has not renewed it for long: take it.
    Take,
    /// Another holds it.
    Wait,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Elector {
    id: String,
    /// The version that was seen last, and since when.
    seen: Option<(String, f64)>,
    renewed_s: Option<f64>,
}

impl Elector {
    /// A candidate with a name that no other has.
    pub const fn new(id: String) -> Self {
        Self { id, seen: None, renewed_s: None }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What to do, by what the Lease says now.
    pub fn step(&mut self, now_s: f64, lease: Option<&Lease>) -> Step {
        let Some(lease) = lease else { return Step::Create };
        if lease.holder == self.id {
            return Step::Renew;
        }
        self.renewed_s = None;
        let since_s = match &self.seen {
            Some((version, since_s)) if *version == lease.version => *since_s,
            _ => {
                self.seen = Some((lease.version.clone(), now_s));
                now_s
            }
        };
        match lease.holder.is_empty() || now_s - since_s >= LEASE_S {
            true => Step::Take,
            false => Step::Wait,
        }
    }

    /// A write to the Lease succeeded. `begun_s` is the clock before it was sent.
    pub const fn renewed(&mut self, begun_s: f64) {
        self.renewed_s = Some(begun_s);
    }

    /// A write to the Lease was refused because another has written it.
    pub const fn lost(&mut self) {
        self.renewed_s = None;
    }

    /// Whether it leads now.
    pub fn is_leader(&self, now_s: f64) -> bool {
        self.renewed_s.is_some_and(|renewed_s| (0.0..RENEWAL_MAX_S).contains(&(now_s - renewed_s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Lease as the API server keeps it.
    #[derive(Default)]
    struct Server {
        lease: Option<Lease>,
        writes: u64,
    }

    impl Server {
        /// Lets a candidate do what it wants to, on what it has read; whether it leads then.
        fn turn(&mut self, elector: &mut Elector, now_s: f64, read: Option<Lease>) -> bool {
            let step = elector.step(now_s, read.as_ref());
            let is_current = read == self.lease;
            match step {
                Step::Wait => {}
                _ if is_current => {
                    self.writes += 1;
                    let (holder, version) = (elector.id().to_owned(), self.writes.to_string());
                    self.lease = Some(Lease { holder, version });
                    elector.renewed(now_s);
                }
                _ => elector.lost(),
            }
            elector.is_leader(now_s)
        }
    }

    #[test]
    fn one_leads_and_another_follows_after_the_lease() {
        let mut server = Server::default();
        let [mut a, mut b] = ["a", "b"].map(|id| Elector::new(id.into()));
        for tick in 0..50 {
            let now_s = f64::from(tick) * RETRY_S;
            if tick < 20 {
                let read = server.lease.clone();
                assert!(server.turn(&mut a, now_s, read));
            }
            let read = server.lease.clone();
            let leads = server.turn(&mut b, now_s, read);
            assert_eq!(leads, tick >= 19 + 8, "{tick}: killed after tick 19, followed after 15 s");
            assert!(!(leads && a.is_leader(now_s)), "{tick}");
        }
    }

    #[test]
    fn lease_that_was_given_up_is_taken_at_once() {
        let mut a = Elector::new("a".into());
        let free = Lease { holder: String::new(), version: "7".into() };
        assert_eq!((a.step(0.0, Some(&free)), a.step(0.0, None)), (Step::Take, Step::Create));
    }

    #[test]
    fn leader_that_cannot_renew_stops_before_another_begins() {
        let mut a = Elector::new("a".into());
        a.renewed(100.0);
        assert!(a.is_leader(109.9) && !a.is_leader(110.0) && RENEWAL_MAX_S < LEASE_S);
    }

    /// The clock of one candidate steps, at random; reads are old, at random. A write to a target
    /// follows a renewal, so none comes from a candidate that has lost.
    #[test]
    fn steps_of_a_clock_give_no_second_writer() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let mut server = Server::default();
            let mut electors = ["a", "b", "c"].map(|id| Elector::new(id.into()));
            let mut steps = [0.0; 3];
            let mut reads: [Option<Lease>; 3] = Default::default();
            for tick in 0..300 {
                let who = random.usize(0..3);
                if random.u8(..) < 8 {
                    steps[who] += (random.f64() - 0.3) * 10_000.0;
                }
                if random.u8(..) < 200 {
                    reads[who] = server.lease.clone();
                }
                let now_s = f64::from(tick) + steps[who];
                let before = server.writes;
                let read = reads[who].clone();
                let leads = server.turn(&mut electors[who], now_s, read);
                let has_renewed = server.writes > before;
                // What may write a target has just renewed, and so holds the Lease.
                if leads && has_renewed {
                    let holder = server.lease.as_ref().map(|lease| lease.holder.clone());
                    assert_eq!(holder.as_deref(), Some(electors[who].id()), "seed {seed}");
                }
                if has_renewed {
                    reads[who] = server.lease.clone();
                }
            }
        }
    }
}
