//! How soon a server has what changed once the API server serves again.
use super::{PORTS, Verdict, wait_for};
use cluster::{Cluster, Part, objects};
use conformance::Result;
use conformance::server::Server;
use serde_json::json;
use std::time::Duration;

/// From the API server's reply to a write after an outage to the first right answer.
const CONVERGED_MAX: Duration = Duration::from_secs(2);
const OUTAGE: Duration = Duration::from_secs(5);

/// How long the API server answers no request.
fn outage() {
    std::thread::sleep(OUTAGE);
}

pub fn measure(cluster: &mut Cluster, server: &Server, verdict: &mut Verdict) -> Result<()> {
    cluster.pause(Part::ApiServer);
    outage();
    cluster.resume(Part::ApiServer);
    converge(cluster, server, "stopped (SIGSTOP)", verdict)?;

    cluster.kill(Part::ApiServer);
    outage();
    cluster.start_part(Part::ApiServer)?;
    converge(cluster, server, "killed and started", verdict)?;

    // The history that the streams would continue from is gone: all is listed again.
    cluster.kill(Part::ApiServer);
    cluster.start_part(Part::ApiServer)?;
    cluster.compact();
    converge(cluster, server, "killed, and etcd compacted", verdict)?;

    cluster.kill(Part::ApiServer);
    cluster.kill(Part::Etcd);
    outage();
    cluster.start_part(Part::Etcd)?;
    cluster.start_part(Part::ApiServer)?;
    converge(cluster, server, "killed with etcd", verdict)
}

/// Writes as soon as the API server serves, and waits for the answer.
fn converge(cluster: &Cluster, server: &Server, what: &str, verdict: &mut Verdict) -> Result<()> {
    let service: String = what.chars().filter(char::is_ascii_lowercase).collect();
    cluster.create(&objects::service("shop", &service, &PORTS, json!({})));
    let took = wait_for(server, &format!("{service}.shop.svc.cluster.local"), true)?;
    let limit = CONVERGED_MAX.as_secs_f64();
    verdict.judge(&format!("API server {what}: converged after, s"), took.as_secs_f64(), limit);
    Ok(())
}
