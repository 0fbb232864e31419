//! Rules that zone files and configs may break, each with a stable name and its source.
//!
//! Scripts may rely on the names; the texts of messages may change.
use std::fmt;

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// A short stable name, such as `cname-alone`.
    pub id: &'static str,
    /// The source of the rule: an RFC and its section, or Dunlin.
    pub source: &'static str,
}

/// `cname-alone, RFC 1034 §3.6.2`.
impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.id, self.source)
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $konst:ident = $id:literal $source:literal,)*) => {
        impl BrokenRule {
            $($(#[$doc])* pub const $konst: Self = Self { id: $id, source: $source };)*

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$konst),*];
        }
    };
}

rules! {
    /// A file must be readable.
    FILE = "file" "Dunlin",
    /// A limit was exceeded.
    LIMIT = "limit" "Dunlin",
    /// The grammar of zone files.
    SYNTAX = "syntax" "RFC 1035 §5.1",
    /// The grammar of hosts files.
    SYNTAX_HOSTS = "hosts-syntax" "RFC 952",
    /// A line that begins with `$`.
    DIRECTIVE = "directive" "RFC 1035 §5.1",
    /// An included file.
    INCLUDE = "include" "RFC 1035 §5.1",
    /// A `$GENERATE`.
    GENERATE = "generate" "BIND 9 §8.3",
    /// Valid names and labels.
    NAME = "name" "RFC 1035 §2.3.4",
    /// Valid TTLs.
    TTL = "ttl" "RFC 2181 §8",
    /// A record without TTL.
    TTL_MISSING = "ttl-missing" "RFC 2308 §4",
    /// A zone has one class.
    CLASS = "class" "RFC 1035 §5.2",
    /// An unknown type.
    TYPE = "type" "RFC 1035 §3.2.2",
    /// Meta-types are not record types.
    META_TYPE = "meta-type" "RFC 6895 §3.1",
    /// The unused bits at the end of base 64 are zero.
    BASE64 = "base64" "RFC 4648 §3.5",
    /// Data that is valid for its type.
    DATA = "data" "RFC 1035 §3.3",
    /// The length of character-strings.
    STRING = "string" "RFC 1035 §3.3",
    /// The generic form of data.
    GENERIC_DATA = "generic-data" "RFC 3597 §5",
    /// Owners are in their zone.
    OUT_OF_ZONE = "out-of-zone" "RFC 1035 §5.2",
    /// A wildcard is the first label of a name.
    WILDCARD = "wildcard" "RFC 4592 §2.1.1",
    /// A name that hides a wildcard from itself and from the names below it.
    HIDES_WILDCARD = "hides-wildcard" "RFC 4592 §2.2.1",
    /// Records of signed zones.
    SIGNED = "signed" "RFC 4035 §2",
    /// The policy, check and members of a set.
    SET_RULES = "set-rules" "Dunlin",
    /// A change names each set once.
    TWICE = "duplicate" "Dunlin",
    /// A CNAME is alone at its name.
    CNAME_ALONE = "cname-alone" "RFC 1034 §3.6.2",
    /// An ALIAS record is beside no addresses, and in no signed zone: it stands for addresses.
    ALIAS_ADDRESSES = "alias-addresses" "Dunlin",
    /// Types with at most one record a name.
    SINGLE = "single" "RFC 2181 §10.1",
    /// One SOA record, at the apex.
    SOA = "soa" "RFC 1035 §5.2",
    /// NS records at the apex.
    NS = "ns" "RFC 1034 §4.2.1",
    /// The cost of NSEC3.
    NSEC3 = "nsec3" "RFC 9276 §3.1",
    /// A delegation to a name below itself needs an address.
    GLUE = "glue" "RFC 1034 §4.2.1",
    /// A name server without an address.
    LAME = "lame" "RFC 1912 §2.8",
    /// A target that is an alias.
    TARGET_ALIAS = "target-alias" "RFC 2181 §10.3",
    /// A target in the zone that does not exist.
    TARGET_MISSING = "target-missing" "Dunlin",
    /// A target with one label, outside of the zone.
    TARGET_TOP_LEVEL = "target-top-level" "RFC 1035 §5.1",
    /// A name that ends in the origin twice.
    DOUBLED = "doubled-name" "RFC 1035 §5.1",
    /// An address instead of a name.
    ADDRESS = "address-as-name" "RFC 1035 §3.3",
    /// The form of a mail address.
    MAILBOX = "mailbox" "RFC 1035 §8",
    /// A TTL of 0.
    TTL_ZERO = "ttl-zero" "RFC 1035 §3.2.1",
    /// Records of one set with several TTLs.
    TTL_DIFFERS = "ttl-differs" "RFC 2181 §5.2",
    /// Records that a delegation hides.
    OCCLUDED = "occluded" "RFC 5936 §3.5",
    /// Records below a DNAME record.
    BELOW_DNAME = "below-dname" "RFC 6672 §2.4",
    /// Aliases that lead back to themselves.
    ALIAS_LOOP = "alias-loop" "RFC 1034 §3.6.2",
    /// Signatures that clients refuse, now or soon.
    SIGNATURE = "signature" "RFC 4035 §5.3",
    /// Signed records without a signature, and signatures without their record.
    UNSIGNED = "unsigned" "RFC 4035 §2.2",
    /// The chain of NSEC or NSEC3 records.
    CHAIN = "denial-chain" "RFC 4035 §2.3",
    /// Text without quotes.
    TEXT = "unquoted-text" "RFC 1035 §5.1",
    /// A file ends with a newline.
    CUT_OFF = "cut-off" "Dunlin",
    /// A serial that does not grow.
    SERIAL = "serial" "RFC 1982 §3.2",
    /// A field with only one allowed value.
    NOT_YET = "not-yet" "Dunlin",
    /// The grammar of the config.
    CONFIG_SYNTAX = "config-syntax" "TOML 1.0",
    /// An unknown key or section.
    CONFIG_KEY = "config-unknown-key" "Dunlin",
    /// An invalid value.
    CONFIG_VALUE = "config-value" "Dunlin",
    /// A missing key.
    CONFIG_MISSING = "config-missing-key" "Dunlin",
    /// A duplicate definition.
    CONFIG_TWICE = "config-duplicate" "Dunlin",
    /// A key of a feature that the build leaves out.
    CONFIG_FEATURE = "config-feature" "Dunlin",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let names: HashSet<&str> = BrokenRule::ALL.iter().map(|rule| rule.id).collect();
        assert_eq!(names.len(), BrokenRule::ALL.len());
        for rule in BrokenRule::ALL {
            assert!(
                rule.id.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'),
                "{rule}"
            );
            let known = ["RFC ", "Dunlin", "BIND", "TOML"];
            assert!(known.iter().any(|known| rule.source.starts_with(known)), "{rule}");
        }
    }
}
