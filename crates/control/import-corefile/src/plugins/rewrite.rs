//! Rewriting of query names.
use crate::config::RewriteRule;
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::parse::Directive;
use crate::zones;
use import_report::shown;

/// `rewrite [continue
/// stop] FIELD …`, or in braces, with rules for the answers.
pub fn rewrite(importer: &mut Importer<'_>, directive: &Directive) {
    let mut words: Vec<&CorefileWord> = directive.args.iter().collect();
    let mut answers = false;
    for line in &directive.body {
        match line.name.text.as_str() {
            "answer" => answers = true,
            _ => words.extend([&line.name].into_iter().chain(&line.args)),
        }
    }
    if words.first().is_some_and(|word| word.text == "continue") {
        importer.lost(words[0], "rewrite continue: only the first matching rule is applied");
    }
    if words.first().is_some_and(|word| ["continue", "stop"].contains(&word.text.as_str())) {
        words.remove(0);
    }
    let field = words.first().map_or("", |word| word.text.as_str());
    let word = words.first().copied().unwrap_or(&directive.name);
    if field != "name" {
        let text = format!("rewrite {}: only names are rewritten", shown(field));
        return importer.lost(word, &text);
    }
    let texts: Vec<&str> = words[1..].iter().map(|word| word.text.as_str()).collect();
    match rule(&texts) {
        Ok((rule, rest)) => {
            if rule.kind == "suffix" && !answers && !rest.contains(&"answer") {
                importer.note(word, "rewrite: names in answers are always restored");
            }
            if importer.draft.rewrites.iter().any(|earlier| earlier.decides(&rule)) {
                let text = format!("rewrite: an earlier rule decides about {}", rule.from);
                return importer.note(word, &text);
            }
            if let Some(text) = rule.kind.eq("suffix").then(|| difference(&texts, &rule)) {
                importer.lost(word, &text);
            }
            importer.draft.rewrites.push(rule);
        }
        Err(why) => importer.lost(word, &format!("rewrite name: {why}")),
    }
}

/// Which names a suffix rule matches in one server only: CoreDNS compares characters, Dunlin
/// labels.
fn difference(texts: &[&str], rule: &RewriteRule) -> String {
    let from = &rule.from;
    let needs_dot = texts.get(1).is_some_and(|text| text.starts_with('.'));
    match texts[0] == "regex" || needs_dot {
        true => format!("rewrite name suffix: the name {from} itself is rewritten, too"),
        false => format!("rewrite name suffix: a name such as x{from} is not rewritten"),
    }
}

/// Parses a rule; returns it with the remaining words.
fn rule<'t>(texts: &'t [&'t str]) -> Result<(RewriteRule, &'t [&'t str]), String> {
    let (kind, from, to, rest) = match texts {
        ["exact", from, to, rest @ ..] => ("exact", *from, *to, rest),
        ["suffix", from, to, rest @ ..] => ("suffix", *from, *to, rest),
        ["regex", from, to, rest @ ..] => {
            let (from, to) = suffix_of(from, to).ok_or_else(|| {
                format!(
                    "regular expressions such as {} are not supported, only suffixes",
                    shown(from)
                )
            })?;
            return Ok((RewriteRule { kind: "suffix", from, to }, rest));
        }
        [kind @ ("prefix" | "substring"), ..] => {
            return Err(format!("{kind} rules are not supported, only suffixes"));
        }
        [from, to, rest @ ..] => ("exact", *from, *to, rest),
        _ => return Err("two names are missing".into()),
    };
    let known = ["answer", "auto", "name", "value"];
    if let Some(other) = rest.iter().find(|text| !known.contains(text)).filter(|_| {
        // Two names follow `answer name`.
        rest.first() != Some(&"answer")
    }) {
        return Err(format!("{} is unknown", shown(other)));
    }
    let clean = |text: &str| zones::name(text.strip_prefix('.').unwrap_or(text));
    Ok((RewriteRule { kind, from: clean(from)?, to: clean(to)? }, rest))
}

/// `(.*)\.a\.example` and `{1}.b.example` are written as expressions but are suffixes.
fn suffix_of(from: &str, to: &str) -> Option<(String, String)> {
    let from = from.strip_prefix('^').unwrap_or(from);
    let from = from.strip_suffix('$').unwrap_or(from);
    let from = from.strip_prefix("(.*)").or_else(|| from.strip_prefix("(.+)"))?;
    let from = from.strip_prefix("\\.").or_else(|| from.strip_prefix('.'))?;
    let from = from.replace("\\.", ".");
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let to = to.strip_prefix("{1}.").filter(|to| to.chars().all(is_plain))?;
    let clean = |text: &str| zones::name(text).ok();
    from.chars().all(is_plain).then(|| clean(&from).zip(clean(to))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_expressions_become_suffixes() {
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        for (from, to, expected) in [
            ("(.*)\\.my\\.test", "{1}.svc.cluster.local", pair("my.test", "svc.cluster.local")),
            ("^(.*)\\.my\\.test\\.$", "{1}.b.test.", pair("my.test", "b.test")),
            ("(.+).a.test", "{1}.b.test", pair("a.test", "b.test")),
            ("(.*)-a\\.test", "{1}.b.test", None),
            ("a(.*)\\.test", "{1}.b.test", None),
            ("(.*)\\.(a|b)\\.test", "{1}.b.test", None),
            ("(.*)\\.a\\.test", "{1}-x.{2}.test", None),
        ] {
            assert_eq!(suffix_of(from, to), expected, "{from}");
        }
    }
}
