//! A way to etcd on which bits flip, or nothing passes.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;

/// What happens to bytes.
#[derive(Default)]
struct State {
    /// How many of a million pieces have a flipped bit.
    flips: AtomicU32,
    is_cut: AtomicBool,
    /// Changes to end the connections.
    round: AtomicU32,
}

pub struct Proxy {
    state: Arc<State>,
    address: String,
}

impl Proxy {
    /// Passes connections on to this URL until the process ends.
    pub fn start(url: &str, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let (state, to) = (Arc::<State>::default(), url.trim_start_matches("http://").to_owned());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            let mut seed = seed;
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&to) else { continue };
                let pairs = [(from.try_clone(), to.try_clone()), (Ok(to), Ok(from))];
                for (from, to) in pairs {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    seed += 1;
                    let (state, rng) = (Arc::clone(&shared), fastrand::Rng::with_seed(seed));
                    thread::spawn(move || pass(from, to, &state, rng));
                }
            }
        });
        Self { state, address }
    }

    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// So many pieces of a million have a flipped bit from now on.
    pub fn flip(&self, flips: u32) {
        self.state.flips.store(flips, Relaxed);
    }

    /// Nothing passes, or all does, on new connections.
    pub fn cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Relaxed);
        if !is_cut {
            self.state.round.fetch_add(1, Relaxed);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State, mut rng: fastrand::Rng) {
    let round = state.round.load(Relaxed);
    let mut piece = [0; 4_096];
    while let Ok(len @ 1..) = from.read(&mut piece) {
        if state.is_cut.load(Relaxed) {
            // It is lost, as the rest of the connection.
            continue;
        }
        if rng.u32(..1_000_000) < state.flips.load(Relaxed) {
            piece[rng.usize(..len)] ^= 1 << rng.u8(..8);
        }
        if state.round.load(Relaxed) != round || to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
