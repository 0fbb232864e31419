//! Colors of words on a terminal.
use std::env;
use std::io::{self, IsTerminal};

/// Colors words, or leaves them as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// No colors.
    pub const NONE: Self = Self(false);

    /// Colors on standard output if it is a terminal that has them, unless the variable NO_COLOR is
    /// set.
    pub fn of_stdout() -> Self {
        let is_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self(io::stdout().is_terminal() && !is_refused && !is_dumb)
    }

    /// The fault.
    pub fn red(self, text: &str) -> String {
        self.colored(31, text)
    }

    /// A possible fault.
    pub fn yellow(self, text: &str) -> String {
        self.colored(33, text)
    }

    fn colored(self, color: u8, text: &str) -> String {
        if self.0 { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_colors_only_where_they_are_wanted() {
        assert_eq!(Paint(true).red("no"), "\x1b[31mno\x1b[0m");
        assert_eq!(Paint(true).yellow("no"), "\x1b[33mno\x1b[0m");
        assert_eq!(Paint::NONE.red("no"), "no");
    }
}
