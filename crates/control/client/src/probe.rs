//! `dunlin status --probe`: the probes of a container, which need no port.
use crate::cli::{LocalServer, Probe};
use crate::local::{LocalClient, is_of_this_container};
use server_status::{Status, hindrance};
use std::error::Error;
use std::process::ExitCode;

/// Answers a probe.
///
/// # Errors
/// The probe fails: why.
pub fn run(local: &LocalServer, probe: Probe) -> Result<ExitCode, Box<dyn Error>> {
    let is_own = is_of_this_container(local)?;
    judge(probe, is_own, &LocalClient::new(local)?.status()?)?;
    println!("{}", if probe == Probe::Ready { "ready" } else { "alive" });
    Ok(ExitCode::SUCCESS)
}

/// Why a probe fails. `is_own`: the server that answers is one of this container.
fn judge(probe: Probe, is_own: bool, status: &Status) -> Result<(), String> {
    let why = match probe {
        // It does not serve yet, or another one has replaced it.
        Probe::Ready if !is_own => Some("the server of another container answers here".into()),
        Probe::Ready => hindrance(status),
        Probe::Alive => status.stuck.clone(),
    };
    why.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use server_status::ServerState;

    #[test]
    fn server_of_another_container_is_alive_but_not_the_one_that_is_to_be_ready() {
        let stuck = Some("worker 1 hangs".to_owned());
        for (state, stuck, is_own, ready, alive) in [
            (ServerState::Serving, None, true, true, true),
            (ServerState::Serving, None, false, false, true),
            (ServerState::Starting, None, true, false, true),
            (ServerState::Draining, None, true, false, true),
            (ServerState::Serving, stuck, true, false, false),
        ] {
            let status = Status { state, stuck, ..Status::default() };
            let is = |probe| judge(probe, is_own, &status).is_ok();
            assert_eq!((is(Probe::Ready), is(Probe::Alive)), (ready, alive), "{state:?} {is_own}");
        }
    }
}
