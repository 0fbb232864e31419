//! The config and the remarks so far, and what a named.conf defines by name.
use crate::Environment;
use crate::config::ImportedConfig;
use crate::lex::Token;
use crate::parse::{Parsed, Statement};
use import_report::{FilePosition, ImportResult, Remarks, path_in_config, shown};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;

/// Statements that define a list of servers.
pub const SERVER_LISTS: [&str; 4] = ["primaries", "masters", "remote-servers", "parental-agents"];

pub struct Context<'a> {
    pub draft: ImportedConfig,
    remarks: Remarks,
    around: &'a dyn Environment,
    directory: Option<PathBuf>,
    pub acls: HashMap<&'a str, &'a Statement>,
    pub server_lists: HashMap<&'a str, &'a Statement>,
    /// Keys by their names in lower case, in the order of names.
    keys: BTreeMap<String, &'a Statement>,
    /// The keys of `server ADDRESS { keys … }`.
    pub server_keys: HashMap<IpAddr, &'a Token>,
    used_keys: BTreeSet<String>,
    /// Files of keys that are written.
    key_files: HashMap<String, Option<String>>,
}

impl<'a> Context<'a> {
    pub fn new(around: &'a dyn Environment, parsed: &'a Parsed) -> Self {
        let mut context = Self {
            draft: ImportedConfig::default(),
            remarks: Remarks::default(),
            around,
            directory: parsed.directory.clone(),
            acls: HashMap::new(),
            server_lists: HashMap::new(),
            keys: BTreeMap::new(),
            server_keys: HashMap::new(),
            used_keys: BTreeSet::new(),
            key_files: HashMap::new(),
        };
        context.remarks.extend(parsed.notes.clone());
        context.define(&parsed.statements);
        context
    }

    /// Records what statements define: names may be used before.
    fn define(&mut self, statements: &'a [Statement]) {
        for statement in statements {
            let (what, name) = (statement.text(0), statement.text(1));
            let is_twice = match what {
                "acl" => self.acls.insert(name, statement).is_some(),
                "key" => self.keys.insert(key_name(name), statement).is_some(),
                _ if SERVER_LISTS.contains(&what) => {
                    self.server_lists.insert(name, statement).is_some()
                }
                "server" => self.define_server(statement),
                "view" => {
                    self.define(statement.block().unwrap_or_default());
                    false
                }
                _ => false,
            };
            if is_twice {
                let text = format!("{what} {}: there are two, and the last is used", shown(name));
                self.lost(&statement.place, text);
            }
        }
    }

    /// `server ADDRESS { keys { NAME; }; };`
    fn define_server(&mut self, statement: &'a Statement) -> bool {
        let Ok(address) = statement.text(1).parse::<IpAddr>() else {
            self.lost(&statement.place, "server: only single addresses have a counterpart");
            return false;
        };
        for option in statement.block().unwrap_or_default() {
            let key = option.word(1).or_else(|| option.block()?.first()?.word(0));
            match (option.text(0), key) {
                ("keys" | "key", Some(key)) => {
                    self.server_keys.insert(address, key);
                }
                (name, _) => {
                    let text = format!("server … {{ {} }}: Dunlin finds out itself", shown(name));
                    self.lost(&option.place, text);
                }
            }
        }
        false
    }

    /// Adds a remark about something without a counterpart.
    pub fn lost(&mut self, place: &FilePosition, text: impl Into<String>) {
        self.remarks.add(place, true, text);
    }

    /// Adds a remark about something with a different counterpart.
    pub fn differs(&mut self, place: &FilePosition, text: impl Into<String>) {
        self.remarks.add(place, false, text);
    }

    /// The path of a file in the config.
    pub fn path(&mut self, word: &Token) -> String {
        let path = match &self.directory {
            Some(directory) => directory.join(&word.text),
            None => PathBuf::from(&word.text),
        };
        let (path, remark) = path_in_config(self.around, &path, &word.text);
        remark.into_iter().for_each(|text| self.differs(&word.place, text));
        path
    }

    /// The file of a key beside the config; `None`: the key is lost.
    pub fn key_file(&mut self, word: &Token) -> Option<String> {
        let name = key_name(&word.text);
        self.used_keys.insert(name.clone());
        if let Some(file) = self.key_files.get(&name) {
            return file.clone();
        }
        let file = match self.key_text(&name) {
            Ok(text) => {
                let plain = |one: char| if one.is_ascii_alphanumeric() { one } else { '-' };
                let stem: String = name.chars().map(plain).take(100).collect();
                let is_taken =
                    |file: &String| self.draft.key_files.iter().any(|(other, _)| other == file);
                let more = (2..).map(|number| format!("{stem}-{number}.key"));
                let file =
                    std::iter::once(format!("{stem}.key")).chain(more).find(|it| !is_taken(it));
                let file = file.unwrap_or_default();
                self.draft.key_files.push((file.clone(), text));
                Some(file)
            }
            Err(why) => {
                let text = format!("key {}: {why}; transfers are not signed", shown(&word.text));
                self.lost(&word.place, text);
                None
            }
        };
        self.key_files.insert(name, file.clone());
        file
    }

    /// The content of the file of a key, which the server can read.
    fn key_text(&self, name: &str) -> Result<String, String> {
        let key = self.keys.get(name).ok_or("it is not defined: add key \"…\" { … };")?;
        let value = |what: &str| {
            let options = key.block().unwrap_or_default();
            let option = options.iter().find(|option| option.text(0) == what);
            let value = option.map_or("", |option| option.text(1)).to_owned();
            // Such a text would be more than one word in the file.
            let is_word = |one: char| one.is_ascii_graphic() && !"{};\"#".contains(one);
            (!value.is_empty() && value.chars().all(is_word))
                .then_some(value)
                .ok_or_else(|| format!("it has no usable {what}"))
        };
        let (algorithm, secret) = (value("algorithm")?, value("secret")?);
        let algorithm = algorithm.to_ascii_lowercase();
        let text =
            format!("key \"{name}\" {{\n\talgorithm {algorithm};\n\tsecret \"{secret}\";\n}};\n");
        tsig::Key::from_file_text(&text).map(|_| text)
    }

    /// The result.
    pub fn close(mut self) -> ImportResult {
        let unused: Vec<(String, FilePosition)> = self
            .keys
            .iter()
            .filter(|(name, _)| !self.used_keys.contains(*name))
            .map(|(name, key)| (shown(name), key.place.clone()))
            .collect();
        for (name, place) in unused {
            let text = format!(
                "key {name}: no zone is transferred with it; for clients of this server, make a \
                 key with grants: dunlin token create NAME --tsig"
            );
            self.lost(&place, text);
        }
        let (config, notes) = (self.draft.write(), self.remarks.close());
        ImportResult { config, notes, files: Vec::new(), secret_files: self.draft.key_files }
    }
}

/// A name of a key in lower case, without the final dot.
pub fn key_name(text: &str) -> String {
    text.trim_end_matches('.').to_ascii_lowercase()
}
