//! Names and texts as nobody would write them.

use super::Rng;

/// Pieces of names and comments: what ends or begins something in SQL, and letters of several kinds.
const PIECES: &[&str] = &[
    "a",
    "B",
    "zz",
    "1",
    "0x41",
    "_",
    "$",
    " ",
    "  x",
    "`",
    "``",
    "'",
    "\"",
    "\\",
    "\\'",
    "\n",
    "\r\nx",
    "\t",
    ";",
    "--",
    "-- ",
    "#",
    "/*",
    "*/",
    "/*!50000 ",
    ",",
    "(",
    ")",
    "),(",
    ".",
    "%",
    "@",
    "@@x",
    "?",
    "{}",
    "é",
    "ß",
    "İ",
    "日本",
    "表",
    "ソ",
    "VALUES",
    " KEY ",
    "select",
    "NULL",
    "\\N",
    "DEFAULT",
    "AUTO_INCREMENT=7",
    "ENGINE=MyISAM",
    "DELIMITER",
    "COLLATE utf8mb4_bin",
    "GENERATED ALWAYS AS (1)",
    "PARTITION",
    "CONSTRAINT `c` FOREIGN KEY",
    "COMMENT 'x'",
    "INVISIBLE",
    "CHECK (0)",
    "\u{a0}",
];

/// A text of up to `most` pieces.
pub fn text(rng: &mut Rng, most: usize) -> String {
    let count = rng.below(most + 1);
    (0..count).map(|_| *rng.pick(PIECES)).collect()
}

/// A name that no other number gives: at most 40 characters, and no space at its end.
pub fn name(rng: &mut Rng, number: usize) -> String {
    let plain = rng.chance(40);
    let text: String = if plain {
        "n".to_owned()
    } else {
        // The stock client of MySQL takes a backslash in front of a line's end away, in a name too.
        let text = text(rng, 4).replace("\\\n", "\n");
        text.chars().take(30).collect()
    };
    format!("{text}{number}")
}

/// A text between apostrophes, as a session without `NO_BACKSLASH_ESCAPES` reads it.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
