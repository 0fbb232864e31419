//! `dunlin scale status`: the status object of a running scaler.
use super::status::{self, Status, TargetStatus};
use crate::cli::{Output, ShowStatus};
use command_line::plain;
use kube_api::Api;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Reads the status from the cluster and writes it. Exit status 1 says that something is not in
/// order.
///
/// # Errors
/// There is no status, or it cannot be written.
pub fn run(command: &ShowStatus) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let api = Api::connect(command.kubeconfig.as_deref()).await?;
        status::read(&api, &command.namespace, &command.configmap).await
    })?;
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &status)?;
            writeln!(out)?;
        }
        Output::Text => write!(out, "{}", text(&status))?,
    }
    Ok(if status.last_poll().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The status for people.
fn text(status: &Status) -> String {
    let Status { scaler, time, mode, nodes, schedulable_nodes, cores, .. } = status;
    let dry = if status.is_dry { ", dry run" } else { "" };
    let mut lines = vec![
        format!("{scaler} decides by {mode}{dry}, {time}"),
        format!("{nodes} nodes, {schedulable_nodes} of them schedulable; {cores} cores"),
    ];
    if let Some(error) = &status.config_error {
        lines.push(format!("the ConfigMap is not in force: {error}"));
    }
    lines.extend(status.target_error.iter().map(|error| format!("nothing is scaled: {error}")));
    if !status.features_off.is_empty() {
        lines.push(format!("off, because rights are missing: {}", status.features_off.join(", ")));
    }
    for target in &status.targets {
        lines.extend(target_lines(target));
    }
    lines.iter().map(|line| plain(line) + "\n").collect()
}

fn target_lines(target: &TargetStatus) -> Vec<String> {
    let replicas = target.replicas.map_or("unknown".into(), |replicas| replicas.to_string());
    let mut lines = vec![format!("{}: {replicas} replicas; {}", target.target, target.reason)];
    if let Some(changed) = &target.changed {
        lines.push(format!("  last changed {changed}"));
    }
    lines.extend(target.error.iter().map(|error| format!("  failed: {error}")));
    let others = target.other_autoscalers.iter();
    lines.extend(others.map(|other| format!("  second autoscaler: {other}")));
    lines
}
