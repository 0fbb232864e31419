//! `dunlin store`: the form of the store.
use crate::cli::{self, Output, StoreCommand, UpgradeStore};
use crate::local::LocalClient;
use crate::remote::client::CommandResult;
use crate::remote::{confirm, write_json};
use command_line::plain;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the command to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Store) -> CommandResult<ExitCode> {
    match &command.command {
        StoreCommand::Status(server) => {
            let store = LocalClient::new(&server.local)?.store()?;
            print(&store, server.output)
        }
        StoreCommand::Upgrade(command) => upgrade(command),
    }
}

fn number(store: &Value, key: &str) -> u64 {
    store[key].as_u64().unwrap_or_default()
}

fn upgrade(command: &UpgradeStore) -> CommandResult<ExitCode> {
    let client = LocalClient::new(&command.server.local)?;
    let store = client.store()?;
    let (form, newest) = (number(&store, "form"), number(&store, "newest"));
    if form < newest {
        let what = format!(
            "raise the store from form {form} to form {newest}: versions that do not know form \
             {newest} cannot use it any more"
        );
        confirm(command.yes, &what)?;
    }
    // The server answers also if there is nothing to do.
    print(&client.upgrade_store()?, command.server.output)
}

fn print(store: &Value, output: Output) -> CommandResult<ExitCode> {
    match output {
        Output::Json => write_json(store)?,
        Output::Text => io::stdout().lock().write_all(text(store).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The form, and what keeps it from being raised.
fn text(store: &Value) -> String {
    let (form, newest) = (number(store, "form"), number(store, "newest"));
    if form >= newest {
        return format!("the store has form {form}, the newest that this server knows\n");
    }
    let mut text = format!(
        "the store has form {form}, which the previous release knows, too; this server knows form \
         {newest}: `dunlin store upgrade` raises it\n"
    );
    for server in store["held_back_by"].as_array().into_iter().flatten() {
        let field = |key: &str| plain(server[key].as_str().unwrap_or_default());
        let (name, version) = (field("name"), field("version"));
        text += &format!("held back by {name} (version {version}): upgrade or stop it first\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_says_what_to_do_and_who_holds_it_back() {
        let newest = text(&json!({ "form": 6, "newest": 6, "held_back_by": [] }));
        assert_eq!(newest, "the store has form 6, the newest that this server knows\n");
        let server = json!({ "name": "b\u{1b}[0m", "version": "0.1.0", "form": 5 });
        let text = text(&json!({ "form": 5, "newest": 6, "held_back_by": [server] }));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("form 5") && lines[0].contains("dunlin store upgrade"), "{text}");
        assert!(lines[1].starts_with("held back by b") && lines[1].contains("0.1.0"), "{text}");
        assert!(lines.len() == 2 && !text.contains('\u{1b}'), "{text}");
    }
}
