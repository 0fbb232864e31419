//! `[[zone]] primaries`: zones that are transferred from other servers.
use crate::limits::{PRIMARIES_MAX, ZONE_RECORDS};
use crate::section::Section;
use crate::upstream::ServerAddress;
use crate::values;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wire::NameBuf;

/// `[[zone]]` with `primaries`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// The origin, in lower case.
    pub name: NameBuf,
    /// The servers that have it, in the order in which they are asked.
    pub primaries: Vec<ServerAddress>,
    /// The file with the key that signs transfers; `None`: they are not signed.
    pub key_file: Option<PathBuf>,
    /// The most records of a transfer.
    pub max_records: usize,
}

impl Secondary {
    /// Reads the keys of a section that has `primaries`, but for its name; `config`: the file.
    pub(super) fn read(section: &mut Section<'_, '_>, config: &Path, has_data_dir: bool) -> Self {
        if !has_data_dir {
            let what = "needs a folder for the copy of the zone";
            section.wrong("primaries", what, "name one as [server] data_dir");
        }
        for key in ["file", "view"] {
            let what = "and `primaries` exclude each other";
            section.wrong(key, what, "a zone comes from a file or from its primaries");
        }
        section.know(&["file", "view"]);
        // The key is there, so the default only says that the array must not be empty.
        let some = vec![ServerAddress::over_udp("", SocketAddr::from(([127, 0, 0, 1], 53)))];
        let primaries = section.list("primaries", some, PRIMARIES_MAX, ServerAddress::read);
        let folder = config.parent().unwrap_or(Path::new(""));
        let key_file = section.read("key_file", None, |value| values::file(value).map(Some));
        let (from, to) = (*ZONE_RECORDS.start(), *ZONE_RECORDS.end());
        let max_records = section.read("max_records", to, values::number(from..=to));
        Self {
            name: NameBuf::root(),
            primaries,
            key_file: key_file.map(|file| folder.join(file)),
            max_records,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::tests::check;
    use std::path::Path;

    #[test]
    fn zone_comes_from_its_primaries() {
        let text = "server.data_dir = \"d\"\n[[zone]]\nname = \"A.example\"\n\
                    primaries = [\"192.0.2.1\", \"[2001:db8::1]:5353\", \
                    \"tls://192.0.2.2#ns.example\"]\nkey_file = \"k\"\n\
                    max_records = 1000\n[[zone]]\nname = \"b\"\nfile = \"b\"\n";
        let config = Config::parse(Path::new("etc/f"), text).expect("a config");
        let [secondary] = &config.secondaries[..] else { panic!("{:?}", config.secondaries) };
        assert_eq!(secondary.name.to_string(), "a.example.");
        let primaries: Vec<_> = secondary.primaries.iter().map(ToString::to_string).collect();
        assert_eq!(primaries, ["192.0.2.1", "[2001:db8::1]:5353", "tls://192.0.2.2#ns.example"]);
        assert_eq!(secondary.key_file.as_deref(), Some(Path::new("etc/k")));
        assert_eq!((secondary.max_records, config.zones.len()), (1_000, 1));
    }

    #[test]
    fn zone_has_one_origin_and_a_folder_for_its_copy() {
        check(
            "server.data_dir = \"\"\n[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\n\
             file = \"a\"\n[[zone]]\nname = \"A\"\nprimaries = [\"::1\"]\n",
            "4:13: `primaries` needs a folder for the copy of the zone \
             (name one as [server] data_dir)
             5:8: `file` and `primaries` exclude each other \
             (a zone comes from a file or from its primaries)
             7:8: this zone is already named in line 3 (remove one of them)
             8:13: `primaries` needs a folder for the copy of the zone \
             (name one as [server] data_dir)",
        );
        check(
            "server.data_dir = \"d\"\n[[zone]]\nname = \"a\"\nprimaries = []\n[[zone]]\n\
             name = \"b\"\nprimaries = [\"ns.example\"]",
            "4:13: `primaries` needs one at least
             7:14: \"ns.example\" is not a server: it needs an address such as \"192.0.2.1:53\"",
        );
    }
}
