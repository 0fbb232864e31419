//! The rules that what is written down may break, each with a name that stays and its source.
//!
//! Scripts may rely on the names: a message may be put better some day, its rule is the same.
use std::fmt;

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A short name that stays, such as `cname-alone`.
    pub id: &'static str,
    /// Who says so: an RFC and its section, or Dunlin itself.
    pub source: &'static str,
}

/// `cname-alone, RFC 1034 §3.6.2`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.id, self.source)
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $konst:ident = $id:literal $source:literal,)*) => {
        impl Rule {
            $($(#[$doc])* pub const $konst: Self = Self { id: $id, source: $source };)*

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$konst),*];
        }
    };
}

rules! {
    /// A file that cannot be read at all.
    FILE = "file" "Dunlin",
    /// More than a limit lets in.
    LIMIT = "limit" "Dunlin",
    /// The grammar of master files.
    SYNTAX = "syntax" "RFC 1035 §5.1",
    /// The grammar of hosts files.
    SYNTAX_HOSTS = "hosts-syntax" "RFC 952",
    /// A line that begins with `$`.
    DIRECTIVE = "directive" "RFC 1035 §5.1",
    /// An included file.
    INCLUDE = "include" "RFC 1035 §5.1",
    /// A `$GENERATE`.
    GENERATE = "generate" "BIND 9 §8.3",
    /// What a name and its labels may be.
    NAME = "name" "RFC 1035 §2.3.4",
    /// What a TTL may be.
    TTL = "ttl" "RFC 2181 §8",
    /// Where a TTL comes from.
    TTL_MISSING = "ttl-missing" "RFC 2308 §4",
    /// A zone has one class.
    CLASS = "class" "RFC 1035 §5.2",
    /// A type nobody knows.
    TYPE = "type" "RFC 1035 §3.2.2",
    /// A type that is never a record's.
    META_TYPE = "meta-type" "RFC 6895 §3.1",
    /// Data that is not what its type asks for.
    DATA = "data" "RFC 1035 §3.3",
    /// A character-string and its length.
    STRING = "string" "RFC 1035 §3.3",
    /// Data in the form that needs no knowledge of the type.
    GENERIC_DATA = "generic-data" "RFC 3597 §5",
    /// Owners lie in their zone.
    OUT_OF_ZONE = "out-of-zone" "RFC 1035 §5.2",
    /// A wildcard is the first label of a name, or it is none.
    WILDCARD = "wildcard" "RFC 4592 §2.1.1",
    /// What signs a zone, and what a signature makes of it.
    SIGNED = "signed" "RFC 4035 §2",
    /// One change names a thing once.
    TWICE = "duplicate" "Dunlin",
    /// An alias stands alone.
    CNAME_ALONE = "cname-alone" "RFC 1034 §3.6.2",
    /// Types of which a name has one record at most.
    SINGLE = "single" "RFC 2181 §10.1",
    /// The SOA record: one, and at the apex.
    SOA = "soa" "RFC 1035 §5.2",
    /// The apex names its servers.
    NS = "ns" "RFC 1034 §4.2.1",
    /// What a denial by hashed names may cost.
    NSEC3 = "nsec3" "RFC 9276 §3.1",
    /// A delegation to a name below itself needs the address.
    GLUE = "glue" "RFC 1034 §4.2.1",
    /// A name server without an address.
    LAME = "lame" "RFC 1912 §2.8",
    /// A target that is an alias.
    TARGET_ALIAS = "target-alias" "RFC 2181 §10.3",
    /// A target in the zone that is not there.
    TARGET_MISSING = "target-missing" "Dunlin",
    /// A name that ends in the origin twice.
    DOUBLED = "doubled-name" "RFC 1035 §5.1",
    /// An address where a name belongs.
    ADDRESS = "address-as-name" "RFC 1035 §3.3",
    /// How a mailbox is written.
    MAILBOX = "mailbox" "RFC 1035 §8",
    /// A record that may not be kept at all.
    TTL_ZERO = "ttl-zero" "RFC 1035 §3.2.1",
    /// Records that a delegation hides.
    OCCLUDED = "occluded" "RFC 5936 §3.5",
    /// Text without quotes.
    TEXT = "unquoted-text" "RFC 1035 §5.1",
    /// A serial that does not grow.
    SERIAL = "serial" "RFC 1982 §3.2",
    /// A field that knows one value so far.
    NOT_YET = "not-yet" "Dunlin",
    /// The grammar of the config.
    CONFIG_SYNTAX = "config-syntax" "TOML 1.0",
    /// A key or section that is none.
    CONFIG_KEY = "config-unknown-key" "Dunlin",
    /// A value that is none for its key.
    CONFIG_VALUE = "config-value" "Dunlin",
    /// A key that has to be there.
    CONFIG_MISSING = "config-missing-key" "Dunlin",
    /// A thing that is named twice.
    CONFIG_TWICE = "config-duplicate" "Dunlin",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let names: HashSet<&str> = Rule::ALL.iter().map(|rule| rule.id).collect();
        assert_eq!(names.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert!(
                rule.id.bytes().all(|c| c.is_ascii_lowercase() || b"-3".contains(&c)),
                "{rule}"
            );
            let known = ["RFC ", "Dunlin", "BIND", "TOML"];
            assert!(known.iter().any(|known| rule.source.starts_with(known)), "{rule}");
        }
    }
}
