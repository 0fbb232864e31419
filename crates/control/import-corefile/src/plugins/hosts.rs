//! Hosts files.
use super::read_seconds;
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::parse::Directive;
use import_report::shown;
use std::net::IpAddr;

/// `hosts [FILE [ZONES…]] { entries and options }`.
pub fn hosts(importer: &mut Importer<'_>, directive: &Directive) {
    let file = match directive.args.first() {
        // Inline entries replace the default file, and add to a named one.
        None => directive.body.iter().all(|line| !is_entry(line)).then(|| "/etc/hosts".to_owned()),
        Some(word) => Some(importer.path(word)),
    };
    for zone in directive.args.iter().skip(1) {
        let zone_text = shown(&zone.text);
        importer.lost(zone, &format!("hosts … {zone_text}: all names of a file are served"));
    }
    let mut entries = String::new();
    let mut falls_through = false;
    for line in &directive.body {
        if is_entry(line) {
            let names: Vec<&str> =
                line.args.iter().filter(|word| is_name(importer, word)).map(|w| &*w.text).collect();
            if !names.is_empty() {
                entries += &format!("{} {}\n", line.name.text, names.join(" "));
            }
            continue;
        }
        falls_through |= line.name.text == "fallthrough";
        option(importer, line);
    }
    if !falls_through {
        importer.note(
            &directive.name,
            "hosts without fallthrough: missing names are also looked up in zones and upstreams",
        );
    }
    if !entries.is_empty() {
        let mine = importer.draft.files.len();
        let name = if mine == 0 { "hosts".to_owned() } else { format!("hosts.{mine}") };
        importer.draft.files.push((name.clone(), entries));
        add(importer, name);
    }
    if let Some(file) = file {
        add(importer, file);
    }
}

fn add(importer: &mut Importer<'_>, file: String) {
    if !importer.draft.hosts.contains(&file) {
        importer.draft.hosts.push(file);
    }
}

/// Whether a hosts file may have this name; adds a note if not.
fn is_name(importer: &mut Importer<'_>, word: &CorefileWord) -> bool {
    let why = match zonefile::read_name(&word.text) {
        Err(fault) => fault.to_string(),
        Ok(name) => match name.as_name().labels().next() {
            None => "is the root".to_owned(),
            Some(b"*") => "is a wildcard: write it into a zone file".to_owned(),
            Some(_) => return true,
        },
    };
    importer.lost(word, &format!("hosts … {}: it {why}", shown(&word.text)));
    false
}

fn is_entry(line: &Directive) -> bool {
    line.name.text.parse::<IpAddr>().is_ok()
}

fn option(importer: &mut Importer<'_>, option: &Directive) {
    let name = &option.name;
    match name.text.as_str() {
        "ttl" => match option.args.first() {
            None => importer.lost(name, "hosts ttl: a number is missing"),
            Some(word) => {
                if let Some(seconds) = read_seconds(importer, word) {
                    importer.keep(word, "hosts ttl", seconds, |draft| &mut draft.hosts_ttl);
                }
            }
        },
        "fallthrough" if option.args.is_empty() => {}
        "fallthrough" => importer.note(
            name,
            "hosts fallthrough with zones: missing names are also looked up in zones and upstreams",
        ),
        "reload" => importer.note(name, "hosts reload: the files are watched"),
        "no_reverse" => {
            importer.lost(name, "hosts no_reverse: PTR queries for the addresses are answered");
        }
        other => {
            let other = shown(other);
            let text = format!("hosts {{ {other} }}: this is neither an address nor an option");
            importer.lost(name, &text);
        }
    }
}
