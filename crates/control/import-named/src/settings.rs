//! The statements of a named.conf that are imported, and those that others stand for.
use crate::context::Context;
use crate::parse::Statement;
use import_report::shown;

/// Statements that are imported, with what they become.
const IMPORTED: [(&str, &str); 21] = [
    ("acl", "the lists that name it, with nested lists and `!`"),
    ("allow-query", "`[acl] query`"),
    ("allow-query-cache", "`[acl] recursion`, without `allow-recursion`"),
    ("allow-recursion", "`[acl] recursion`"),
    ("allow-transfer", "`[transfer] enabled` and `allow`, for addresses"),
    ("also-notify", "`[transfer] notify`"),
    ("directory", "zone files get their whole path"),
    ("forward", "names are only forwarded; what `first` adds is lost"),
    (
        "forwarders",
        "`[forward]`, for all names or those of a zone; an empty list: `mode = \"off\"`",
    ),
    ("include", "the statements of the file, with a `*` in the last part of the path"),
    ("key", "`key_file` beside the config, for transfers from primaries"),
    ("listen-on", "`[server] listen`, for addresses"),
    ("listen-on-v6", "`[server] listen`, for addresses"),
    ("match-clients", "`[[network]] prefixes`"),
    ("port", "the port of `[server] listen`"),
    ("primaries, masters", "`[[zone]] primaries`, also by the name of a list"),
    ("recursion", "`no`: no rules in `[forward]`"),
    ("server … keys", "`key_file` of zones from this primary"),
    ("version", "`[server] version`"),
    ("view", "`[[network]] view` and `[[zone]] view`; the view of all clients: the zone itself"),
    ("zone", "`[[zone]]` for `primary` and `secondary`, `[forward]` for `forward`"),
];

/// Statements without a counterpart: whether something is lost, and why, or what to do.
const OTHERS: [(&str, bool, &str); 46] = [
    ("allow-new-zones", true, "zones over REST: [store] kind"),
    ("allow-notify", true, "[acl] notify_from, for all zones"),
    ("allow-update", true, "zones of files are not updated: [store] kind, and [api] update"),
    ("allow-update-forwarding", true, "updates go to the primary"),
    ("auto-dnssec", true, "zones are signed before they are loaded"),
    ("auth-nxdomain", false, "the AA bit is only in answers of own zones"),
    ("catalog-zones", true, "name each zone"),
    ("controls", false, "[admin] socket, for dunlin status and dunlin reload"),
    ("dlz", true, "records over REST: [store] kind"),
    ("dnssec-enable", false, "signed zones are always answered with signatures"),
    ("dnssec-policy", true, "zones are signed before they are loaded"),
    ("dnssec-validation", true, "answers are not validated: forward to a resolver that validates"),
    ("dump-file", false, "dunlin cache show"),
    ("dyndb", true, "records over REST: [store] kind"),
    ("empty-zones-enable", false, "[server] local_zones"),
    ("fetch-quota-params", false, "forwarding has limits of its own"),
    ("hostname", true, "[server] id"),
    ("http", true, "Dunlin answers over UDP and TCP"),
    ("inline-signing", true, "zones are signed before they are loaded"),
    ("ixfr-from-differences", false, "always"),
    ("journal", false, "journals are in [server] data_dir"),
    ("key-directory", true, "zones are signed before they are loaded"),
    ("logging", true, "[log], [log.queries] and [dnstap]"),
    ("managed-keys", true, "answers are not validated: forward to a resolver that validates"),
    ("masterfile-format", true, "zone files are text: named-compilezone writes it"),
    ("max-cache-size", true, "[cache] memory"),
    ("max-cache-ttl", true, "[cache] ttl_max"),
    ("max-ncache-ttl", true, "[cache] negative_ttl_max"),
    ("minimal-responses", false, "answers are as small as they can be"),
    ("notify", true, "name the servers to notify in [transfer] notify"),
    ("pid-file", false, "the process stays in the foreground"),
    ("plugin", true, "there are no plugins"),
    ("querylog", true, "[log.queries]"),
    ("rate-limit", true, "[limits.responses]"),
    ("response-policy", true, "[[network]] deny and deny_file"),
    ("rrset-order", true, "sets are rotated"),
    ("server-id", true, "[server] nsid and id"),
    ("session-keyfile", false, "keys are made by dunlin token create"),
    ("sortlist", true, "policies of record sets"),
    ("statistics-channels", true, "[ops] listen"),
    ("tcp-clients", true, "[streams] connections"),
    ("tls", true, "Dunlin answers over UDP and TCP"),
    ("trust-anchors", true, "answers are not validated: forward to a resolver that validates"),
    ("trusted-keys", true, "answers are not validated: forward to a resolver that validates"),
    ("update-policy", true, "zones of files are not updated: [store] kind, and [api] update"),
    ("zone-statistics", false, "[ops] listen has counters"),
];

/// Reports a statement that is not imported.
pub fn report(context: &mut Context<'_>, statement: &Statement) {
    let name = statement.text(0);
    match OTHERS.iter().find(|(other, ..)| *other == name) {
        Some((_, true, text)) => context.lost(&statement.place, format!("{name}: {text}")),
        Some((_, false, text)) => context.differs(&statement.place, format!("{name}: {text}")),
        None => {
            let text = format!(
                "{}: Dunlin has no such setting: examples/dunlin.toml lists all keys",
                shown(name)
            );
            context.lost(&statement.place, text);
        }
    }
}

/// The table of the documentation.
pub fn table() -> String {
    let imported = IMPORTED.iter().map(|(name, text)| (*name, (*text).to_owned()));
    let others = OTHERS.iter().map(|(name, is_lost, text)| {
        (*name, if *is_lost { format!("**lost**: {text}") } else { (*text).to_owned() })
    });
    let mut rows: Vec<(&str, String)> = imported.chain(others).collect();
    rows.sort();
    let rows = rows.iter().map(|(name, text)| format!("| `{name}` | {text} |\n"));
    "| statement | result |\n| --- | --- |\n".to_owned() + &rows.collect::<String>()
}
