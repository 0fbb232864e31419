//! `[transfer]`: zones for other servers.
use crate::limits::{
    NOTIFY_SERVER_LEN_MAX, NOTIFY_SERVERS_MAX, PREFIXES_MAX, TLS_LISTEN_MAX, TRANSFERS_MAX,
};
use crate::operate::read_certificates;
use crate::section::Section;
use crate::upstream::TLS_PORT;
use crate::values::Wrong;
use crate::{units, values};
use limit::AclRule;
use listen::Certificates;
use std::net::SocketAddr;
use toml::de::DeValue;

/// The port of a server that names none.
const DNS_PORT: u16 = 53;

/// An address to listen on over TLS.
fn tls_address(value: &DeValue<'_>) -> Result<SocketAddr, Wrong> {
    match value.as_str() {
        Some(text) => values::socket_address(text, TLS_PORT),
        None => values::expected("an address and port", value),
    }
}

/// `[transfer]`: other servers may have zones (AXFR, RFC 5936).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Whether keys with `read` for a whole zone may have it, and the clients of `allow`.
    pub enabled: bool,
    /// Clients that may have every zone without a key.
    pub allow: Vec<AclRule>,
    /// Transfers at once.
    pub max_streams: usize,
    /// Where transfers over TLS are served (RFC 9103).
    pub tls_listen: Vec<SocketAddr>,
    /// Certificates that this server shows to secondaries and primaries.
    pub tls: Option<Certificates>,
    /// Servers that are notified of changes of every zone (NOTIFY, RFC 1996).
    pub notify: Vec<NotifyServer>,
}

/// A server that is notified of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyServer {
    /// Its address.
    pub address: SocketAddr,
    /// The name of the key that signs; `None`: it is not signed.
    pub key: Option<String>,
}

impl Transfer {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let enabled = section.read("enabled", false, values::boolean);
        let allow = section.list("allow", Vec::new(), PREFIXES_MAX, units::rules).concat();
        let max_streams = section.read("max_streams", 16, values::number(1..=TRANSFERS_MAX));
        let notify = section.list("notify", Vec::new(), NOTIFY_SERVERS_MAX, notify_server);
        let tls_listen = section.list("tls_listen", Vec::new(), TLS_LISTEN_MAX, tls_address);
        let tls = read_certificates(section.section("tls", "[transfer.tls]"));
        let used = [
            ("allow", !allow.is_empty()),
            ("notify", !notify.is_empty()),
            ("tls_listen", !tls_listen.is_empty()),
        ];
        for (key, _) in used.into_iter().filter(|(_, is_used)| *is_used && !enabled) {
            section.wrong(key, "has no effect", "set `enabled = true`");
        }
        if enabled && !tls_listen.is_empty() && tls.is_none() {
            section.wrong("tls_listen", "needs a certificate", "name one in [transfer.tls]");
        }
        section.close();
        Self { enabled, allow, max_streams, tls_listen, tls, notify }
    }

    /// Whether both have the same settings, except those that change while a server runs.
    pub(super) fn has_same_settings(&self, other: &Self) -> bool {
        let settings =
            |one: &Self| (one.enabled, one.max_streams, one.tls_listen.clone(), one.tls.clone());
        settings(self) == settings(other)
    }
}

/// A server in words such as `192.0.2.1`, `[2001:db8::1]:5353` and `192.0.2.1#key`.
fn notify_server(value: &DeValue<'_>) -> Result<NotifyServer, Wrong> {
    let text = values::text(NOTIFY_SERVER_LEN_MAX)(value)?;
    let (address, key) = match text.split_once('#') {
        None => (text.as_str(), None),
        Some((address, key)) => (address, Some(key)),
    };
    key.map(values::name).transpose()?;
    let address = values::socket_address(address, DNS_PORT)?;
    Ok(NotifyServer { address, key: key.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use crate::tests::check;
    use crate::{Config, Transfer};
    use std::path::Path;

    #[test]
    fn servers_to_notify_have_an_address_and_maybe_a_port_and_a_key() {
        let text = "transfer = { enabled = true, notify = [\"192.0.2.1\", \"[::1]:54#a.b\"] }";
        let config = Config::parse(Path::new("f"), text).expect("a config");
        let shown =
            config.transfer.notify.iter().map(|one| format!("{} {:?}", one.address, one.key));
        assert_eq!(shown.collect::<Vec<_>>(), ["192.0.2.1:53 None", "[::1]:54 Some(\"a.b\")"]);
        let text = "transfer = { enabled = true, tls_listen = [\"::\"], tls = { cert = \"c\", \
                    key = \"k\" } }";
        let Transfer { tls_listen, tls, .. } =
            Config::parse(Path::new("etc/f"), text).expect("a config").transfer;
        assert_eq!((tls_listen[0].port(), tls.expect("files").key), (853, "etc/k".into()));
    }

    #[test]
    fn keys_without_effect_and_wrong_servers_are_refused() {
        check(
            "[transfer]\nallow = [\"10.0.0.0/8\"]\nnotify = [\"192.0.2.1\"]\n",
            "2:9: `allow` has no effect (set `enabled = true`)
             3:10: `notify` has no effect (set `enabled = true`)",
        );
        check(
            "[transfer]\nenabled = true\nnotify = [\"192.0.2.1#a..b\"]\nmax_streams = 0\n",
            "3:11: \"a..b\" is not a name: a label is empty
             4:15: expected a number from 1 to 1024, found the number 0",
        );
        check(
            "[transfer]\nenabled = true\ntls_listen = [\"192.0.2.1\"]\n",
            "3:14: `tls_listen` needs a certificate (name one in [transfer.tls])",
        );
    }
}
