//! Parses `LOAD DATA LOCAL INFILE` statements that dump tools write alongside their data files.
//!
//! The statement is never run. It describes how to read a file in the same folder. Only what the
//! tools write is supported; the only expressions are those that decode (`UNHEX`, `FROM_BASE64`)
//! and mydumper's `CONVERT(… USING UTF8MB4)`.

use refloat_sqltext::token::{Token, TokenKind, tokens};
use refloat_sqltext::{LexMode, StrLit};

use super::delimited::{Decode, Delimited};

/// A parsed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Infile {
    /// Name of the data file.
    pub file: String,
    /// Database of the table, if named.
    pub database: Option<String>,
    /// The table that the rows go into, without its database.
    pub table: String,
    /// Character set of the file, if named.
    pub charset: Option<String>,
    /// Terminators, enclosure and escapes.
    pub format: Delimited,
    /// Number of lines to skip before the rows.
    pub skip_lines: u64,
    /// The column of each field and how to decode it; `None` if the statement has no column list.
    pub fields: Option<Vec<(String, Decode)>>,
}

/// Parses a statement.
///
/// # Errors
/// What is not supported, as a message.
pub fn parse(text: &[u8], mode: LexMode) -> Result<Infile, String> {
    let list: Vec<Token> = tokens(text, mode)
        .filter(|token| {
            !matches!(
                token.kind,
                TokenKind::OpenConditional | TokenKind::CloseConditional
            )
        })
        .collect();
    Parser {
        text,
        mode,
        list,
        at: 0,
    }
    .statement()
}

struct Parser<'a> {
    text: &'a [u8],
    mode: LexMode,
    list: Vec<Token>,
    at: usize,
}

impl Parser<'_> {
    fn word(&mut self, keyword: &str) -> bool {
        let found = self
            .list
            .get(self.at)
            .is_some_and(|token| token.is(self.text, keyword));
        self.at += usize::from(found);
        found
    }

    fn punct(&mut self, byte: u8) -> bool {
        let found = self
            .list
            .get(self.at)
            .is_some_and(|token| token.is_punct(byte));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, keyword: &str) -> Result<(), String> {
        if self.word(keyword) {
            Ok(())
        } else {
            Err(self.unknown())
        }
    }

    fn expect_punct(&mut self, byte: u8) -> Result<(), String> {
        if self.punct(byte) {
            Ok(())
        } else {
            Err(self.unknown())
        }
    }

    fn unknown(&self) -> String {
        match self.list.get(self.at) {
            Some(token) => format!(
                "this LOAD DATA statement is not understood from «{}» on",
                refloat_sqltext::head(&self.text[token.range.start..])
            ),
            None => "this LOAD DATA statement ends too early".to_owned(),
        }
    }

    fn string(&mut self) -> Result<Vec<u8>, String> {
        let token = self
            .list
            .get(self.at)
            .filter(|token| token.kind == TokenKind::Text)
            .ok_or_else(|| self.unknown())?;
        let raw = &self.text[token.range.start + 1..token.range.end - 1];
        let literal = StrLit::new(raw, self.text[token.range.start], self.mode);
        let mut out = Vec::new();
        literal.unescape_into(&mut out);
        self.at += 1;
        Ok(out)
    }

    fn name(&mut self) -> Result<String, String> {
        let token = self.list.get(self.at).ok_or_else(|| self.unknown())?;
        let text = &self.text[token.range.clone()];
        let name = match token.kind {
            TokenKind::Word | TokenKind::Number => String::from_utf8_lossy(text).into_owned(),
            TokenKind::QuotedName => {
                let quote = char::from(text[0]);
                String::from_utf8_lossy(&text[1..text.len() - 1])
                    .replace(&format!("{quote}{quote}"), &quote.to_string())
            }
            _ => return Err(self.unknown()),
        };
        self.at += 1;
        Ok(name)
    }

    fn statement(mut self) -> Result<Infile, String> {
        self.expect("LOAD")?;
        self.expect("DATA")?;
        self.expect("LOCAL")?;
        self.expect("INFILE")?;
        let file = String::from_utf8(self.string()?)
            .map_err(|_| "the name of its file is not text".to_owned())?;
        if self.word("REPLACE") || self.word("IGNORE") {
            return Err(
                "it would replace or skip existing rows, which is not supported".to_owned(),
            );
        }
        self.expect("INTO")?;
        self.expect("TABLE")?;
        let mut table = self.name()?;
        let mut database = None;
        if self.punct(b'.') {
            database = Some(std::mem::take(&mut table));
            table = self.name()?;
        }
        let mut charset = None;
        if self.word("CHARACTER") {
            self.expect("SET")?;
            charset = Some(self.charset()?);
        }
        let format = self.format()?;
        let mut skip_lines = 0;
        if self.word("IGNORE") {
            let name = self.name()?;
            skip_lines = name.parse().map_err(|_| self.unknown())?;
            if !self.word("LINES") {
                self.expect("ROWS")?;
            }
        }
        let mut fields = self.fields()?;
        if self.word("SET") {
            loop {
                self.assignment(fields.as_deref_mut().unwrap_or_default())?;
                if !self.punct(b',') {
                    break;
                }
            }
        }
        if self.at < self.list.len() {
            return Err(self.unknown());
        }
        // A variable that is never assigned to a column discards its field.
        for (name, decode) in fields.iter_mut().flatten() {
            if name.starts_with('@') {
                *decode = Decode::Skip;
            }
        }
        Ok(Infile {
            file,
            database,
            table,
            charset,
            format,
            skip_lines,
            fields,
        })
    }

    fn charset(&mut self) -> Result<String, String> {
        let quoted = self
            .list
            .get(self.at)
            .is_some_and(|token| token.kind == TokenKind::Text);
        let name = if quoted {
            String::from_utf8_lossy(&self.string()?).into_owned()
        } else {
            self.name()?
        };
        if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            Ok(name.to_ascii_lowercase())
        } else {
            Err(format!("{name} is not a character set"))
        }
    }

    fn format(&mut self) -> Result<Delimited, String> {
        let mut format = Delimited::default();
        let one = |text: Vec<u8>| match text.as_slice() {
            [] => Ok(None),
            [byte] => Ok(Some(*byte)),
            _ => Err("fields are enclosed and escaped by one byte".to_owned()),
        };
        if self.word("FIELDS") || self.word("COLUMNS") {
            loop {
                if self.word("TERMINATED") {
                    self.expect("BY")?;
                    format.field_end = self.string()?;
                } else if self.word("OPTIONALLY") {
                    self.expect("ENCLOSED")?;
                    self.expect("BY")?;
                    format.enclosed = one(self.string()?)?;
                } else if self.word("ENCLOSED") {
                    self.expect("BY")?;
                    format.enclosed = one(self.string()?)?;
                } else if self.word("ESCAPED") {
                    self.expect("BY")?;
                    format.escaped = one(self.string()?)?;
                } else {
                    break;
                }
            }
        }
        if self.word("LINES") {
            loop {
                if self.word("STARTING") {
                    self.expect("BY")?;
                    format.line_start = self.string()?;
                } else if self.word("TERMINATED") {
                    self.expect("BY")?;
                    format.line_end = self.string()?;
                } else {
                    break;
                }
            }
        }
        if format.enclosed.is_some() {
            format.null_word = Some(b"NULL".to_vec());
        }
        if let Some(fault) = format.fault() {
            return Err(fault.to_owned());
        }
        Ok(format)
    }

    /// `(column, @variable, …)`; a variable keeps its `@` until a column is assigned from it.
    fn fields(&mut self) -> Result<Option<Vec<(String, Decode)>>, String> {
        if !self.punct(b'(') {
            return Ok(None);
        }
        let mut fields = Vec::new();
        loop {
            let variable = self.punct(b'@');
            let name = self.name()?;
            fields.push(if variable {
                (format!("@{name}"), Decode::Plain)
            } else {
                (name, Decode::Plain)
            });
            if self.punct(b')') {
                return Ok(Some(fields));
            }
            self.expect_punct(b',')?;
        }
    }

    /// `column = UNHEX(@variable)` and the like: the variable's field becomes the column's.
    fn assignment(&mut self, fields: &mut [(String, Decode)]) -> Result<(), String> {
        let column = self.name()?;
        self.expect_punct(b'=')?;
        let decode = if self.word("UNHEX") {
            Decode::Hex
        } else if self.word("FROM_BASE64") {
            Decode::Base64
        } else {
            self.expect("CONVERT")?;
            Decode::Plain
        };
        self.expect_punct(b'(')?;
        self.expect_punct(b'@')?;
        let variable = format!("@{}", self.name()?);
        if decode == Decode::Plain {
            self.expect("USING")?;
            self.expect("UTF8MB4")?;
        }
        self.expect_punct(b')')?;
        let field = fields
            .iter_mut()
            .find(|(name, _)| *name == variable)
            .ok_or_else(|| format!("nothing is read into {variable}"))?;
        *field = (column, decode);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mydumpers_statement_is_read() {
        let text = br"LOAD DATA LOCAL INFILE 'shop.t.00000.dat' INTO TABLE `t` CHARACTER SET binary FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\' LINES STARTING BY '' TERMINATED BY '\n' (`a`,@b,@`j`)SET `b`=UNHEX(@b),`j`=CONVERT(@j USING UTF8MB4)";
        let infile = parse(text, LexMode::default()).unwrap();
        assert_eq!(infile.file, "shop.t.00000.dat");
        assert_eq!(infile.table, "t");
        assert_eq!(infile.charset.as_deref(), Some("binary"));
        assert!(infile.format.is_default());
        assert_eq!(
            infile.fields.unwrap(),
            [
                ("a".to_owned(), Decode::Plain),
                ("b".to_owned(), Decode::Hex),
                ("j".to_owned(), Decode::Plain)
            ]
        );
    }

    #[test]
    fn csv_with_a_header_is_read() {
        let text = br#"LOAD DATA LOCAL INFILE 'x.dat' INTO TABLE `d`.`t` FIELDS TERMINATED BY ',' ENCLOSED BY '"' ESCAPED BY '\\' LINES TERMINATED BY '\n' IGNORE 1 LINES (`a`)"#;
        let infile = parse(text, LexMode::default()).unwrap();
        assert_eq!(infile.database.as_deref(), Some("d"));
        assert_eq!(infile.skip_lines, 1);
        assert_eq!(infile.format.enclosed, Some(b'"'));
        assert_eq!(infile.format.null_word.as_deref(), Some(b"NULL".as_slice()));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
            "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE t",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a,@b) SET b=SLEEP(@b)",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a) SET b=UNHEX(@c)",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a,@b) SET b=UNHEX(@b); DROP TABLE t",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ''",
        ] {
            assert!(
                parse(text.as_bytes(), LexMode::default()).is_err(),
                "{text}"
            );
        }
    }
}
