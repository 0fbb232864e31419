//! A slow server for the campaign of verdicts: an echo that spins for each query.
//!
//! `lab-spinner ADDRESS MODEL SPIN-NS SOCKETS RECEIVE-BUFFER`; it answers until it is ended.

use std::time::Duration;

use lab_echo::{Echo, Model, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, model, spin_ns, sockets, buffer] = words.as_slice() else {
        return Err("usage: lab-spinner ADDRESS MODEL SPIN-NS SOCKETS RECEIVE-BUFFER".into());
    };
    let known = Model::ALL.into_iter().find(|known| known.name() == model);
    let model = known.ok_or_else(|| format!("`{model}` is not a model of dunlin lab echo"))?;
    let mut options = Options::new(address.parse()?, model);
    options.spin = Duration::from_nanos(spin_ns.parse()?);
    options.threads = sockets.parse()?;
    match buffer.parse()? {
        0 => {}
        bytes => options.receive_buffer = bytes,
    }
    let _echo = Echo::start(options)?;
    loop {
        std::thread::park();
    }
}
