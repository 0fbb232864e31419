//! `[[zone]]`: zones and their views, each with its file, and the checks of zones.
use crate::health::KnownChecks;
use crate::limits::{CHECK_EXCEPT_MAX, VIEW_NAME_LEN_MAX, VIEWS_MAX, VIEWS_OF_ZONE_MAX, ZONES_MAX};
use crate::secondary::Secondary;
use crate::section::Section;
use crate::values::{self, Wrong};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::DeValue;
use wire::NameBuf;

/// `[[zone]]`
#[derive(Clone, Debug)]
pub struct Zone {
    /// The origin.
    pub name: NameBuf,
    /// The zone file; a relative path starts at the config's folder.
    pub file: PathBuf,
    /// The files of its views.
    pub views: Vec<ZoneView>,
}

/// The sets that a view lays over a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneView {
    /// The name of the view.
    pub view: String,
    /// Its file, as [`Zone::file`].
    pub file: PathBuf,
}

/// `[zone.check]`: the check of all sets of addresses of a zone that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneCheck {
    /// The origin of the zone.
    pub zone: NameBuf,
    /// The name of the check.
    pub check: String,
    /// Names of the zone that have none; `*.x` stands for all names below `x`.
    pub except: Vec<NameBuf>,
}

/// The view of clients to whom no network gives another.
const DEFAULT: &str = "default";

/// One section.
struct Read {
    name: NameBuf,
    view: Option<String>,
    /// `None`: the zone comes from elsewhere, and has only a check here.
    file: Option<PathBuf>,
    check: Option<ZoneCheck>,
    offset: usize,
}

/// All sections.
#[derive(Default)]
pub(super) struct ZoneSections {
    /// The zones with a file.
    pub zones: Vec<Zone>,
    /// The checks of zones, from wherever these come.
    pub zone_checks: Vec<ZoneCheck>,
    /// The zones with primaries.
    pub secondaries: Vec<Secondary>,
}

/// The name of a view; `None`: the default view.
pub(super) fn view(value: &DeValue<'_>) -> Result<Option<String>, Wrong> {
    let name = values::text(VIEW_NAME_LEN_MAX)(value)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match name.as_str() {
        DEFAULT => Ok(None),
        _ if !name.is_empty() && name.bytes().all(is_allowed) => Ok(Some(name)),
        _ => values::expected("the name of a view, of letters, digits, `-`, `_` and `.`", value),
    }
}

/// The zones and views before a section, each with its offset.
type Earlier = HashMap<(Vec<u8>, Option<String>), usize>;

/// Reads all sections: zones from files, and those from primaries, which need a folder for their
/// copies. `used`: the views of networks, with their offsets; `stored`: those that zones of the
/// store may have.
pub(super) fn read_all(
    root: &mut Section<'_, '_>,
    (config, has_data_dir): (&Path, bool),
    views: (&[(String, usize)], &[String]),
    known_checks: &KnownChecks,
) -> ZoneSections {
    let (mut names, mut all, mut secondaries) = (HashMap::new(), Vec::new(), Vec::new());
    let mut checks = Vec::new();
    root.sections("zone", "[[zone]]", ZONES_MAX, |mut section| match section.has("primaries") {
        true => {
            let (secondary, check) =
                read_secondary(&mut section, (config, has_data_dir), &mut names, known_checks);
            section.close();
            secondaries.extend(secondary);
            checks.extend(check);
        }
        false => all.extend(read(section, config, &mut names, known_checks)),
    });
    let mut sections = read_views(root, all, views);
    sections.zone_checks.extend(checks);
    ZoneSections { secondaries, ..sections }
}

/// A section with `primaries`.
fn read_secondary(
    section: &mut Section<'_, '_>,
    (config, has_data_dir): (&Path, bool),
    names: &mut Earlier,
    known_checks: &KnownChecks,
) -> (Option<Secondary>, Option<ZoneCheck>) {
    let name = section.require("name", values::zone_name);
    if let Some(name) = &name {
        record_name(section, (name.get_ref(), name.span().start), None, names);
    }
    let check = read_check(section, name.as_ref().map(|name| name.get_ref()), known_checks);
    let secondary = Secondary::read(section, config, has_data_dir);
    let Some(mut name) = name.map(Spanned::into_inner) else { return (None, check) };
    name.make_lowercase();
    (Some(Secondary { name, ..secondary }), check)
}

/// Records a zone or view, and reports one that is there already.
fn record_name(
    section: &mut Section<'_, '_>,
    (name, offset): (&NameBuf, usize),
    view: Option<&str>,
    names: &mut Earlier,
) {
    let bytes = name.as_name().as_bytes().to_ascii_lowercase();
    let what = if view.is_none() { "this zone" } else { "this view of the zone" };
    if let Some(first) = names.insert((bytes, view.map(str::to_owned)), offset) {
        section.twice(what, first, offset);
    }
}

/// Gives each zone its views.
fn read_views(
    root: &mut Section<'_, '_>,
    all: Vec<Read>,
    (used, stored): (&[(String, usize)], &[String]),
) -> ZoneSections {
    let (views, mut zones): (Vec<Read>, Vec<Read>) =
        all.into_iter().partition(|it| it.view.is_some());
    let zone_checks = zones.iter_mut().filter_map(|zone| zone.check.take()).collect();
    let zone = |Read { name, file, .. }| Some(Zone { name, file: file?, views: Vec::new() });
    let mut zones: Vec<Zone> = zones.into_iter().filter_map(zone).collect();
    let bytes = |name: &NameBuf| name.as_name().as_bytes().to_vec();
    let at: HashMap<Vec<u8>, usize> =
        zones.iter().enumerate().map(|(at, zone)| (bytes(&zone.name), at)).collect();
    let mut known: BTreeSet<String> = stored.iter().cloned().collect();
    for Read { name, view, file, offset, .. } in views {
        let (Some(view), Some(file)) = (view, file) else { continue };
        if known.insert(view.clone()) && known.len() == VIEWS_MAX + 1 {
            root.add_at(offset, format!("at most {VIEWS_MAX} views"));
        }
        let Some(zone) = at.get(&bytes(&name)).and_then(|at| zones.get_mut(*at)) else {
            let message = format!("there is no zone {name} that this view could be of");
            let help = Some("add a section [[zone]] with the same name and no view".to_owned());
            root.add_at(offset, Wrong { message, help });
            continue;
        };
        if zone.views.len() == VIEWS_OF_ZONE_MAX {
            root.add_at(offset, format!("at most {VIEWS_OF_ZONE_MAX} views of one zone"));
        }
        zone.views.push(ZoneView { view, file });
    }
    for (view, offset) in used.iter().filter(|(view, _)| !known.contains(view)) {
        let message = format!("no zone has the view {view:?}");
        let help = match known.is_empty() {
            true => "add a section [[zone]] with this view and its file, or name it in [store] \
                     views"
                .to_owned(),
            false => format!("known: {}", known.iter().cloned().collect::<Vec<_>>().join(", ")),
        };
        root.add_at(*offset, Wrong { message, help: Some(help) });
    }
    ZoneSections { zones, zone_checks, secondaries: Vec::new() }
}

/// Reads `[zone.check]`.
fn read_check(
    zone: &mut Section<'_, '_>,
    origin: Option<&NameBuf>,
    known: &KnownChecks,
) -> Option<ZoneCheck> {
    if !zone.has("check") {
        return None;
    }
    let read = |value: &DeValue<'_>| known.read(value);
    if zone.is_text("check") {
        let check = zone.require("check", read)?.into_inner();
        return Some(ZoneCheck { zone: origin?.clone(), check, except: Vec::new() });
    }
    let mut section = zone.section("check", "[zone.check]");
    let check = section.require("name", read);
    let except = section.list("except", Vec::new(), CHECK_EXCEPT_MAX, |value| {
        let name = values::zone_name(value)?;
        match origin {
            Some(origin) if !name.as_name().is_within(origin.as_name()) => {
                Err(format!("{name} is not in the zone {origin}").into())
            }
            _ => Ok(name),
        }
    });
    section.close();
    Some(ZoneCheck { zone: origin?.clone(), check: check?.into_inner(), except })
}

/// Reads one section.
fn read(
    mut section: Section<'_, '_>,
    config: &Path,
    names: &mut Earlier,
    known: &KnownChecks,
) -> Option<Read> {
    let name = section.require("name", values::zone_name);
    let has_check = section.has("check");
    let check = read_check(&mut section, name.as_ref().map(|name| name.get_ref()), known);
    // A zone of the store, or of another site, has no file.
    let file = match has_check && !section.has("file") && !section.has("view") {
        true => None,
        false => Some(section.require("file", values::file)),
    };
    section.know(&["file"]);
    let view = section.read("view", None, view);
    if view.is_some() {
        section.wrong("check", "stands beside `view`", "put it into the section of the zone");
    }
    if let Some(name) = &name {
        record_name(&mut section, (name.get_ref(), name.span().start), view.as_deref(), names);
    }
    section.close();
    let folder = config.parent().unwrap_or(Path::new(""));
    let file = match file {
        None => None,
        Some(file) => Some(folder.join(file?.into_inner())),
    };
    let (offset, name) = (name.as_ref()?.span().start, name?.into_inner());
    Some(Read { name, view, file, check, offset })
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::tests::check;
    use std::path::Path;

    #[test]
    fn view_of_a_zone_has_its_own_file() {
        let text = "[[zone]]\nname = \"a\"\nview = \"in\"\nfile = \"in\"\n\
                    [[zone]]\nname = \"A.\"\nfile = \"out\"\n\
                    [[network]]\nname = \"n\"\nprefixes = [\"::/0\"]\nview = \"in\"\n\
                    [[network]]\nname = \"m\"\nprefixes = [\"::/1\"]\nview = \"default\"\n";
        let config = Config::parse(Path::new("etc/f"), text).expect("a config");
        let [zone] = &config.zones[..] else { panic!("one zone") };
        assert_eq!(zone.file, Path::new("etc/out"));
        assert_eq!((&*zone.views[0].view, &*zone.views[0].file), ("in", Path::new("etc/in")));
        let views: Vec<_> = config.networks.iter().map(|network| network.view.as_deref()).collect();
        assert_eq!(views, [Some("in"), None]);
    }

    #[test]
    fn check_of_a_zone_is_read_with_or_without_its_file() {
        let text = "[check]\nweb = { kind = \"tcp\", port = 80 }\n\
                    [[zone]]\nname = \"A\"\nfile = \"a\"\ncheck = \"web\"\n\
                    [[zone]]\nname = \"b\"\ncheck = { name = \"web\", except = [\"NS.b\"] }\n";
        let config = Config::parse(Path::new(""), text).expect("a config");
        assert_eq!(config.zones.len(), 1);
        let checks: Vec<_> = config
            .zone_checks
            .iter()
            .map(|it| (it.zone.to_string(), &*it.check, it.except.len()))
            .collect();
        assert_eq!(checks, [("a.".to_owned(), "web", 0), ("b.".to_owned(), "web", 1)]);
    }

    #[test]
    fn errors_of_checks_have_their_places() {
        check(
            r#"[check]
web = { kind = "tcp", port = 80 }
off = { kind = "tcp", port = 80 }
[[zone]]
name = "a"
check = { name = "wbe" }
[[zone]]
name = "b"
[zone.check]
name = "web"
except = ["ns.a", "b"]
port = 80
[[zone]]
name = "c"
[zone.check]
[kubernetes]
check = "x"
"#,
            r#"3:7: "off" is not a name of a check (a set says so to have none)
6:18: there is no check "wbe" (known: web)
11:11: ns.a. is not in the zone b.
12:1: unknown key `port` in [zone.check] (expected one of name, except)
15:1: [zone.check] needs the key `name`
17:9: there is no check "x" (known: web)
"#,
        );
        // The API may define it later.
        let text = "[store]\nkind = \"redb\"\n[server]\ndata_dir = \"d\"\n\
                    [[zone]]\nname = \"a\"\ncheck.name = \"wbe\"\n";
        assert_eq!(Config::parse(Path::new(""), text).expect("a config").zone_checks.len(), 1);
    }

    #[test]
    fn errors_of_views_have_their_places() {
        check(
            r#"[[zone]]
name = "a"
view = "x"
file = "x"
[[zone]]
name = "b"
file = "b"
[[zone]]
name = "b"
view = "x"
file = "x"
[[zone]]
name = "b"
view = "x"
file = "y"
[[zone]]
name = "b"
view = "x y"
file = "y"
[[network]]
name = "n"
prefixes = ["::/0"]
view = "z"
"#,
            &("2:8: there is no zone a. that this view could be of \
              (add a section [[zone]] with the same name and no view)\n"
                .to_owned()
                + r#"13:8: this view of the zone is already named in line 9 (remove one of them)
17:8: this zone is already named in line 6 (remove one of them)
18:8: expected the name of a view, of letters, digits, `-`, `_` and `.`, found the text "x y"
23:8: no zone has the view "z" (known: x)
"#),
        );
        let many: String = (0..17)
            .map(|n| format!("[[zone]]\nname = \"b\"\nview = \"v{n}\"\nfile = \"x\"\n"))
            .collect();
        let text = format!("[[zone]]\nname = \"b\"\nfile = \"b\"\n{many}");
        check(&text, "69:8: at most 16 views of one zone");
    }
}
