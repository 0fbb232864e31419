//! `[transfer]`: zones for other servers.
use crate::limits::{NOTIFY_SERVER_LEN_MAX, NOTIFY_SERVERS_MAX, PREFIXES_MAX, TRANSFERS_MAX};
use crate::section::Section;
use crate::values::Wrong;
use crate::{units, values};
use limit::AclRule;
use std::net::SocketAddr;
use toml::de::DeValue;

/// The port of a server that names none.
const DNS_PORT: u16 = 53;

/// `[transfer]`: other servers may have zones (AXFR, RFC 5936).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Whether keys with `read` for a whole zone may have it, and the clients of `allow`.
    pub enabled: bool,
    /// Clients that may have every zone without a key.
    pub allow: Vec<AclRule>,
    /// Transfers at once.
    pub max_streams: usize,
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
        if !allow.is_empty() && !enabled {
            section.wrong("allow", "has no effect", "set `enabled = true`");
        }
        let max_streams = section.read("max_streams", 16, values::number(1..=TRANSFERS_MAX));
        let notify = section.list("notify", Vec::new(), NOTIFY_SERVERS_MAX, notify_server);
        if !notify.is_empty() && !enabled {
            section.wrong("notify", "has no effect", "set `enabled = true`");
        }
        section.close();
        Self { enabled, allow, max_streams, notify }
    }

    /// Whether both have the same settings, except those that change while a server runs.
    pub(super) fn has_same_settings(&self, other: &Self) -> bool {
        let settings = |one: &Self| (one.enabled, one.max_streams);
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
    use crate::Config;
    use crate::tests::check;
    use std::path::Path;

    #[test]
    fn servers_to_notify_have_an_address_and_maybe_a_port_and_a_key() {
        let text = "transfer = { enabled = true, notify = [\"192.0.2.1\", \"[::1]:54#a.b\"] }";
        let config = Config::parse(Path::new("f"), text).expect("a config");
        let shown =
            config.transfer.notify.iter().map(|one| format!("{} {:?}", one.address, one.key));
        assert_eq!(shown.collect::<Vec<_>>(), ["192.0.2.1:53 None", "[::1]:54 Some(\"a.b\")"]);
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
    }
}
