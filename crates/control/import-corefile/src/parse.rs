//! Parses the blocks of a Corefile, with imports and environment variables.
use crate::Environment;
use crate::lex::{CorefileWord, lex};
use crate::limits::{DEPTH_MAX, FILE_LEN_MAX, IMPORTS_MAX, WORDS_MAX};
use import_report::{FilePosition, ImportError, ImportRemark, matching_files, shown};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A server block: its zones, ports and directives.
#[derive(Debug)]
pub struct Block {
    pub keys: Vec<CorefileWord>,
    pub directives: Vec<Directive>,
}

/// A line: at least one word, and the body in braces after them.
#[derive(Debug)]
pub struct Directive {
    pub name: CorefileWord,
    pub args: Vec<CorefileWord>,
    pub body: Vec<Directive>,
}

/// All blocks of a file, and notes about parsing them.
#[derive(Debug)]
pub struct Blocks {
    pub blocks: Vec<Block>,
    pub notes: Vec<ImportRemark>,
}

/// Parses a file.
pub fn parse(file: &Path, text: &str, around: &dyn Environment) -> Result<Blocks, ImportError> {
    let name: Rc<str> = file.display().to_string().into();
    if text.len() > FILE_LEN_MAX {
        let place = FilePosition { file: name, line: 1, column: 1 };
        return Err(ImportError::new(&place, format!("a file has at most {FILE_LEN_MAX} bytes")));
    }
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut parser = Parser {
        frames: vec![lex(&name, text)?.into_iter()],
        next: None,
        folder,
        around,
        snippets: HashMap::new(),
        words: 0,
        imports: 0,
        notes: Vec::new(),
        end: FilePosition { file: name, line: 1 + text.matches('\n').count(), column: 1 },
    };
    let mut blocks = Vec::new();
    while let Some(block) = parser.block()? {
        blocks.push(block);
    }
    Ok(Blocks { blocks, notes: parser.notes })
}

struct Parser<'a> {
    /// The remaining words of the file, and of its imports.
    frames: Vec<std::vec::IntoIter<CorefileWord>>,
    next: Option<CorefileWord>,
    folder: PathBuf,
    around: &'a dyn Environment,
    snippets: HashMap<String, Vec<CorefileWord>>,
    words: usize,
    imports: usize,
    notes: Vec<ImportRemark>,
    end: FilePosition,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<&CorefileWord> {
        while self.next.is_none() {
            let frame = self.frames.last_mut()?;
            match frame.next() {
                Some(word) => self.next = Some(word),
                None => {
                    self.frames.pop();
                }
            }
        }
        self.next.as_ref()
    }

    /// The next word, as it stands.
    fn raw(&mut self) -> Result<Option<CorefileWord>, ImportError> {
        self.peek();
        let Some(word) = self.next.take() else { return Ok(None) };
        self.words += 1;
        if self.words > WORDS_MAX {
            let text = format!("more than {WORDS_MAX} words, with all that is imported");
            return Err(ImportError::new(&word.place, text));
        }
        Ok(Some(word))
    }

    /// The next word, with what the environment says.
    fn word(&mut self) -> Result<Option<CorefileWord>, ImportError> {
        let Some(mut word) = self.raw()? else { return Ok(None) };
        for (begin, end) in [("{$", "}"), ("{%", "%}")] {
            word.text = self.replace(&word, begin, end);
        }
        Ok(Some(word))
    }

    fn replace(&mut self, word: &CorefileWord, begin: &str, end: &str) -> String {
        let (mut text, mut rest) = (String::new(), word.text.as_str());
        while let Some((before, after)) = rest.split_once(begin)
            && let Some((name, behind)) = after.split_once(end)
        {
            text += before;
            rest = behind;
            match self.around.variable(name) {
                Some(value) => text += &value,
                None => self.notes.push(ImportRemark {
                    place: word.place.clone(),
                    is_lost: true,
                    text: format!(
                        "the variable {} is not set here, and counts as empty: set it and import \
                         again",
                        shown(name)
                    ),
                }),
            }
        }
        text + rest
    }

    fn is_next(&mut self, text: &str) -> bool {
        self.peek().is_some_and(|word| word.text == text)
    }

    /// Whether the line continues.
    fn goes_on(&mut self) -> bool {
        self.peek().is_some_and(|word| !word.is_first && word.text != "}")
    }

    /// The next block, after snippets and imports.
    fn block(&mut self) -> Result<Option<Block>, ImportError> {
        loop {
            let Some(first) = self.word()? else { return Ok(None) };
            if first.text == "import" {
                self.import(&first)?;
                continue;
            }
            if let Some(name) = first.text.strip_prefix('(').and_then(|n| n.strip_suffix(')')) {
                self.snippet(name, &first)?;
                continue;
            }
            if first.text == "{" || first.text == "}" {
                let text = "a block begins with its zones: `.:53 {`";
                return Err(ImportError::new(&first.place, text));
            }
            return self.block_of(first).map(Some);
        }
    }

    fn block_of(&mut self, first: CorefileWord) -> Result<Block, ImportError> {
        let mut keys = vec![first];
        loop {
            let expects_more = keys.last().is_some_and(|key| key.text.ends_with(','));
            let goes_on = self.goes_on() || expects_more && self.peek().is_some();
            if self.is_next("{") || !goes_on {
                break;
            }
            keys.extend(self.word()?);
        }
        for key in &mut keys {
            key.text = key.text.trim_end_matches(',').to_owned();
        }
        keys.retain(|key| !key.text.is_empty());
        let directives = match self.is_next("{") {
            true => {
                let brace = self.raw()?.map_or_else(|| self.end.clone(), |word| word.place);
                self.directives(Some(&brace))?
            }
            // A file with one block needs no braces.
            false => self.directives(None)?,
        };
        Ok(Block { keys, directives })
    }

    /// Parses up to the closing brace, or to the end without an opening one.
    fn directives(&mut self, brace: Option<&FilePosition>) -> Result<Vec<Directive>, ImportError> {
        let mut directives = Vec::new();
        loop {
            let Some(name) = self.word()? else {
                let Some(brace) = brace else { break };
                return Err(ImportError::new(
                    brace,
                    "this brace is not closed: put a } at its end",
                ));
            };
            match (name.text.as_str(), brace) {
                ("}", Some(_)) => break,
                ("}", None) => {
                    return Err(ImportError::new(&name.place, "this } has no opening {"));
                }
                ("{", _) => {
                    return Err(ImportError::new(
                        &name.place,
                        "a plugin's name must precede its {",
                    ));
                }
                ("import", _) => self.import(&name)?,
                _ => directives.push(self.directive(name, 1)?),
            }
        }
        Ok(directives)
    }

    fn directive(&mut self, name: CorefileWord, depth: usize) -> Result<Directive, ImportError> {
        let (mut args, mut body) = (Vec::new(), Vec::new());
        while self.goes_on() && !self.is_next("{") {
            args.extend(self.word()?);
        }
        if self.goes_on() {
            let brace = self.raw()?.map_or_else(|| self.end.clone(), |word| word.place);
            if depth == DEPTH_MAX {
                return Err(ImportError::new(
                    &brace,
                    format!("braces are nested more than {DEPTH_MAX} deep"),
                ));
            }
            loop {
                let Some(name) = self.word()? else {
                    return Err(ImportError::new(
                        &brace,
                        "this brace is not closed: put a } at its end",
                    ));
                };
                match name.text.as_str() {
                    "}" => break,
                    _ => body.push(self.directive(name, depth + 1)?),
                }
            }
        }
        Ok(Directive { name, args, body })
    }

    /// `(name) { … }`: words to import elsewhere.
    fn snippet(&mut self, name: &str, first: &CorefileWord) -> Result<(), ImportError> {
        let brace = self.raw()?.filter(|word| word.text == "{");
        let Some(brace) = brace else {
            return Err(ImportError::new(&first.place, "a snippet needs a { after its name"));
        };
        let (mut words, mut depth) = (Vec::new(), 1);
        loop {
            let Some(word) = self.raw()? else {
                return Err(ImportError::new(
                    &brace.place,
                    "this brace is not closed: put a } at its end",
                ));
            };
            match word.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            words.push(word);
        }
        if self.snippets.insert(name.to_owned(), words).is_some() {
            let text = format!("there are two snippets ({})", shown(name));
            return Err(ImportError::new(&first.place, text));
        }
        Ok(())
    }

    /// `import what`: adds the words of a snippet or of files.
    fn import(&mut self, import: &CorefileWord) -> Result<(), ImportError> {
        let what = if self.goes_on() { self.word()? } else { None };
        let Some(what) = what else {
            let text = "import needs a snippet or a file";
            return Err(ImportError::new(&import.place, text));
        };
        if self.goes_on() {
            let text = "import takes one snippet or file; CoreDNS has no arguments for it";
            return Err(ImportError::new(&what.place, text));
        }
        self.imports += 1;
        if self.imports > IMPORTS_MAX {
            let text = format!("more than {IMPORTS_MAX} imports: does one import itself?");
            return Err(ImportError::new(&what.place, text));
        }
        let mut words = match self.snippets.get(&what.text) {
            Some(words) => words.clone(),
            None => self.files(&what)?,
        };
        // The word read ahead comes after the imported ones.
        let next: Vec<CorefileWord> = self.next.take().into_iter().collect();
        self.frames.push(next.into_iter());
        if let Some(first) = words.first_mut() {
            first.is_first = true;
        }
        self.frames.retain(|frame| !frame.as_slice().is_empty());
        self.frames.push(words.into_iter());
        Ok(())
    }

    /// The words of the files that match a path; a `*` in its last part matches anything.
    fn files(&mut self, what: &CorefileWord) -> Result<Vec<CorefileWord>, ImportError> {
        let files = matching_files(self.around, &self.folder.join(&what.text));
        let mut words = Vec::new();
        if files.is_empty() {
            let text = format!("import {}: there is no such file", shown(&what.text));
            self.notes.push(ImportRemark { place: what.place.clone(), is_lost: false, text });
        }
        for file in files {
            let text = self.around.read(&file, FILE_LEN_MAX).map_err(|error| {
                let text = format!("cannot import {}: {error}", shown(&file.to_string_lossy()));
                ImportError::new(&what.place, text)
            })?;
            words.extend(lex(&file.display().to_string().into(), &text)?);
        }
        Ok(words)
    }
}
