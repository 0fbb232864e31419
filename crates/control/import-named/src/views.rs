//! All statements: those outside of views, and the views.
use crate::clients::{self, Rule};
use crate::config::NetworkSection;
use crate::context::{Context, SERVER_LISTS};
use crate::options::{self, Options};
use crate::parse::{Parsed, Statement};
use crate::settings;
use crate::zones::{self, Transfers};
use import_report::{ImportError, shown};

/// A view and its clients.
struct View<'s> {
    statement: &'s Statement,
    /// Its name in the config.
    name: String,
    rules: Vec<Rule>,
}

/// Statements that are read by name.
fn is_definition(name: &str) -> bool {
    ["acl", "key", "server"].contains(&name) || SERVER_LISTS.contains(&name)
}

/// Imports everything.
pub fn read_all<'s>(context: &mut Context<'s>, parsed: &'s Parsed) -> Result<(), ImportError> {
    let (mut options, mut transfers) = (Options::default(), Transfers::default());
    let mut begin = &parsed.begin;
    for statement in parsed.statements.iter().filter(|it| it.text(0) == "options") {
        begin = &statement.place;
        options::read(context, &mut options, statement.block().unwrap_or_default())?;
    }
    let mut views = Vec::new();
    for statement in &parsed.statements {
        match statement.text(0) {
            "options" => {}
            name if is_definition(name) => {}
            "zone" => zones::read(context, &mut transfers, statement, None)?,
            "view" => views.push(statement),
            _ => settings::report(context, statement),
        }
    }
    read_views(context, (&mut options, &mut transfers), &views)?;
    zones::close(context, transfers);
    options::close(context, options, begin);
    Ok(())
}

/// The views in their order, up to the one of all clients, which is the zones themselves.
fn read_views<'s>(
    context: &mut Context<'s>,
    (options, transfers): (&mut Options<'s>, &mut Transfers),
    statements: &[&'s Statement],
) -> Result<(), ImportError> {
    let mut views: Vec<View<'s>> = Vec::new();
    let mut base: Option<&'s Statement> = None;
    for statement in statements {
        if base.is_some() {
            let text = "view: an earlier view has all clients, so this one has none";
            context.lost(&statement.place, text);
            continue;
        }
        let block = statement.block().unwrap_or_default();
        let Some(clients) = block.iter().find(|it| it.text(0) == "match-clients") else {
            base = Some(statement);
            continue;
        };
        let list = clients::read(context, "match-clients", clients.block().unwrap_or_default())?;
        match list.is_for_all() && list.texts() == ["any"] {
            true => base = Some(statement),
            false => {
                let name = view_name(statement.text(1), &views);
                views.push(View { statement, name, rules: list.rules });
            }
        }
    }
    if let Some(base) = base {
        let block = base.block().unwrap_or_default();
        let is_zone = |it: &&Statement| it.text(0) == "zone";
        for statement in block.iter().filter(is_zone) {
            zones::read(context, transfers, statement, None)?;
        }
        for statement in block.iter().filter(|it| !is_zone(it)) {
            match statement.text(0) {
                "match-clients" => {}
                name if is_definition(name) => {}
                _ => {
                    let own = std::slice::from_ref(statement);
                    options::read(context, options, own)?;
                }
            }
        }
    } else if let Some(view) = views.last() {
        let text = "view: no view has all clients, and a view of Dunlin is laid over a zone of all \
                    clients: the views are not imported. Add a view with match-clients { any; }, \
                    and import again";
        context.lost(&view.statement.place, text);
        return Ok(());
    }
    for view in &views {
        read_view(context, transfers, view)?;
    }
    assign(context, &views);
    Ok(())
}

/// A name that the config takes, and that no earlier view has.
fn view_name(name: &str, views: &[View<'_>]) -> String {
    let plain =
        |one: char| if one.is_ascii_alphanumeric() || "-_.".contains(one) { one } else { '-' };
    let mut name: String = name.chars().map(plain).take(50).collect();
    if ["", "default", "other"].contains(&name.as_str()) {
        name = format!("view-{name}");
    }
    while views.iter().any(|view| view.name == name) {
        name += "-2";
    }
    name
}

/// The zones of a view of some clients.
fn read_view<'s>(
    context: &mut Context<'s>,
    transfers: &mut Transfers,
    view: &View<'s>,
) -> Result<(), ImportError> {
    for statement in view.statement.block().unwrap_or_default() {
        match statement.text(0) {
            "zone" => {
                zones::read(context, transfers, statement, Some(&view.name))?;
                let Some(section) = context.draft.zones.last() else { continue };
                let is_base = |name: &str| {
                    let file = |origin: &_| matches!(origin, crate::config::ZoneOrigin::File(_));
                    let mut zones = context.draft.zones.iter();
                    zones.any(|it| it.name == name && it.view.is_none() && file(&it.origin))
                };
                if section.view.as_deref() == Some(&view.name) && !is_base(&section.name) {
                    let text = format!(
                        "zone {}: it is only in the view {}: add a zone of all clients for the \
                         view to be laid over",
                        section.name, view.name
                    );
                    context.draft.zones.pop();
                    context.lost(&statement.place, text);
                }
            }
            "match-clients" => {}
            name if is_definition(name) => {}
            name => {
                let text = format!(
                    "view … {{ {} }}: it is the same for all views, as in options",
                    shown(name)
                );
                context.lost(&statement.place, text);
            }
        }
    }
    Ok(())
}

/// Gives each view its network. An earlier view decides in BIND, the longest prefix in Dunlin: what
/// an earlier one covers is left out.
fn assign(context: &mut Context<'_>, views: &[View<'_>]) {
    let mut known: Vec<Rule> = Vec::new();
    for view in views {
        let zones = &mut context.draft.zones.iter();
        if !zones.any(|zone| zone.view.as_deref() == Some(&view.name)) {
            let text = format!("view {}: it has no zone that is imported", view.name);
            context.lost(&view.statement.place, text);
            continue;
        }
        let (mut prefixes, mut excluded) = (Vec::new(), Vec::new());
        for rule in &view.rules {
            if known.iter().any(|earlier| earlier.covers(rule)) {
                continue;
            }
            if rule.is_allowed {
                prefixes.push(rule.prefix());
                known.push(*rule);
                continue;
            }
            let mut others = view.rules.iter();
            if others.any(|other| other.is_allowed && other.covers(rule)) {
                excluded.push(rule.prefix());
                known.push(*rule);
            }
        }
        if prefixes.is_empty() {
            let text = format!("view {}: no client is left for it", view.name);
            context.lost(&view.statement.place, text);
            continue;
        }
        if !excluded.is_empty() {
            let text = format!(
                "view {}: its excluded clients have the zones without a view, also if a later view \
                 has them",
                view.name
            );
            context.differs(&view.statement.place, text);
            let (name, view) = (format!("{}-excluded", view.name), "default".to_owned());
            context.draft.networks.push(NetworkSection { name, prefixes: excluded, view });
        }
        let (name, view) = (view.name.clone(), view.name.clone());
        context.draft.networks.push(NetworkSection { name, prefixes, view });
    }
}
