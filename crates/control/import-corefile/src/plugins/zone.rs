//! Zones and their files.
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::parse::Directive;
use crate::zones;
use import_report::shown;
use std::path::Path;

/// `root PATH`: the folder of relative paths.
pub fn root(importer: &mut Importer<'_>, directive: &Directive) {
    match directive.args.first() {
        Some(path) => importer.root = Path::new(&path.text).to_owned(),
        None => importer.lost(&directive.name, "root: a path is missing"),
    }
    importer.no_more(directive, 1);
}

/// `file DBFILE [ZONES…] { reload DURATION }`.
pub fn file(importer: &mut Importer<'_>, directive: &Directive) {
    let Some((file, names)) = directive.args.split_first() else {
        return importer.lost(&directive.name, "file: a file is missing");
    };
    let path = importer.path(file);
    for zone in own_zones(importer, names) {
        add(importer, file, zone, path.clone());
    }
    for option in &directive.body {
        let name = &option.name;
        match name.text.as_str() {
            "reload" => importer.note(name, "file reload: the files are watched"),
            "upstream" => importer.note(name, "file upstream: aliases are always followed"),
            other => {
                let text = format!("file {{ {} }}: unknown option", shown(other));
                importer.lost(name, &text);
            }
        }
    }
}

/// The zones after a plugin, or those of the block.
pub(super) fn own_zones(importer: &mut Importer<'_>, names: &[CorefileWord]) -> Vec<String> {
    let mut own = Vec::new();
    for word in names {
        match zones::zones(&word.text) {
            Ok(zones) => own.extend(zones),
            Err(why) => importer.lost(word, &why),
        }
    }
    if names.is_empty() { importer.zones.clone() } else { own }
}

fn add(importer: &mut Importer<'_>, word: &CorefileWord, zone: String, file: String) {
    match importer.draft.zones.iter().find(|(other, _)| *other == zone) {
        None => importer.draft.zones.push((zone, file)),
        Some((_, other)) if *other == file => {}
        Some(_) => {
            let text = format!("an earlier file for the zone {zone} is used");
            importer.lost(word, &text);
        }
    }
}

/// `auto [ZONES…] { directory DIR [REGEXP ORIGIN_TEMPLATE]; reload DURATION }`.
pub fn auto(importer: &mut Importer<'_>, directive: &Directive) {
    let origins = own_zones(importer, &directive.args);
    for option in &directive.body {
        let name = &option.name;
        match name.text.as_str() {
            "directory" => match &option.args[..] {
                [folder] => folder_of(importer, folder, &origins),
                [folder, pattern, template]
                    if pattern.text == "db\\.(.*)" && template.text == "{1}" =>
                {
                    folder_of(importer, folder, &origins);
                }
                [_, pattern, ..] => importer.lost(
                    pattern,
                    "auto directory: only the pattern db\\.(.*) is supported: list the zones",
                ),
                [] => importer.lost(name, "auto directory: a folder is missing"),
            },
            "reload" => importer.note(name, "auto reload: the files are watched"),
            other => {
                let text = format!("auto {{ {} }}: unknown option", shown(other));
                importer.lost(name, &text);
            }
        }
    }
}

fn folder_of(importer: &mut Importer<'_>, folder: &CorefileWord, origins: &[String]) {
    let path = importer.root.join(&folder.text);
    let files = match importer.around.list(&path) {
        Ok(files) => files,
        Err(error) => {
            let text = format!("auto directory {}: {error}", shown(&folder.text));
            return importer.lost(folder, &text);
        }
    };
    let mut count = 0;
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(zone) = name.strip_prefix("db.").and_then(|zone| zones::name(zone).ok()) else {
            continue;
        };
        let below = |origin: &String| {
            origin == "." || zone == *origin || zone.ends_with(&format!(".{origin}"))
        };
        if origins.iter().any(below) {
            add(importer, folder, zone, file.display().to_string());
            count += 1;
        }
    }
    let text = format!(
        "auto directory {}: its current {count} zones are imported: import again when they change",
        shown(&folder.text)
    );
    importer.note(folder, &text);
}
