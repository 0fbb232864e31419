//! Why a server cannot be used, and what to do.

use std::error::Error;
use std::io;
use std::path::Path;

/// Why the local socket of a server cannot be reached.
pub(super) fn unreachable(path: &Path, why: &io::Error) -> String {
    let place = path.display();
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no server answers at {place}: is dunlin running? (`systemctl status dunlin`, \
             `pgrep dunlin`.) It listens where [admin] socket in its config says"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "{place}: permission denied; run as root, as the server's user, or as a member of the \
             group of that socket (`ls -l {place}`)"
        ),
        io::ErrorKind::WouldBlock => {
            format!("the server at {place} accepts no connection: is it stopped?")
        }
        _ => format!("cannot connect to {place}: {why}"),
    }
}

/// Why the local socket of a server sent no response.
pub(super) fn broken(path: &Path, why: &(dyn Error + 'static)) -> String {
    let place = path.display();
    match why.downcast_ref::<hyper::Error>() {
        Some(why) if why.is_parse() => format!(
            "the server at {place} does not speak HTTP: it is another program, or an older dunlin; \
             use the binary of its version, or replace it with `dunlin serve --hot-restart`"
        ),
        _ => format!("the server at {place} hung up ({why}); its log may say why"),
    }
}

/// Why there is no TLS with a server, and what to do.
pub(super) fn no_tls(host: &str, port: u16, why: &io::Error) -> String {
    let why = why.to_string();
    let advice = match why.contains("CaUsedAsEndEntity") {
        true => {
            "its certificate is a CA's, as `openssl req -x509` makes it: sign one for the server \
             with it (docs/api.md, Certificates), or add `-addext basicConstraints=CA:FALSE`"
        }
        false => "--ca names the CA of its certificate",
    };
    format!("no TLS with {host}:{port}: {why}; {advice}")
}
