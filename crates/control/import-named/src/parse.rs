//! Statements of a named.conf, with those of included files.
use crate::Environment;
use crate::lex::{Kind, Token, lex};
use crate::limits::{DEPTH_MAX, FILE_LEN_MAX, INCLUDE_DEPTH_MAX, INCLUDES_MAX, WORDS_MAX};
use import_report::{FilePosition, ImportError, ImportRemark, matching_files, shown};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A part of a statement.
#[derive(Debug)]
pub enum Part {
    Word(Token),
    Block(FilePosition, Vec<Statement>),
}

/// The parts up to a `;`.
#[derive(Debug)]
pub struct Statement {
    pub place: FilePosition,
    pub parts: Vec<Part>,
}

impl Statement {
    /// The words before the first block.
    pub fn words(&self) -> impl Iterator<Item = &Token> {
        self.parts.iter().map_while(|part| match part {
            Part::Word(word) => Some(word),
            Part::Block(..) => None,
        })
    }

    /// A word before the first block.
    pub fn word(&self, index: usize) -> Option<&Token> {
        self.words().nth(index)
    }

    /// The text of a word before the first block; empty: there is none.
    pub fn text(&self, index: usize) -> &str {
        self.word(index).map_or("", |word| &word.text)
    }

    /// The first block.
    pub fn block(&self) -> Option<&[Statement]> {
        self.parts.iter().find_map(|part| match part {
            Part::Word(_) => None,
            Part::Block(_, block) => Some(&block[..]),
        })
    }

    /// What follows the first block: its position.
    fn behind_block(&self) -> Option<&FilePosition> {
        let at = self.parts.iter().position(|part| matches!(part, Part::Block(..)))?;
        self.parts.get(at + 1).map(|part| match part {
            Part::Word(word) => &word.place,
            Part::Block(place, _) => place,
        })
    }
}

/// Statements whose only block is their end: what follows them lacks a `;`.
const WITH_ONE_BLOCK: [&str; 5] = ["acl", "key", "options", "view", "zone"];

/// All statements, and remarks about reading them.
pub struct Parsed {
    pub statements: Vec<Statement>,
    pub notes: Vec<ImportRemark>,
    /// The file, at its begin.
    pub begin: FilePosition,
    /// The folder where relative paths start, if the text names one.
    pub directory: Option<PathBuf>,
}

/// Parses a file and those that it includes.
pub fn parse(file: &Path, text: &str, around: &dyn Environment) -> Result<Parsed, ImportError> {
    let name: Rc<str> = file.display().to_string().into();
    let begin = FilePosition { file: name, line: 1, column: 1 };
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader =
        Reader { around, folder, directory: None, words: 0, includes: 0, notes: Vec::new() };
    let statements = reader.file(file, text, &begin, 0)?;
    let Reader { notes, directory, .. } = reader;
    Ok(Parsed { statements, notes, begin, directory })
}

/// What all files together have.
struct Reader<'a> {
    around: &'a dyn Environment,
    folder: PathBuf,
    /// `directory`, where relative paths start behind it.
    directory: Option<PathBuf>,
    words: usize,
    includes: usize,
    notes: Vec<ImportRemark>,
}

impl Reader<'_> {
    fn file(
        &mut self,
        file: &Path,
        text: &str,
        place: &FilePosition,
        depth: usize,
    ) -> Result<Vec<Statement>, ImportError> {
        if text.len() > FILE_LEN_MAX {
            return Err(ImportError::new(
                place,
                format!("a file has at most {FILE_LEN_MAX} bytes"),
            ));
        }
        let tokens = lex(&file.display().to_string().into(), text)?;
        self.words += tokens.len();
        if self.words > WORDS_MAX {
            let text = format!("more than {WORDS_MAX} words, with all that is included");
            return Err(ImportError::new(place, text));
        }
        let mut tokens = tokens.into_iter();
        self.block(&mut tokens, None, (0, depth))
    }

    /// Parses up to the closing brace, or to the end without an opening one. `depth`: of braces and
    /// of included files.
    fn block(
        &mut self,
        tokens: &mut std::vec::IntoIter<Token>,
        brace: Option<&FilePosition>,
        depth: (usize, usize),
    ) -> Result<Vec<Statement>, ImportError> {
        let mut statements = Vec::new();
        loop {
            match tokens.as_slice().first() {
                None => match brace {
                    Some(brace) => {
                        let text = "this brace is not closed: put a }; at its end";
                        return Err(ImportError::new(brace, text));
                    }
                    None => return Ok(statements),
                },
                Some(token) if token.is_mark("}") => {
                    if brace.is_none() {
                        return Err(ImportError::new(&token.place, "this } has no opening {"));
                    }
                    tokens.next();
                    return Ok(statements);
                }
                Some(token) if token.is_mark(";") => {
                    tokens.next();
                }
                Some(_) => {
                    let statement = self.statement(tokens, depth)?;
                    if statement.text(0) == "include" {
                        statements.extend(self.include(&statement, depth.1)?);
                        continue;
                    }
                    if statement.text(0) == "directory"
                        && let Some(folder) = statement.word(1)
                    {
                        self.directory = Some(self.folder.join(&folder.text));
                    }
                    statements.push(statement);
                }
            }
        }
    }

    fn statement(
        &mut self,
        tokens: &mut std::vec::IntoIter<Token>,
        depth: (usize, usize),
    ) -> Result<Statement, ImportError> {
        let mut parts = Vec::new();
        let mut place: Option<FilePosition> = None;
        loop {
            let Some(token) = tokens.next() else {
                return Err(missing_end(place.as_ref(), &parts));
            };
            let first = place.get_or_insert_with(|| token.place.clone());
            if token.is_mark(";") {
                let statement = Statement { place: first.clone(), parts };
                if WITH_ONE_BLOCK.contains(&statement.text(0))
                    && let Some(behind) = statement.behind_block()
                {
                    return Err(ImportError::new(behind, "the } before this needs a ; behind it"));
                }
                return Ok(statement);
            }
            if token.is_mark("}") {
                return Err(ImportError::new(&token.place, "a ; is missing before this }"));
            }
            if token.is_mark("{") {
                if depth.0 == DEPTH_MAX {
                    let text = format!("braces are nested more than {DEPTH_MAX} deep");
                    return Err(ImportError::new(&token.place, text));
                }
                let block = self.block(tokens, Some(&token.place), (depth.0 + 1, depth.1))?;
                parts.push(Part::Block(token.place, block));
            } else {
                parts.push(Part::Word(token));
            }
        }
    }

    /// `include "file";`, with a `*` in its last part.
    fn include(
        &mut self,
        statement: &Statement,
        depth: usize,
    ) -> Result<Vec<Statement>, ImportError> {
        let what = match (statement.word(1), statement.parts.len()) {
            (Some(what), 2) if what.kind == Kind::Word => what,
            _ => {
                return Err(ImportError::new(
                    &statement.place,
                    "include needs one file, in quotes",
                ));
            }
        };
        if depth == INCLUDE_DEPTH_MAX {
            let text = format!(
                "files include each other more than {INCLUDE_DEPTH_MAX} deep: does one include \
                 itself?"
            );
            return Err(ImportError::new(&what.place, text));
        }
        let folder = self.directory.as_deref().unwrap_or(&self.folder);
        let files = matching_files(self.around, &folder.join(&what.text));
        if files.is_empty() {
            let text = format!("include {}: there is no such file", shown(&what.text));
            self.notes.push(ImportRemark { place: what.place.clone(), is_lost: false, text });
        }
        let mut statements = Vec::new();
        for file in files {
            self.includes += 1;
            if self.includes > INCLUDES_MAX {
                let text = format!("more than {INCLUDES_MAX} files are included");
                return Err(ImportError::new(&what.place, text));
            }
            let text = self.around.read(&file, FILE_LEN_MAX).map_err(|error| {
                let name = shown(&file.to_string_lossy());
                ImportError::new(&what.place, format!("cannot include {name}: {error}"))
            })?;
            statements.extend(self.file(&file, &text, &what.place, depth + 1)?);
        }
        Ok(statements)
    }
}

/// The text ends in a statement.
fn missing_end(first: Option<&FilePosition>, parts: &[Part]) -> ImportError {
    let last = parts.last().map(|part| match part {
        Part::Word(word) => &word.place,
        Part::Block(place, _) => place,
    });
    let nothing = FilePosition { file: "".into(), line: 1, column: 1 };
    ImportError::new(last.or(first).unwrap_or(&nothing), "a ; is missing behind this")
}
