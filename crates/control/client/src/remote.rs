//! The commands that use the REST API of a running server: `dunlin zones`, `dunlin records` and
//! `dunlin journal`.
pub(crate) mod client;
mod difference;
pub mod journal;
pub mod records;
mod rules;
mod snapshot;
pub mod zones;

use crate::cli::WriteOptions;
use command_line::plain;
use hyper::Method;
use hyper::header::IF_MATCH;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Zones per request.
const PAGE: usize = api::limits::PAGE_MAX;

/// The header fields of the condition given by `--if-match`, else of the entity tag that was read.
/// So no write replaces a state that the command has not seen.
fn condition(options: &WriteOptions, tag: Option<String>) -> Vec<(&'static str, String)> {
    let given = options.if_match.map(|revision| format!("\"{revision}\""));
    given.or(tag).map(|tag| (IF_MATCH.as_str(), tag)).into_iter().collect()
}

/// The query string of a write.
fn query(reason: Option<&String>) -> String {
    let reason = reason.map(|reason| format!("&reason={}", client::path_segment(reason)));
    format!("wait=live{}", reason.unwrap_or_default())
}

/// All zones that the principal may see.
fn all_zones(api: &client::ApiClient) -> client::CommandResult<Vec<Value>> {
    let mut zones = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/zones?limit={PAGE}{after}");
        let mut page = api.request(client::ApiRequest::new(Method::GET, path))?.body;
        if let Value::Array(more) = page["zones"].take() {
            zones.extend(more);
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", client::path_segment(next)),
            None => return Ok(zones),
        }
    }
}

/// The warnings of a response, a line each.
fn warning_lines(receipt: &Value) -> Vec<String> {
    let warnings = receipt["warnings"].as_array().into_iter().flatten();
    let line = |warning: &Value| {
        let text = |key: &str| plain(warning[key].as_str().unwrap_or_default());
        let (name, rtype, detail) = (text("name"), text("type"), text("detail"));
        format!("warning: {name} {rtype}: {detail} ({}) [{}]", text("help"), text("rule"))
    };
    warnings.map(line).collect()
}

/// Writes the warnings of a response to standard error.
fn warn(receipt: &Value) {
    warning_lines(receipt).iter().for_each(|line| eprintln!("{line}"));
}

pub(crate) fn write_json(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}

/// Asks for confirmation on the terminal, unless `yes`.
///
/// # Errors
/// There is no terminal, or the answer is not yes.
pub(crate) fn confirm(yes: bool, what: &str) -> client::CommandResult<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let why = format!("no terminal to confirm this: {what}; confirm it with --yes");
        return Err(why.into());
    }
    eprint!("{what}? [y/N] ");
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    match line.trim() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was changed".into()),
    }
}

/// A progress bar of items, shown only on a terminal and after a second.
fn progress_bar(len: Option<u64>) -> ProgressBar {
    styled_bar(len, "{wide_bar} {human_pos}/{human_len} {elapsed}")
}

/// The same, of bytes.
fn byte_bar(len: Option<u64>) -> ProgressBar {
    match len {
        Some(_) => styled_bar(len, "{wide_bar} {binary_bytes}/{binary_total_bytes} {elapsed}"),
        None => styled_bar(len, "{wide_bar} {binary_bytes} {elapsed}"),
    }
}

fn styled_bar(len: Option<u64>, template: &str) -> ProgressBar {
    let bar = match len {
        Some(len) => ProgressBar::new(len),
        None => ProgressBar::no_length(),
    };
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.expect("a constant template"));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn warnings_of_a_response_are_lines_without_escape_sequences() {
        let warning = json!({
            "name": "www.example.org.", "type": "SRV", "rule": "target-top-level",
            "detail": "`sip.`\u{1b}[0m is a top-level name", "help": "write the whole name",
        });
        let lines = warning_lines(&json!({ "revision": 7, "warnings": [warning] }));
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("warning: www.example.org. SRV: `sip.`"), "{line}");
        assert!(line.ends_with("(write the whole name) [target-top-level]"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
        assert_eq!(warning_lines(&json!({ "revision": 7 })), Vec::<String>::new());
    }
}
