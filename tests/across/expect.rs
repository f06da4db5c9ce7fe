//! The file `across` of a case: what does not survive a load into another server.
//!
//! A line is `FROM -> TO [TOOL]: WHAT: WORDS`. `FROM` and `TO` are a server, `mariadb`, `mysql` or
//! `*`. `TOOL` is `stock`, `mydumper`, `refloat`, `sql` or `copy`; without it, the line is for all
//! tools. `WHAT` is one of:
//!
//! | What | Words |
//! |---|---|
//! | `refused` | are in the error that stops the load; when the load continues instead, in a statement or row that it lists |
//! | `with` | options for the load that continues, as on the command line of `refloat load` |
//! | `warns` | are in a warning of the load; `*` matches anything |
//! | `differs` | are in a difference of a definition or of rows |
//! | `undumped` | are in the error of a tool that cannot dump the source |
//!
//! Every line must match something, and everything that happens must be matched by a line. The
//! stock client, which loads the dumps of `sql`, stops at its first error and reports less: that is
//! accepted wherever a load refuses anything.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use refloat_sandbox::ServerKind;

use refloat_tests::case::Case;
use refloat_tests::tools::Tool;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Refused,
    With,
    Warns,
    Differs,
    Undumped,
}

impl What {
    const ALL: [(Self, &str); 5] = [
        (Self::Refused, "refused"),
        (Self::With, "with"),
        (Self::Warns, "warns"),
        (Self::Differs, "differs"),
        (Self::Undumped, "undumped"),
    ];

    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(what, _)| *what == self);
        found.map_or("", |(_, word)| word)
    }
}

/// One transfer: from which server, to which, with which tool.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub from: ServerKind,
    pub to: ServerKind,
    pub tool: Tool,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {} {}", self.from, self.to, self.tool.word())
    }
}

#[derive(Debug)]
struct Line {
    number: usize,
    from: String,
    to: String,
    tool: Option<String>,
    what: What,
    words: String,
    hits: AtomicU64,
}

impl Line {
    fn parse(number: usize, text: &str) -> Self {
        let read = || {
            let (way, rest) = text.split_once(": ")?;
            let (what, words) = rest.split_once(": ")?;
            let (from, to) = way.split_once(" -> ")?;
            let (to, tool) = match to.split_once(' ') {
                Some((to, tool)) => (to, Some(tool.to_owned())),
                None => (to, None),
            };
            let (what, _) = What::ALL.into_iter().find(|(_, word)| *word == what)?;
            Some(Self {
                number,
                from: from.to_owned(),
                to: to.to_owned(),
                tool,
                what,
                words: words.trim().to_owned(),
                hits: AtomicU64::new(0),
            })
        };
        read().unwrap_or_else(|| panic!("line {number} of an `across` is not understood: {text}"))
    }

    fn is_for(&self, way: Way) -> bool {
        is_server(&self.from, way.from)
            && is_server(&self.to, way.to)
            && self
                .tool
                .as_ref()
                .is_none_or(|tool| tool == way.tool.word())
    }
}

fn is_server(name: &str, kind: ServerKind) -> bool {
    match name {
        "*" => true,
        "mariadb" => kind.is_mariadb(),
        "mysql" => !kind.is_mariadb(),
        name => name == kind.name(),
    }
}

/// Does the text contain all parts of `words`, in order?
fn has(text: &str, words: &str) -> bool {
    let mut rest = text;
    words.split('*').all(|part| match rest.find(part.trim()) {
        Some(at) => {
            rest = &rest[at + part.trim().len()..];
            true
        }
        None => false,
    })
}

/// The file `across` of one case.
#[derive(Debug)]
pub struct Across {
    lines: Vec<Line>,
}

impl Across {
    /// Without a file, nothing is expected.
    pub fn of(case: &Case) -> Self {
        let text = fs::read_to_string(case.folder.join("across")).unwrap_or_default();
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        Self {
            lines: lines.map(|(at, line)| Line::parse(at + 1, line)).collect(),
        }
    }

    /// Is this expected? Marks the matching lines as met.
    pub fn expects(&self, way: Way, what: What, text: &str) -> bool {
        let mut found = false;
        for line in &self.lines {
            if line.what == what && line.is_for(way) && has(text, &line.words) {
                line.hits.fetch_add(1, Ordering::Relaxed);
                found = true;
            }
        }
        found
    }

    /// Is anything refused here, in whatever words?
    pub fn refuses(&self, way: Way) -> bool {
        let mut refused = false;
        let lines = self.lines.iter().filter(|line| line.is_for(way));
        for line in lines.filter(|line| line.what == What::Refused) {
            refused = true;
            // Lines for all tools must be met by tools that report more.
            line.hits
                .fetch_add(u64::from(line.tool.is_some()), Ordering::Relaxed);
        }
        refused
    }

    /// Options for the load that continues.
    pub fn options(&self, way: Way) -> Vec<String> {
        let mut options = Vec::new();
        for line in &self.lines {
            if line.what == What::With && line.is_for(way) {
                line.hits.fetch_add(1, Ordering::Relaxed);
                options.extend(line.words.split_whitespace().map(str::to_owned));
            }
        }
        options
    }

    /// Lines that nothing has matched.
    pub fn unmet(&self) -> Vec<String> {
        let unmet = self.lines.iter();
        unmet
            .filter(|line| line.hits.load(Ordering::Relaxed) == 0)
            .map(|line| {
                let (number, what) = (line.number, line.what.word());
                format!("line {number} of `across`: nothing {what}: {}", line.words)
            })
            .collect()
    }
}
