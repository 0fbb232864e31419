//! `zone`.
use crate::config::{ZoneOrigin, ZoneSection};
use crate::context::{Context, key_name};
use crate::lex::Token;
use crate::parse::Statement;
use crate::servers::SERVERS_MAX;
use crate::{clients, servers, settings};
use import_report::{FilePosition, ImportError, shown};

/// What zones ask for that a config has once.
#[derive(Default)]
pub struct Transfers {
    /// The list of each zone with its own, and its place.
    lists: Vec<(FilePosition, Vec<String>)>,
    /// Zones without one.
    others: usize,
}

/// A name in lower case, without the final dot; `None`: it is none, which is reported.
fn read_name(context: &mut Context<'_>, word: &Token) -> Option<String> {
    match zonefile::read_name(&word.text) {
        Ok(mut name) => {
            name.make_lowercase();
            let text = name.to_string();
            Some(if text == "." { text } else { text.trim_end_matches('.').to_owned() })
        }
        Err(_) => {
            context.lost(&word.place, format!("zone {}: this is not a name", shown(&word.text)));
            None
        }
    }
}

/// Imports a zone; `view`: the view that it is in, unless it is that of all clients.
pub fn read<'s>(
    context: &mut Context<'s>,
    transfers: &mut Transfers,
    statement: &'s Statement,
    view: Option<&str>,
) -> Result<(), ImportError> {
    let Some(word) = statement.word(1) else {
        context.lost(&statement.place, "zone: it has no name");
        return Ok(());
    };
    if !matches!(statement.text(2), "" | "IN" | "in") {
        let text = format!("zone {} {}: class IN only", shown(&word.text), statement.text(2));
        context.lost(&word.place, text);
        return Ok(());
    }
    let Some(name) = read_name(context, word) else { return Ok(()) };
    let block = statement.block().unwrap_or_default();
    let find = |what: &str| block.iter().find(|option| option.text(0) == what);
    let kind = find("type").map_or("", |option| option.text(1));
    let kept: &[&str] = match kind {
        "primary" | "master" => {
            file_zone(context, (word, name), find("file"), view);
            &["type", "file", "forwarders"]
        }
        "secondary" | "slave" if view.is_none() => {
            let primaries = find("primaries").or_else(|| find("masters"));
            secondary(context, (word, name), primaries)?;
            &["type", "file", "primaries", "masters", "forwarders"]
        }
        "forward" if view.is_none() => {
            match find("forwarders") {
                Some(forwarders) => servers::forward(context, &name, forwarders)?,
                None => context.lost(&word.place, format!("zone {name}: it has no forwarders")),
            }
            &["type", "forwarders", "forward"]
        }
        "hint" => {
            let text = "zone … type hint: Dunlin forwards, and needs no root servers";
            context.differs(&word.place, text);
            return Ok(());
        }
        "" if find("in-view").is_some() => {
            context.lost(&word.place, format!("zone {name} in-view: name its file in both views"));
            return Ok(());
        }
        "" => {
            context.lost(&word.place, format!("zone {name}: it has no type"));
            return Ok(());
        }
        "secondary" | "slave" | "forward" => {
            let text = format!(
                "zone {name}: a view has zones of files; type {kind} is only in the view of all \
                 clients"
            );
            context.lost(&word.place, text);
            return Ok(());
        }
        _ => {
            let text = format!(
                "zone {name}: type {} has no counterpart: write a file, or a rule of [forward]",
                shown(kind)
            );
            context.lost(&word.place, text);
            return Ok(());
        }
    };
    rest(context, transfers, block, (kept, kind != "forward"))
}

/// The statements of a zone that have no section.
fn rest<'s>(
    context: &mut Context<'s>,
    transfers: &mut Transfers,
    block: &'s [Statement],
    (kept, is_served): (&[&str], bool),
) -> Result<(), ImportError> {
    let mut has_list = false;
    for option in block {
        let inner = option.block().unwrap_or_default();
        match option.text(0) {
            "forward" if kept.contains(&"forward") && option.text(1) == "only" => {}
            "forward" if kept.contains(&"forward") => {
                let text = "forward first: BIND queries other name servers if no forwarder \
                            answers, Dunlin does not";
                context.differs(&option.place, text);
            }
            name if kept.contains(&name) => {}
            "allow-transfer" => {
                has_list = true;
                let list = clients::read(context, "allow-transfer", inner)?.texts();
                transfers.lists.push((option.place.clone(), list));
            }
            "allow-query" => {
                let list = clients::read(context, "allow-query", inner)?.texts();
                let all = context.draft.query.clone().unwrap_or_else(|| vec!["any".to_owned()]);
                if list != all {
                    let text = "allow-query: access is the same for all zones; this list is not \
                                imported, see [acl] query";
                    context.lost(&option.place, text);
                }
            }
            "also-notify" => {
                let text = "also-notify: these servers are notified of changes of all zones";
                context.differs(&option.place, text);
                servers::notify(context, option)?;
            }
            "notify" if ["explicit", "no"].contains(&option.text(1)) => {}
            _ => settings::report(context, option),
        }
    }
    transfers.others += usize::from(is_served && !has_list);
    Ok(())
}

fn add(context: &mut Context<'_>, word: &Token, section: ZoneSection) {
    let ZoneSection { name, view, .. } = &section;
    if context.draft.zones.iter().any(|it| it.name == *name && it.view == *view) {
        context.lost(&word.place, format!("zone {name}: an earlier zone has this name"));
        return;
    }
    context.draft.zones.push(section);
}

fn file_zone(
    context: &mut Context<'_>,
    (word, name): (&Token, String),
    file: Option<&Statement>,
    view: Option<&str>,
) {
    let Some(file) = file.and_then(|file| file.word(1)).filter(|file| !file.text.is_empty()) else {
        context.lost(&word.place, format!("zone {name}: it has no file"));
        return;
    };
    if view.is_some() {
        let text = format!(
            "zone {name}: the file of a view has only the sets that differ, without the SOA: take \
             out the others of {}",
            shown(&file.text)
        );
        context.lost(&file.place, text);
    }
    let origin = ZoneOrigin::File(context.path(file));
    add(context, word, ZoneSection { name, view: view.map(str::to_owned), origin });
}

fn secondary<'s>(
    context: &mut Context<'s>,
    (word, name): (&Token, String),
    primaries: Option<&'s Statement>,
) -> Result<(), ImportError> {
    let mut servers = match primaries {
        Some(primaries) => servers::read(context, "primaries", primaries)?,
        None => Vec::new(),
    };
    if servers.is_empty() {
        context.lost(&word.place, format!("zone {name}: it has no primaries"));
        return Ok(());
    }
    let key = servers[0].key;
    let text = |key: Option<&Token>| key.map(|key| key_name(&key.text));
    let first = text(key);
    if servers.iter().any(|server| text(server.key) != first) {
        let what =
            format!("zone {name}: one key is for all primaries; those with another are left out");
        context.lost(&word.place, what);
        servers.retain(|server| text(server.key) == first);
    }
    if servers.len() > SERVERS_MAX {
        context.lost(&word.place, format!("zone {name}: only {SERVERS_MAX} primaries are used"));
        servers.truncate(SERVERS_MAX);
    }
    let key_file = key.and_then(|key| context.key_file(key));
    let servers = servers.iter().map(servers::Server::text).collect();
    let origin = ZoneOrigin::Primaries { servers, key_file };
    add(context, word, ZoneSection { name, view: None, origin });
    Ok(())
}

/// Uses the lists of zones if all zones have the same.
pub fn close(context: &mut Context<'_>, transfers: Transfers) {
    let Transfers { lists, others } = transfers;
    let same = lists.first().map(|(_, list)| list.clone()).filter(|first| {
        let all = lists.iter().all(|(_, list)| list == first);
        all && others == 0 && context.draft.transfer.is_none()
    });
    if let Some(list) = same.filter(|list| !list.is_empty()) {
        context.draft.allows_transfers = true;
        context.draft.transfer = Some(list);
    }
    let own = context.draft.transfer.clone().unwrap_or_default();
    for (place, list) in lists {
        if list != own {
            let text = "allow-transfer: `[transfer] allow` is for all zones, and this zone's list \
                        is not imported: make keys with a grant for it: dunlin token create NAME \
                        --tsig --grant 'read ZONE'";
            context.lost(&place, text);
        }
    }
}
