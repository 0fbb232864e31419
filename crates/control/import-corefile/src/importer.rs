//! Imports all blocks, plugin by plugin.
use crate::config::ImportedConfig;
use crate::lex::CorefileWord;
use crate::parse::{Block, Blocks, Directive};
use crate::{Environment, ImportResult, hops, plugins, zones};
use import_report::{Remarks, path_in_config, shown};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The names that the plugin `local` answers.
const LOCAL: [&str; 4] = ["localhost", "0.in-addr.arpa", "127.in-addr.arpa", "255.in-addr.arpa"];

/// The config and notes so far.
pub struct Importer<'a> {
    pub draft: ImportedConfig,
    pub around: &'a dyn Environment,
    /// The zones of the current block.
    pub zones: Vec<String>,
    /// Whether the current block caches answers.
    pub caches: bool,
    /// The folder of its files.
    pub root: PathBuf,
    notes: Remarks,
    /// The plugin `local` answers its names.
    pub has_local: bool,
    /// No reverse name is forwarded: the cluster claims them all.
    pub claims_reverse: bool,
    /// The first block's ports, to compare with others.
    ports: Vec<u16>,
    /// Zones whose records the current block has itself.
    pub own_zones: Vec<String>,
    /// All blocks, and the index of the current one.
    blocks: &'a [Block],
    current: usize,
    /// Hops that are being followed.
    followed: Vec<usize>,
    /// Each `acl`, its block and its list.
    acls: Vec<(CorefileWord, usize, Vec<String>)>,
}

impl<'a> Importer<'a> {
    pub fn new(around: &'a dyn Environment, blocks: &'a Blocks) -> Self {
        let mut notes = Remarks::default();
        notes.extend(blocks.notes.clone());
        Self {
            draft: ImportedConfig::default(),
            around,
            zones: Vec::new(),
            caches: false,
            root: PathBuf::new(),
            notes,
            has_local: false,
            claims_reverse: false,
            ports: Vec::new(),
            own_zones: Vec::new(),
            blocks: &blocks.blocks,
            current: 0,
            followed: Vec::new(),
            acls: Vec::new(),
        }
    }

    /// Imports all blocks.
    pub fn import(mut self) -> ImportResult {
        let is_hop = hops::find(self.blocks);
        for (index, block) in self.blocks.iter().enumerate() {
            self.current = index;
            match (is_hop[index], block.keys.first()) {
                (true, Some(key)) => self.note(
                    key,
                    "other blocks forward to this one: its servers are queried directly, and its \
                     port is not served",
                ),
                _ => self.block(block),
            }
        }
        self.compare_acls(&is_hop);
        self.close();
        let Self { draft, notes, .. } = self;
        let (config, files) = (draft.write(), draft.files);
        ImportResult { config, notes: notes.close(), files, secret_files: Vec::new() }
    }

    fn block(&mut self, block: &Block) {
        self.zones.clear();
        self.root = PathBuf::new();
        self.caches = block.directives.iter().any(|one| one.name.text == "cache");
        self.draft.caches |= self.caches;
        self.own_zones.clear();
        let mut ports = Vec::new();
        for key in &block.keys {
            self.key(key, &mut ports);
        }
        self.own_zones =
            block.directives.iter().flat_map(|one| self.zones_with_records(one)).collect();
        plugins::listen(self, block, &ports);
        if !ports.is_empty() {
            if self.ports.is_empty() {
                self.ports.clone_from(&ports);
            } else if self.ports != ports
                && let Some(key) = block.keys.first()
            {
                self.note(
                    key,
                    "Dunlin serves all zones on every address: this block's zones are \
                                also served on the ports of the other blocks",
                );
            }
        }
        // `root` comes first, because it changes paths of files.
        let (roots, others): (Vec<_>, Vec<_>) =
            block.directives.iter().partition(|one| one.name.text == "root");
        for directive in roots.into_iter().chain(others) {
            self.directive(directive);
        }
    }

    /// The zones whose records a plugin has: those it names, or those of the block.
    fn zones_with_records(&self, directive: &Directive) -> Vec<String> {
        let named = match directive.name.text.as_str() {
            "kubernetes" => &directive.args[..],
            "file" => directive.args.get(1..).unwrap_or_default(),
            _ => return Vec::new(),
        };
        match named {
            [] => self.zones.clone(),
            named => {
                named.iter().filter_map(|word| zones::zones(&word.text).ok()).flatten().collect()
            }
        }
    }

    /// The servers of another block of this Corefile, if it serves at this address.
    pub fn servers_of_own(
        &mut self,
        word: &CorefileWord,
        address: SocketAddr,
    ) -> Option<Result<Vec<String>, String>> {
        let index = hops::block_at(self.blocks, address)?;
        let is_here = |index: usize| hops::is_at(&self.blocks[index], address);
        if is_here(self.current) || self.followed.iter().any(|index| is_here(*index)) {
            return Some(Err("it is this server itself: queries would come back".to_owned()));
        }
        let blocks = self.blocks;
        let Some(rule) = hops::rule_of(&blocks[index]) else {
            let what = "it is another block of this Corefile, which does more than forward: \
                        Dunlin has the same rules for all ports";
            return Some(Err(what.to_owned()));
        };
        self.followed.push(index);
        let servers = plugins::servers(self, rule);
        self.followed.pop();
        let names = servers.join(", ");
        let text = format!("forward … {}: its servers are queried, {names}", shown(&word.text));
        self.note(word, &text);
        Some(Ok(servers))
    }

    /// Remembers the list of an `acl`.
    pub fn note_acl(&mut self, word: &CorefileWord, list: &[String]) {
        self.acls.push((word.clone(), self.current, list.to_vec()));
    }

    /// Reports lists that also apply to the names of blocks that do not have them.
    fn compare_acls(&mut self, is_hop: &[bool]) {
        let acls = std::mem::take(&mut self.acls);
        for (word, block, list) in &acls {
            let has_it =
                |index: usize| acls.iter().any(|(_, other, own)| *other == index && own == list);
            let others = (0..self.blocks.len())
                .filter(|index| index != block && !is_hop[*index] && !has_it(*index))
                .filter(|index| hops::is_plain(&self.blocks[*index]))
                .filter_map(|index| self.blocks[index].keys.first())
                .map(|key| shown(&key.text));
            let others: Vec<String> = others.collect();
            if !others.is_empty() {
                let text = format!("acl: it also applies to the names of {}", others.join(", "));
                self.lost(word, &text);
            }
        }
    }

    fn key(&mut self, word: &CorefileWord, ports: &mut Vec<u16>) {
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
                self.lost(&directive.name, &format!("{name}: unknown plugin"));
            }
        }
    }

    /// Completes the config after all blocks.
    fn close(&mut self) {
        // A wildcard address includes the others.
        let all = self.draft.listen.clone();
        self.draft.listen.retain(|address| {
            let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
            let of_all = if host.starts_with('[') { "[::]" } else { "0.0.0.0" };
            host == of_all || !all.contains(&format!("{of_all}:{port}"))
        });
        if self.draft.listen == ["0.0.0.0:53", "[::]:53"] {
            self.draft.listen.clear();
        }
        self.forward_private_names();
        if self.draft.caches {
            // CoreDNS's defaults.
            self.draft.ttl_max.get_or_insert(3600);
            self.draft.negative_ttl_max.get_or_insert(1800);
            self.draft.stale.get_or_insert(0);
        }
        // Of two limits that contradict each other, CoreDNS applies the upper one.
        if let (Some(ttl_min), Some(ttl_max)) = (self.draft.ttl_min, self.draft.ttl_max) {
            self.draft.ttl_min = Some(ttl_min.min(ttl_max));
        }
    }

    /// CoreDNS has no built-in zones: its servers are asked for reverse names of private addresses,
    /// too. Only the plugin `local` answers some names itself.
    fn forward_private_names(&mut self) {
        let forwards = self.draft.forwards.iter().any(|(_, rule)| rule.has_servers());
        if !forwards || self.claims_reverse {
            return;
        }
        self.draft.local_zones = Some(false);
        if self.has_local {
            let is_free = |name: &&str| !self.draft.forwards.iter().any(|(own, _)| own == name);
            self.draft.local = LOCAL.into_iter().filter(is_free).map(str::to_owned).collect();
        }
    }

    /// Adds a note about something without a counterpart.
    pub fn lost(&mut self, word: &CorefileWord, text: &str) {
        self.notes.add(&word.place, true, text);
    }

    /// Adds a note about something with a different counterpart.
    pub fn note(&mut self, word: &CorefileWord, text: &str) {
        self.notes.add(&word.place, false, text);
    }

    /// Adds a note about excess words after a plugin or an option, or about its body.
    pub fn no_more(&mut self, directive: &Directive, args: usize) {
        for arg in directive.args.iter().skip(args) {
            let (name, arg_text) = (shown(&directive.name.text), shown(&arg.text));
            self.lost(arg, &format!("{name} … {arg_text}: unknown argument"));
        }
        for option in &directive.body {
            let (name, text) = (shown(&directive.name.text), shown(&option.name.text));
            self.lost(&option.name, &format!("{name} {{ {text} }}: unknown option"));
        }
    }

    /// The path in the config.
    pub fn path(&mut self, word: &CorefileWord) -> String {
        let path = self.root.join(&word.text);
        let (path, remark) = path_in_config(self.around, &path, &word.text);
        remark.iter().for_each(|text| self.note(word, text));
        path
    }

    /// Sets a value that Dunlin has once for all blocks; the first one wins.
    pub fn keep<T: PartialEq>(
        &mut self,
        word: &CorefileWord,
        what: &str,
        value: T,
        slot: fn(&mut ImportedConfig) -> &mut Option<T>,
    ) {
        match slot(&mut self.draft) {
            Some(before) if *before != value => {
                self.lost(
                    word,
                    &format!("{what}: Dunlin has one value for all blocks, and uses the first"),
                );
            }
            slot => *slot = Some(value),
        }
    }
}
