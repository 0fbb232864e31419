//! Runs a cluster until it is interrupted: `make cluster`.
use cluster::{Cluster, find};
use std::process::ExitCode;

fn main() -> ExitCode {
    match find().and_then(Cluster::start) {
        Ok(cluster) => {
            println!("KUBECONFIG={}", cluster.kubeconfig().display());
            eprintln!("the cluster serves on https://{} until this ends", cluster.api());
            loop {
                std::thread::park();
            }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
