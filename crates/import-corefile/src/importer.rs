//! Goes over all blocks, plugin by plugin.
use crate::draft::Draft;
use crate::lex::Word;
use crate::limits::NOTES_MAX;
use crate::note::{Note, Place, shown};
use crate::parse::{Block, Blocks, Directive};
use crate::{Imported, Surroundings, plugins, zones};
use std::path::PathBuf;

/// What is known so far, and what is to be said.
pub struct Importer<'a> {
    pub draft: Draft,
    pub around: &'a dyn Surroundings,
    /// The zones of the block that is gone over.
    pub zones: Vec<String>,
    /// Whether that block keeps answers.
    pub caches: bool,
    /// Where its files are, if it says so.
    pub root: PathBuf,
    notes: Vec<Note>,
    /// What was left of the notes when there was enough to tell.
    more: usize,
    /// The first block's addresses, to tell where another one has others.
    ports: Vec<u16>,
}

impl<'a> Importer<'a> {
    pub fn new(around: &'a dyn Surroundings) -> Self {
        Self {
            draft: Draft::default(),
            around,
            zones: Vec::new(),
            caches: false,
            root: PathBuf::new(),
            notes: Vec::new(),
            more: 0,
            ports: Vec::new(),
        }
    }

    /// Does it.
    pub fn import(mut self, blocks: &Blocks) -> Imported {
        self.notes.clone_from(&blocks.notes);
        for block in &blocks.blocks {
            self.block(block);
        }
        self.close();
        if self.more > 0
            && let Some(last) = self.notes.last().cloned()
        {
            let text = format!("and {} more, which are not told", self.more);
            self.notes.push(Note { text, ..last });
        }
        let Self { draft, mut notes, .. } = self;
        let order = |note: &Note| (note.place.file.clone(), note.place.line, note.place.column);
        notes.sort_by_key(order);
        Imported { config: draft.write(), notes, files: draft.files }
    }

    fn block(&mut self, block: &Block) {
        self.zones.clear();
        self.root = PathBuf::new();
        self.caches = block.directives.iter().any(|one| one.name.text == "cache");
        self.draft.caches |= self.caches;
        let mut ports = Vec::new();
        for key in &block.keys {
            self.key(key, &mut ports);
        }
        plugins::listen(self, block, &ports);
        if !ports.is_empty() {
            if self.ports.is_empty() {
                self.ports.clone_from(&ports);
            } else if self.ports != ports
                && let Some(key) = block.keys.first()
            {
                self.note(
                    key,
                    "Dunlin answers the same on every address: this block's zones are \
                                answered on the ports of the others too",
                );
            }
        }
        // Where files are is to be known before they are named.
        let (roots, others): (Vec<_>, Vec<_>) =
            block.directives.iter().partition(|one| one.name.text == "root");
        for directive in roots.into_iter().chain(others) {
            self.directive(directive);
        }
    }

    fn key(&mut self, word: &Word, ports: &mut Vec<u16>) {
        match zones::key(&word.text) {
            Err(why) => self.lost(word, &why),
            Ok(key) => {
                if key.scheme == "dns" {
                    if !ports.contains(&key.port) {
                        ports.push(key.port);
                    }
                } else {
                    let what = shown(&word.text);
                    self.lost(word, &format!("{what}: Dunlin answers over UDP and TCP"));
                }
                for zone in key.zones {
                    if !self.zones.contains(&zone) {
                        self.zones.push(zone);
                    }
                }
            }
        }
    }

    fn directive(&mut self, directive: &Directive) {
        match plugins::find(&directive.name.text) {
            Some(plugin) => plugin.take(self, directive),
            None => {
                let name = shown(&directive.name.text);
                self.lost(&directive.name, &format!("{name}: this plugin is not known"));
            }
        }
    }

    /// What is to be said when all blocks are known.
    fn close(&mut self) {
        // Who listens on all addresses listens on each.
        let all = self.draft.listen.clone();
        self.draft.listen.retain(|address| {
            let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
            let of_all = if host.starts_with('[') { "[::]" } else { "0.0.0.0" };
            host == of_all || !all.contains(&format!("{of_all}:{port}"))
        });
        if self.draft.listen == ["0.0.0.0:53", "[::]:53"] {
            self.draft.listen.clear();
        }
        if self.draft.caches {
            // What CoreDNS does unless it is told otherwise.
            self.draft.ttl_max.get_or_insert(3600);
            self.draft.negative_ttl_max.get_or_insert(1800);
            self.draft.stale.get_or_insert(0);
        }
    }

    /// Says that something has no counterpart.
    pub fn lost(&mut self, word: &Word, text: &str) {
        self.say(&word.place, true, text);
    }

    /// Says that something has another counterpart than one may think.
    pub fn note(&mut self, word: &Word, text: &str) {
        self.say(&word.place, false, text);
    }

    fn say(&mut self, place: &Place, is_lost: bool, text: &str) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note { place: place.clone(), is_lost, text: text.to_owned() });
        } else {
            self.more += 1;
        }
    }

    /// Says that words behind a plugin or an option are one too many, or that it has a body.
    pub fn no_more(&mut self, directive: &Directive, args: usize) {
        for arg in directive.args.iter().skip(args) {
            let (name, arg_text) = (shown(&directive.name.text), shown(&arg.text));
            self.lost(arg, &format!("{name} … {arg_text}: this is not known"));
        }
        for option in &directive.body {
            let (name, text) = (shown(&directive.name.text), shown(&option.name.text));
            self.lost(&option.name, &format!("{name} {{ {text} }}: this option is not known"));
        }
    }

    /// A path as the config has it.
    pub fn path(&mut self, word: &Word) -> String {
        let path = self.root.join(&word.text);
        if path.is_relative() {
            let text = format!(
                "{}: this path begins where the config lies, and not where the server is started",
                shown(&word.text)
            );
            self.note(word, &text);
        }
        path.display().to_string()
    }

    /// Keeps a value that Dunlin has one of for all blocks; the first one stays.
    pub fn keep<T: PartialEq>(
        &mut self,
        word: &Word,
        what: &str,
        value: T,
        slot: fn(&mut Draft) -> &mut Option<T>,
    ) {
        match slot(&mut self.draft) {
            Some(before) if *before != value => {
                self.lost(word, &format!("{what}: Dunlin has one for all, and keeps the first"));
            }
            slot => *slot = Some(value),
        }
    }
}
