//! A flood, or the regular client beside it, as a process of its own.
//!
//! ```text
//! flood KIND   SERVER CLIENTS SECONDS RATE     prints how many datagrams or steps it made
//! flood regular SERVER CLIENTS SECONDS FIRST    prints a line for UDP and one for TCP:
//!                                              sent answered p50 p99 most, in microseconds
//! ```
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use conformance::Result;
use conformance::flood::{Clients, Flood, Kind};
use conformance::regular_client::RegularClient;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(response) => {
            println!("{response}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flood: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<String> {
    let [what, server, clients, seconds, number] = words else {
        let kinds = Kind::ALL.map(Kind::name).join("|");
        return Err(format!("flood {kinds}|regular SERVER CLIENTS SECONDS RATE-OR-FIRST"));
    };
    let wrong = |word: &str| format!("`{word}` is not what should stand there");
    let server = server.parse().map_err(|_| wrong(server))?;
    let clients = Clients(clients.parse().map_err(|_| wrong(clients))?);
    let time = Duration::from_secs_f64(seconds.parse().map_err(|_| wrong(seconds))?);
    if *what == "regular" {
        let first = number.parse().map_err(|_| wrong(number))?;
        let (datagrams, streams) = RegularClient { server, clients, first, time }.run()?;
        return Ok(format!("{datagrams}\n{streams}"));
    }
    let kind = Kind::named(what).ok_or_else(|| wrong(what))?;
    let rate = number.parse().map_err(|_| wrong(number))?;
    Flood { kind, server, clients, rate, time }.run().map(|steps| steps.to_string())
}
