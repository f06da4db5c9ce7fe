//! Generates tables with columns, keys, constraints, partitions and options, and rows for them.

use std::fmt::Write as _;

use super::columns::{Column, InKey, column};
use super::names::{literal, name, text};
use super::values::expression;
use super::{Rng, Server};
use crate::oracle::quote;

/// Maximum number of rows inserted one by one.
const ROWS: usize = 25;

/// A table that foreign keys can reference.
#[derive(Debug, Clone)]
pub struct Parent {
    table: String,
    column: Column,
}

/// A table to create, and how to fill it.
pub struct Table {
    /// Quoted name.
    name: String,
    /// The `CREATE TABLE` statement.
    pub create: String,
    /// Number of rows to insert.
    pub rows: usize,
    columns: Vec<Column>,
    versioned: bool,
    parent: Option<Parent>,
}

/// Generates a table.
pub fn table(rng: &mut Rng, server: &Server, number: usize, parents: &[Parent]) -> Table {
    let mut draft = Draft::new(rng, server);
    if draft.partitioned {
        draft.columns.insert(0, plain(rng, "p", "INT NOT NULL"));
    } else if draft.transactional() && rng.chance(25) && !parents.is_empty() {
        draft.foreign_key(rng, number, parents);
    }
    let quoted = quote(&name(rng, number));
    let usable: Vec<Column> = draft
        .columns
        .iter()
        .filter(|column| column.key != InKey::Not)
        .cloned()
        .collect();
    let mut parent = None;
    if rng.chance(35) && !draft.partitioned {
        let id = draft.primary_id(rng);
        parent = draft.transactional().then(|| Parent {
            table: quoted.clone(),
            column: id,
        });
    } else if rng.chance(60) {
        draft.primary_key(rng, server, &usable);
    }
    for at in 0..rng.below(4) {
        if let Some(line) = key(rng, server, at, &usable, draft.partitioned) {
            draft.lines.push(line);
        }
    }
    if rng.chance(15) {
        draft.check(rng, number);
    }
    let versioned = server.mariadb && draft.transactional() && !draft.partitioned && rng.chance(10);
    let create = draft.create(rng, server, &quoted, versioned);
    Table {
        name: quoted,
        create,
        rows: if rng.chance(15) {
            0
        } else {
            rng.within(1, ROWS)
        },
        columns: draft.columns,
        versioned,
        parent,
    }
}

/// A table under construction.
struct Draft {
    columns: Vec<Column>,
    engine: &'static str,
    partitioned: bool,
    /// Keys and constraints, which follow the columns.
    lines: Vec<String>,
}

impl Draft {
    fn new(rng: &mut Rng, server: &Server) -> Self {
        let mut columns = Vec::new();
        for at in 0..rng.within(1, 9) {
            let next = column(rng, server, at, &columns);
            columns.push(next);
        }
        let engine = *rng.pick(&[
            "", "", "", "", "", "InnoDB", "InnoDB", "MyISAM", "MEMORY", "Aria",
        ]);
        let mut draft = Self {
            columns,
            engine,
            partitioned: false,
            lines: Vec::new(),
        };
        draft.partitioned = draft.transactional() && rng.chance(12);
        draft
    }

    fn transactional(&self) -> bool {
        matches!(self.engine, "" | "InnoDB")
    }

    /// Adds a foreign key, and the column that it is on.
    fn foreign_key(&mut self, rng: &mut Rng, number: usize, parents: &[Parent]) {
        let target = rng.pick(parents);
        let mut pointing = target.column.clone();
        let new_name = name(rng, 70).trim_start().to_owned();
        pointing.definition = format!("{} NULL", target.column.definition);
        (pointing.name, pointing.nullable) = (new_name, true);
        self.lines.push(format!(
            "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}{}",
            quote(&without_quotes(&format!("{}_{number}", name(rng, 80)))),
            pointing.quoted(),
            target.table,
            target.column.quoted(),
            rng.pick(&[
                "",
                " ON DELETE CASCADE",
                " ON DELETE SET NULL",
                " ON DELETE RESTRICT"
            ]),
            rng.pick(&["", " ON UPDATE CASCADE", " ON UPDATE NO ACTION"]),
        ));
        self.columns.push(pointing);
    }

    /// Adds an integer column that is the primary key. Returns it with its bare type, which columns
    /// of foreign keys repeat.
    fn primary_id(&mut self, rng: &mut Rng) -> Column {
        let sign = *rng.pick(&["INT", "BIGINT UNSIGNED", "SMALLINT"]);
        let mut id = plain(rng, "id", &format!("{sign} NOT NULL"));
        id.name = without_quotes(&id.name);
        self.lines.push(format!("PRIMARY KEY ({})", id.quoted()));
        let referenced = Column {
            definition: sign.to_owned(),
            ..id.clone()
        };
        if rng.chance(60) {
            id.definition.push_str(" AUTO_INCREMENT");
        }
        let at = rng.below(self.columns.len() + 1);
        self.columns.insert(at, id);
        referenced
    }

    /// Adds a primary key on existing columns, if some can be in one.
    fn primary_key(&mut self, rng: &mut Rng, server: &Server, usable: &[Column]) {
        let also = if self.partitioned {
            vec![self.columns[0].clone()]
        } else {
            Vec::new()
        };
        let candidates: Vec<Column> = usable.iter().filter(|one| !one.nullable).cloned().collect();
        if let Some(parts) = parts(rng, &candidates, &also, server) {
            self.lines.push(format!("PRIMARY KEY ({parts})"));
        }
    }

    fn check(&mut self, rng: &mut Rng, number: usize) {
        let odd = literal(&text(rng, 4));
        let of = rng.pick(&self.columns).quoted();
        self.lines.push(format!(
            "CONSTRAINT {} CHECK ({of} IS NULL OR {odd} <> 'x')",
            quote(&format!("c{number}_{}", name(rng, 90)))
        ));
    }

    /// The `CREATE TABLE` statement.
    fn create(&self, rng: &mut Rng, server: &Server, quoted: &str, versioned: bool) -> String {
        // Comments of other columns may contain the word too.
        let counts = self
            .columns
            .iter()
            .any(|one| one.definition.ends_with(" AUTO_INCREMENT"));
        let columns = self
            .columns
            .iter()
            .map(|one| format!("{} {}", one.quoted(), one.definition));
        let definitions: Vec<String> = columns.chain(self.lines.iter().cloned()).collect();
        let mut create = format!(
            "CREATE TABLE {quoted} (\n  {}\n)",
            definitions.join(",\n  ")
        );
        if !self.engine.is_empty() {
            let _ = write!(create, " ENGINE={}", self.engine);
        }
        create.push_str(&options(rng, server, self.transactional(), counts));
        if versioned {
            create.push_str(" WITH SYSTEM VERSIONING");
        }
        if self.partitioned {
            create.push_str(&partitions(rng, &self.columns[0]));
        }
        create
    }
}

/// Removes backticks from a name: in a foreign key, MariaDB's `SHOW CREATE TABLE` does not double
/// them.
fn without_quotes(name: &str) -> String {
    name.replace('`', "")
}

/// A plain integer column.
fn plain(rng: &mut Rng, word: &str, definition: &str) -> Column {
    Column {
        name: format!("{word}{}", name(rng, 99)),
        definition: definition.to_owned(),
        value: super::values::Value::Integer,
        key: InKey::Whole,
        nullable: false,
        generated: false,
        integer: true,
    }
}

/// Columns of a key, with prefixes and sort order.
fn parts(rng: &mut Rng, candidates: &[Column], also: &[Column], server: &Server) -> Option<String> {
    let fitting: Vec<&Column> = candidates
        .iter()
        .filter(|one| {
            matches!(one.key, InKey::Whole | InKey::Prefix)
                && also.iter().all(|other| other.name != one.name)
        })
        .collect();
    if fitting.is_empty() && also.is_empty() {
        return None;
    }
    let mut chosen: Vec<&Column> = also.iter().collect();
    for _ in 0..rng.within(1, 3) {
        if let Some(one) = fitting.get(rng.below(fitting.len().max(1)))
            && chosen.iter().all(|other| other.name != one.name)
        {
            chosen.push(one);
        }
    }
    let descending = !server.mariadb || server.version >= (10, 8);
    let words: Vec<String> = chosen
        .iter()
        .map(|one| {
            let prefix = if one.key == InKey::Prefix {
                format!("({})", rng.within(1, 12))
            } else {
                String::new()
            };
            let order = if descending && rng.chance(20) {
                " DESC"
            } else {
                ""
            };
            format!("{}{prefix}{order}", one.quoted())
        })
        .collect();
    Some(words.join(", "))
}

fn key(
    rng: &mut Rng,
    server: &Server,
    at: usize,
    usable: &[Column],
    partitioned: bool,
) -> Option<String> {
    let name = quote(&format!("k{}", name(rng, at)));
    let mut line = match rng.below(10) {
        0 => {
            let spatial = usable
                .iter()
                .find(|one| one.key == InKey::Spatial && !one.nullable)?;
            format!("SPATIAL KEY {name} ({})", spatial.quoted())
        }
        1 if !partitioned => {
            let words = usable.iter().find(|one| {
                matches!(one.value, super::values::Value::Text(_))
                    && one.key != InKey::Spatial
                    && !one.generated
            })?;
            format!("FULLTEXT KEY {name} ({})", words.quoted())
        }
        2 if !server.mariadb => {
            usable.first()?;
            let of = rng.pick(usable).quoted();
            format!("KEY {name} ((LENGTH({of})), ({of} IS NULL) DESC)")
        }
        3 | 4 if !partitioned => {
            format!("UNIQUE KEY {name} ({})", parts(rng, usable, &[], server)?)
        }
        _ => format!("KEY {name} ({})", parts(rng, usable, &[], server)?),
    };
    if rng.chance(20) {
        let _ = write!(line, " COMMENT {}", literal(&text(rng, 4)));
    }
    if rng.chance(12) {
        line.push_str(if server.mariadb {
            " IGNORED"
        } else {
            " INVISIBLE"
        });
    }
    Some(line)
}

fn options(rng: &mut Rng, server: &Server, transactional: bool, counts: bool) -> String {
    let mut options = String::new();
    if rng.chance(60) {
        let (charset, collation) = server.collation(rng);
        let _ = write!(options, " DEFAULT CHARSET={charset} COLLATE={collation}");
    }
    if rng.chance(30) {
        let _ = write!(options, " COMMENT={}", literal(&text(rng, 8)));
    }
    if counts && rng.chance(30) {
        let _ = write!(options, " AUTO_INCREMENT={}", rng.within(2, 1000));
    }
    if transactional && rng.chance(20) {
        options.push_str(rng.pick::<&str>(&[
            " ROW_FORMAT=COMPRESSED",
            " ROW_FORMAT=DYNAMIC",
            " ROW_FORMAT=COMPACT",
            " ROW_FORMAT=REDUNDANT",
            " KEY_BLOCK_SIZE=8",
        ]));
    }
    if rng.chance(10) {
        options.push_str(rng.pick::<&str>(&[
            " STATS_PERSISTENT=0",
            " MAX_ROWS=1000",
            " CHECKSUM=1",
            " AVG_ROW_LENGTH=100",
            " STATS_SAMPLE_PAGES=5",
        ]));
    }
    options
}

fn partitions(rng: &mut Rng, by: &Column) -> String {
    let by = by.quoted();
    let (a, b) = (quote(&name(rng, 1)), quote(&name(rng, 2)));
    let comment = if rng.chance(40) {
        format!(" COMMENT = {}", literal(&text(rng, 3)))
    } else {
        String::new()
    };
    match rng.below(5) {
        0 => format!(" PARTITION BY HASH ({by}) PARTITIONS {}", rng.within(1, 5)),
        1 => format!(" PARTITION BY LINEAR KEY ({by}) PARTITIONS 3"),
        2 => format!(
            " PARTITION BY RANGE ({by}) (PARTITION {a} VALUES LESS THAN (0){comment}, PARTITION {b} VALUES LESS THAN MAXVALUE)"
        ),
        3 => format!(
            " PARTITION BY RANGE COLUMNS ({by}) SUBPARTITION BY HASH ({by}) SUBPARTITIONS 2 \
             (PARTITION {a} VALUES LESS THAN (10), PARTITION {b} VALUES LESS THAN (MAXVALUE){comment})"
        ),
        _ => format!(
            " PARTITION BY LIST ({by} MOD 2) (PARTITION {a} VALUES IN (0){comment}, PARTITION {b} VALUES IN (-1, 1))"
        ),
    }
}

impl Table {
    /// Inserts one row. The server adjusts values that do not fit, and skips duplicates.
    pub fn insert(&self, rng: &mut Rng) -> String {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for column in self.columns.iter().filter(|column| !column.generated) {
            names.push(column.quoted());
            values.push(if column.nullable && rng.chance(20) {
                "NULL".to_owned()
            } else {
                expression(rng, &column.value)
            });
        }
        format!(
            "INSERT IGNORE INTO {} ({}) VALUES ({})",
            self.name,
            names.join(", "),
            values.join(", ")
        )
    }

    /// Statements to run after the rows are inserted: more rows, deletes that leave a history, a
    /// view, a trigger.
    pub fn afterwards(&self, rng: &mut Rng, mariadb: bool) -> Vec<String> {
        let mut sql = Vec::new();
        let writable: Vec<String> = self
            .columns
            .iter()
            .filter(|one| !one.generated)
            .map(Column::quoted)
            .collect();
        if rng.chance(15) {
            for _ in 0..4 {
                sql.push(format!(
                    "INSERT IGNORE INTO {0} ({1}) SELECT {1} FROM {0} LIMIT 200",
                    self.name,
                    writable.join(", ")
                ));
            }
        }
        if self.versioned {
            sql.push(format!("DELETE FROM {} LIMIT 2", self.name));
        }
        let bare = &self.name[1..self.name.len() - 1];
        if rng.chance(15) {
            sql.push(format!(
                "CREATE VIEW `v{bare}` AS SELECT *, {} AS `x` FROM {}",
                literal(&text(rng, 3)),
                self.name
            ));
        }
        if rng.chance(15) {
            let odd = literal(&text(rng, 4));
            let more = if mariadb {
                "/*M! + 1*/"
            } else {
                "/*!80000 + 1*/"
            };
            sql.push(format!(
                "CREATE TRIGGER `t{bare}` BEFORE INSERT ON {} FOR EACH ROW BEGIN SET @x = {odd}; -- don't; stop\n SET @y = 1{more}; END",
                self.name
            ));
        }
        sql
    }

    /// What foreign keys of other tables can reference, if anything.
    pub fn parent(&self) -> Option<Parent> {
        self.parent.clone()
    }
}
