//! `dunlin token`: creates, lists and revokes credentials of the REST API.
use crate::cli::{self, Output, TokenCommand};
use crate::local::LocalClient;
use command_line::{Side, align, plain, utc};
use serde_json::json;
use server_status::command::{Credential, CredentialKind, TokenOutcome};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the request to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Token) -> Result<ExitCode, Box<dyn Error>> {
    let server = match &command.command {
        TokenCommand::Create(create) => &create.server,
        TokenCommand::Rotate(one) | TokenCommand::Revoke(one) => &one.server,
        TokenCommand::List(server) => server,
    };
    let done = send(&LocalClient::new(&server.local)?, &command.command)?;
    let mut out = io::stdout().lock();
    match (server.output, done) {
        (Output::Json, done) => {
            serde_json::to_writer_pretty(&mut out, &done)?;
            writeln!(out)?;
        }
        // Alone on its line, so that a script can read it.
        (Output::Text, TokenOutcome::Created { token: Some(token) }) => writeln!(out, "{token}")?,
        (Output::Text, TokenOutcome::Created { token: None }) => {
            writeln!(out, "created; a certificate identifies the principal")?;
        }
        (Output::Text, TokenOutcome::Revoked) => writeln!(out, "revoked")?,
        (Output::Text, TokenOutcome::Listed(all)) => write_list(&mut out, &all)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn send(client: &LocalClient, command: &TokenCommand) -> Result<TokenOutcome, Box<dyn Error>> {
    Ok(match command {
        TokenCommand::Create(create) => {
            let cli::CreateToken { principal, grants, subject, tsig, lifetime, server: _ } = create;
            let mut body = json!({ "principal": principal, "grants": grants });
            if let Some(subject) = subject {
                body["subject"] = json!(subject);
            }
            if let Some(algorithm) = tsig {
                body["tsig"] = json!(algorithm);
            }
            if let Some(lifetime) = lifetime {
                body["lifetime_seconds"] = json!(lifetime);
            }
            TokenOutcome::Created { token: client.create_credential(body)? }
        }
        TokenCommand::Rotate(one) => {
            TokenOutcome::Created { token: Some(client.rotate_credential(&one.principal)?) }
        }
        TokenCommand::List(_) => TokenOutcome::Listed(client.credentials()?),
        TokenCommand::Revoke(one) => {
            client.revoke_credential(&one.principal)?;
            TokenOutcome::Revoked
        }
    })
}

fn write_list(out: &mut impl Write, all: &[Credential]) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "no principals: `dunlin token create` creates one");
    }
    let mut rows =
        vec![["PRINCIPAL", "CREDENTIAL", "CREATED", "EXPIRES", "GRANT"].map(str::to_owned)];
    let mut old = Vec::new();
    for credential in all {
        let Credential { principal, grants, created_seconds, expires_seconds, kind, .. } =
            credential;
        if credential.may_hide_with_warning {
            old.push(plain(principal));
        }
        let by = match kind {
            CredentialKind::Token => "token".to_owned(),
            CredentialKind::Certificate { subject } => plain(subject),
            CredentialKind::Tsig { algorithm } => plain(algorithm),
        };
        let expires = expires_seconds.map_or_else(|| "-".into(), |at| utc(at as f64));
        let mut head = [plain(principal), by, utc(*created_seconds as f64), expires];
        for grant in grants {
            let [principal, by, created, expires] = std::mem::take(&mut head);
            rows.push([principal, by, created, expires, plain(grant)]);
        }
    }
    for line in align([Side::Left; 5], &rows) {
        writeln!(out, "{line}")?;
    }
    if !old.is_empty() {
        writeln!(
            out,
            "made by an earlier version: {}; until the next release they may hide wildcards from \
             names beyond their grants, which the log warns of. Afterwards their grants need the \
             verb `hide-wildcard`",
            old.join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_grant_has_its_line() {
        let all = [Credential {
            principal: "ci".into(),
            grants: vec!["read * * *".into(), "write example.org. * A".into()],
            created_seconds: 1_795_269_603,
            expires_seconds: Some(1_795_269_603 + 86_400),
            may_hide_with_warning: false,
            kind: CredentialKind::Token,
        }];
        let mut out = Vec::new();
        write_list(&mut out, &all).expect("a Vec takes all");
        let expected = "\
            PRINCIPAL  CREDENTIAL  CREATED                  EXPIRES                  GRANT\n\
            ci         token       2026-11-21 14:00:03 UTC  2026-11-22 14:00:03 UTC  read * * *\n\
            \x20                                                                        \
            write example.org. * A\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
