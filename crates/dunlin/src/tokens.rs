//! `dunlin token`: who may come in by the REST API, told to a running server.
use crate::cli::{self, Output, TokenAct};
use crate::human::{Side, align, plain, utc};
use admin::{Client, Credential, CredentialKind, TokenDone, TokenRequest};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Asks the server, and tells what came of it.
///
/// # Errors
/// When the server cannot be reached or refuses, or the result not be written.
pub fn run(command: &cli::Token) -> Result<ExitCode, Box<dyn Error>> {
    let (server, request) = match &command.act {
        TokenAct::Create(create) => {
            let cli::CreateToken { principal, grants, subject, server } = create;
            let (principal, grants) = (principal.clone(), grants.clone());
            (server, TokenRequest::Create { principal, grants, subject: subject.clone() })
        }
        TokenAct::List(server) => (server, TokenRequest::List),
        TokenAct::Revoke(one) => {
            (&one.server, TokenRequest::Revoke { principal: one.principal.clone() })
        }
    };
    let done = Client::connect(&server.socket)?.token(request)?;
    let mut out = io::stdout().lock();
    match (server.output, done) {
        (Output::Json, done) => {
            serde_json::to_writer_pretty(&mut out, &done)?;
            writeln!(out)?;
        }
        // Alone on its line, so that a script can take it; it is told this once.
        (Output::Text, TokenDone::Created { token: Some(token) }) => writeln!(out, "{token}")?,
        (Output::Text, TokenDone::Created { token: None }) => {
            writeln!(out, "known by its certificate from now on")?;
        }
        (Output::Text, TokenDone::Revoked) => writeln!(out, "nobody from now on")?,
        (Output::Text, TokenDone::Listed(all)) => write_list(&mut out, &all)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_list(out: &mut impl Write, all: &[Credential]) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "there are none: `dunlin token create` makes one");
    }
    let mut rows = vec![["PRINCIPAL", "KNOWN BY", "CREATED", "GRANT"].map(str::to_owned)];
    for Credential { principal, grants, created_seconds, kind } in all {
        let by = match kind {
            CredentialKind::Token => "token".to_owned(),
            CredentialKind::Certificate { subject } => plain(subject),
        };
        let mut head = [plain(principal), by, utc(*created_seconds as f64)];
        for grant in grants {
            let [principal, by, created] = std::mem::take(&mut head);
            rows.push([principal, by, created, plain(grant)]);
        }
    }
    for line in align([Side::Left; 4], &rows) {
        writeln!(out, "{line}")?;
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
            kind: CredentialKind::Token,
        }];
        let mut out = Vec::new();
        write_list(&mut out, &all).expect("a Vec takes all");
        let expected = "\
            PRINCIPAL  KNOWN BY  CREATED                  GRANT\n\
            ci         token     2026-11-21 14:00:03 UTC  read * * *\n\
            \x20                                             write example.org. * A\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
