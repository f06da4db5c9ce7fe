//! Pairs up a table of both sides: which columns are compared, how each side is read, and in which
//! ranges.

use refloat_digest::cells::CellKind;
use refloat_digest::literals::{Domain, LiteralColumn};
use refloat_read::catalog::{Column, DataPolicy, Table};
use refloat_schema::definition::fingerprint;
use refloat_source::manifest::{FieldLoad, TableEntry};
use refloat_sqltext::quote_ident;

use super::options::Relation;
use super::other::OtherTable;
use super::side::TableOf;

/// A column that is compared.
#[derive(Debug, Clone)]
pub struct PairColumn {
    /// Name, as the first side spells it.
    pub name: String,
    /// How its cells are normalised.
    pub kind: CellKind,
}

/// How the rows of one side are read so that cells come in the order of the pair's columns.
#[derive(Debug, Clone)]
pub enum Reading {
    /// From a server: the table, with the columns to read.
    Server(Box<Table>),
    /// From a dump: the table, and the positions of the columns in a row of a file.
    Dump(Box<TableEntry>, Vec<usize>),
    /// From a dump of another tool, whose rows have been digested already.
    Other(Box<OtherTable>),
}

impl Reading {
    /// Bytes of rows; for a server, its estimate.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Server(table) => table.bytes,
            Self::Dump(entry, _) => entry.chunks.iter().map(|chunk| chunk.text_bytes).sum(),
            Self::Other(table) => table.bytes,
        }
    }
}

/// A table that both sides have.
#[derive(Debug)]
pub struct Pair {
    /// `database.table`.
    pub label: String,
    /// Columns that are compared.
    pub columns: Vec<PairColumn>,
    /// Positions of the key's columns among them; empty if there is no key.
    pub key: Vec<usize>,
    /// How each side is read.
    pub readings: [Reading; 2],
    /// Whether both sides can be read in the same ranges, which can be halved.
    pub same_ranges: bool,
    /// Whether it must be read while writers are stopped.
    pub locked: bool,
    /// Columns that are not compared, and why.
    pub untold: Vec<String>,
    /// Columns that are left out because the first side has nothing to compare them with.
    pub left_out: Vec<String>,
    /// How columns are compared, where not byte by byte.
    pub notes: Vec<String>,
}

/// A column as one side describes it.
struct SideColumn<'a> {
    name: &'a str,
    /// Set for a server.
    column: Option<&'a Column>,
    load: Option<FieldLoad>,
    /// Its position in a row of a dump.
    place: usize,
    /// Set for a dump of another tool.
    other: Option<&'a LiteralColumn>,
}

/// The columns of one side that the other does not have.
fn only_in<'s, 'a>(
    of: &'s [SideColumn<'a>],
    other: &'s [SideColumn<'a>],
) -> impl Iterator<Item = &'s SideColumn<'a>> {
    let is_of = |one: &SideColumn<'_>| other.iter().any(|other| other.has_name(one));
    of.iter().filter(move |one| !is_of(one))
}

impl SideColumn<'_> {
    fn has_name(&self, other: &SideColumn<'_>) -> bool {
        self.name.eq_ignore_ascii_case(other.name)
    }

    /// Whether an SQL dump has its members by number.
    fn is_numbered(&self) -> bool {
        self.other.is_some_and(|of| of.domain == Domain::Numbered)
    }

    /// The column of the second side that it is compared with, or why there is none.
    fn in_other<'s, 'b>(
        &self,
        second: &'s [SideColumn<'b>],
    ) -> Result<&'s SideColumn<'b>, &'static str> {
        let other = second.iter().find(|other| other.has_name(self));
        let other = other.ok_or("only the first has it")?;
        let dumps = self.column.is_none() && other.column.is_none();
        if dumps && self.is_numbered() != other.is_numbered() {
            return Err("one dump has its members by number");
        }
        Ok(other)
    }
}

fn columns<'a>(table: &TableOf<'a>, generated: bool) -> Vec<SideColumn<'a>> {
    match table {
        TableOf::Server(table) => {
            let generated: &[Column] = if generated { &table.generated } else { &[] };
            let all = table.columns.iter().chain(generated);
            all.map(|column| SideColumn {
                name: &column.name,
                column: Some(column),
                load: column.load,
                place: 0,
                other: None,
            })
            .collect()
        }
        TableOf::Dump(entry) => {
            let all = entry.columns.iter().enumerate();
            all.map(|(place, column)| SideColumn {
                name: &column.name,
                column: None,
                load: column.load,
                place,
                other: None,
            })
            .collect()
        }
        TableOf::Other(table) => {
            let all = table.columns.iter().enumerate();
            all.map(|(place, column)| SideColumn {
                name: &column.name,
                column: None,
                load: None,
                place,
                other: Some(column),
            })
            .collect()
        }
    }
}

/// Why the rows of a table cannot be compared; `None` if they can.
pub fn out_of_reach(table: TableOf<'_>, no_history: bool) -> Option<String> {
    match table {
        TableOf::Server(table) if table.policy == DataPolicy::Elsewhere => {
            Some(format!("engine {} keeps its rows elsewhere", table.engine))
        }
        TableOf::Dump(entry) if !entry.data => Some(format!(
            "the dump does not hold the rows of engine {}",
            entry.engine
        )),
        TableOf::Dump(entry) if entry.history && no_history => Some(
            "the dump holds rows of the past; they are compared without --no-history".to_owned(),
        ),
        TableOf::Other(table) => table.problem.clone(),
        _ => None,
    }
}

/// Whether a table stores no rows of its own, even if it shows rows from elsewhere.
pub fn has_no_rows(table: &TableOf<'_>) -> bool {
    match table {
        TableOf::Server(table) => table.policy == DataPolicy::Elsewhere,
        TableOf::Dump(entry) => !entry.data,
        TableOf::Other(table) => table.problem.is_none() && table.digest.rows == 0,
    }
}

impl Pair {
    /// The verb by which a dump of another tool may have written rows in the place of others, if it
    /// has more rows than the other side.
    pub fn overwrites(&self, rows: [u64; 2]) -> Option<&'static str> {
        let verb = |side: usize| match &self.readings[side] {
            Reading::Other(table) if rows[side] > rows[1 - side] => table.overwrites,
            _ => None,
        };
        verb(0).or_else(|| verb(1))
    }

    /// Pairs two tables of the same name. `vendors` are those of the first and second side, and
    /// `relation` tells where the second one's rows come from.
    pub fn new(
        label: String,
        tables: [TableOf<'_>; 2],
        vendors: [&str; 2],
        relation: Relation,
    ) -> Self {
        let [a, b] = tables;
        let servers = matches!(tables, [TableOf::Server(_), TableOf::Server(_)]);
        let across = vendors[0] != vendors[1];
        // A dump has no generated columns: they follow from the others.
        let (of_a, of_b) = (columns(&a, servers), columns(&b, servers));
        // Historical rows are compared if both sides have them.
        let history = tables.iter().all(|table| match table {
            TableOf::Server(table) => table.history,
            TableOf::Dump(entry) => entry.history,
            TableOf::Other(_) => false,
        });
        let (mut notes, mut left_out) = (Vec::new(), Vec::new());
        let mut untold: Vec<String> = tables
            .iter()
            .flat_map(|table| match table {
                TableOf::Other(table) => table.notes.as_slice(),
                _ => &[],
            })
            .cloned()
            .collect();
        let mut pair_columns = Vec::new();
        let mut selects: [Vec<Column>; 2] = [Vec::new(), Vec::new()];
        let mut places: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        for one in &of_a {
            let other = match one.in_other(&of_b) {
                Ok(other) => other,
                Err(why) => {
                    untold.push(format!("column {} of table {label}: {why}", one.name));
                    continue;
                }
            };
            let how = How::new([one, other], across, vendors);
            if let Some(note) = &how.note {
                notes.push(format!("column {} of table {label}: {note}", one.name));
            }
            for (side, of) in [one, other].into_iter().enumerate() {
                places[side].push(of.place);
                if let Some(column) = of.column {
                    selects[side].push(how.column(column));
                }
            }
            let times = [one, other].iter().all(|of| {
                of.column
                    .is_none_or(|column| column.data_type == "timestamp")
            });
            let kind = match how.kind {
                CellKind::Bytes if history && times => CellKind::PeriodEnd,
                kind => kind,
            };
            pair_columns.push(PairColumn {
                name: one.name.to_owned(),
                kind,
            });
        }
        for other in only_in(&of_b, &of_a) {
            let words = format!(
                "column {} of table {label}: only the second has it",
                other.name
            );
            // Its server has made up the times of rows that were loaded without them.
            let made_up = relation == Relation::MadeOfFirst
                && other.column.is_some_and(|column| column.period);
            let list = if made_up { &mut left_out } else { &mut untold };
            list.push(words);
        }
        let [select_a, select_b] = selects;
        let [places_a, places_b] = places;
        let mut readings = [
            Reading::new(a, select_a, places_a),
            Reading::new(b, select_b, places_b),
        ];
        let key = key_of(&tables, &pair_columns);
        for reading in &mut readings {
            if let Reading::Server(table) = reading {
                table.history &= history;
            }
        }
        let same_ranges = match &mut readings {
            [Reading::Server(a), Reading::Server(b)] => align(a, b),
            _ => false,
        };
        let locked = tables.iter().any(
            |table| matches!(table, TableOf::Server(table) if table.policy == DataPolicy::Locked),
        );
        Self {
            label,
            columns: pair_columns,
            key,
            readings,
            same_ranges,
            locked,
            untold,
            left_out,
            notes,
        }
    }
}

/// How a column is read on both sides.
struct How {
    kind: CellKind,
    select: Select,
    note: Option<String>,
}

enum Select {
    /// As a dump reads it.
    Plain,
    /// The text, even if the server has two members that look the same.
    Name,
    /// The number of an `ENUM` or `SET`.
    Number,
    /// The text of an `ENUM` member, and whether its index is 0.
    Member,
    /// Text converted to one character set.
    Converted,
    /// Text in the character set of a dump, and the column's own character set.
    InCharset(String, String),
}

impl How {
    fn new(of: [&SideColumn<'_>; 2], across: bool, vendors: [&str; 2]) -> Self {
        if let Some(other) = of.iter().find_map(|one| one.other) {
            return Self::other(other, of);
        }
        let types = of.map(|one| one.column.map(|column| column.data_type.as_str()));
        let float = |of: Option<&str>| of.is_none_or(|name| matches!(name, "float" | "double"));
        let has_type = types.iter().any(Option::is_some);
        // JSON is the only type that a MySQL dump marks as text.
        let json = (0..2).any(|side| {
            vendors[side] == "MySQL"
                && types[side].map_or(of[side].load == Some(FieldLoad::Utf8), |name| {
                    name == "json"
                })
        });
        let kind = match across {
            true if json => CellKind::Json,
            true if has_type && types.into_iter().all(float) => CellKind::Number,
            _ => CellKind::Bytes,
        };
        let numbers = of.map(|one| one.load == Some(FieldLoad::Number));
        let servers = of.iter().all(|one| one.column.is_some());
        let dump_has_number = of
            .iter()
            .any(|one| one.column.is_none() && one.load == Some(FieldLoad::Number));
        let charsets = of.map(|one| {
            let name = one.column.map_or("", |column| column.charset.as_str());
            if name == "utf8" { "utf8mb3" } else { name }
        });
        let known = |name: &str| !name.is_empty();
        let unicode = |name: &str| matches!(name, "utf8mb3" | "utf8mb4");
        let other_charset = charsets[0] != charsets[1]
            && charsets.into_iter().all(known)
            && !charsets.into_iter().all(unicode);
        let mut note = None;
        let sets = types.iter().flatten().any(|name| *name == "set");
        let select = if servers && numbers[0] && numbers[1] && sets {
            // A SET is compared by its bits.
            Select::Number
        } else if servers && (numbers[0] || numbers[1]) {
            Select::Member
        } else if dump_has_number {
            Select::Number
        } else if numbers[0] != numbers[1] {
            Select::Name
        } else if other_charset {
            note = Some(format!(
                "compared as utf8mb4, the first has {} and the second {}",
                charsets[0], charsets[1]
            ));
            Select::Converted
        } else {
            Select::Plain
        };
        Self { kind, select, note }
    }

    /// How a column is read to match a dump of another tool.
    fn other(other: &LiteralColumn, of: [&SideColumn<'_>; 2]) -> Self {
        let select = match (&other.convert_to, other.domain) {
            (Some(charset), _) => Select::InCharset(charset.clone(), other.own_charset.clone()),
            (None, Domain::Numbered) => Select::Member,
            (None, Domain::Integer) if !other.members.is_empty() => Select::Number,
            (None, Domain::Names) => Select::Name,
            (None, _) => Select::Plain,
        };
        let own_dump = of
            .iter()
            .any(|side| side.other.is_none() && side.column.is_none());
        let note = match (&other.convert_to, own_dump) {
            (Some(charset), true) => Some(format!(
                "one dump has it in {charset}, and the other in its own character set: it will differ where it is not ASCII"
            )),
            _ => None,
        };
        Self {
            kind: other.kind,
            select,
            note,
        }
    }

    fn column(&self, column: &Column) -> Column {
        let name = quote_ident(&column.name);
        let mut read = column.clone();
        read.select = match &self.select {
            Select::Plain => return read,
            Select::Name => name,
            Select::Number => format!("CAST({name} AS UNSIGNED)"),
            Select::Member => {
                format!("IF({name} + 0 = 0, x'00', CONCAT(x'01', CAST({name} AS BINARY)))")
            }
            Select::Converted => format!("CONVERT({name} USING utf8mb4)"),
            Select::InCharset(charset, _) if charset == "utf8mb4" => {
                format!("CONVERT({name} USING {charset})")
            }
            // The dump has lost characters that its character set lacks: its question mark is not
            // the server's text.
            Select::InCharset(charset, column_charset) => format!(
                "IF(CAST(CONVERT(CONVERT({name} USING {charset}) USING {column_charset}) AS BINARY) <=> CAST({name} AS BINARY), \
                 CONVERT({name} USING {charset}), CONVERT(CONCAT('not in {charset}: ', HEX({name})) USING {charset}))"
            ),
        };
        read
    }
}

impl Reading {
    fn new(table: TableOf<'_>, columns: Vec<Column>, places: Vec<usize>) -> Self {
        match table {
            TableOf::Dump(entry) => Self::Dump(Box::new(entry.clone()), places),
            TableOf::Other(table) => Self::Other(Box::new(table.clone())),
            TableOf::Server(table) => {
                let mut table = table.clone();
                let mut key = std::mem::take(&mut table.key);
                let known = key.iter_mut().all(|part| {
                    let place = columns.iter().position(|column| column.name == part.name);
                    part.index = place.unwrap_or_default();
                    place.is_some()
                });
                if known {
                    table.key = key;
                } else {
                    table.key_name.clear();
                }
                table.columns = columns;
                Self::Server(Box::new(table))
            }
        }
    }
}

/// The key by which the rows of both sides are matched.
fn key_of(tables: &[TableOf<'_>; 2], columns: &[PairColumn]) -> Vec<usize> {
    tables
        .iter()
        .find_map(|table| {
            let names: Vec<&str> = match table {
                TableOf::Server(table) => table.key.iter().map(|part| part.name.as_str()).collect(),
                TableOf::Dump(entry) => entry.key.iter().map(String::as_str).collect(),
                TableOf::Other(_) => Vec::new(),
            };
            let places: Option<Vec<usize>> = names
                .iter()
                .map(|name| {
                    columns
                        .iter()
                        .position(|column| column.name.eq_ignore_ascii_case(name))
                })
                .collect();
            places.filter(|places| !places.is_empty())
        })
        .unwrap_or_default()
}

/// Makes both servers read the same ranges, if conditions mean the same on both. Returns whether
/// they do.
fn align(a: &mut Table, b: &mut Table) -> bool {
    let print = |table: &Table| fingerprint(&String::from_utf8_lossy(&table.create));
    if a.partitions != b.partitions || print(a) != print(b) {
        a.partitions.clear();
        b.partitions.clear();
    }
    let same = a.key.len() == b.key.len()
        && a.key.iter().zip(&b.key).all(|(a, b)| {
            a.name.eq_ignore_ascii_case(&b.name)
                && a.descending == b.descending
                && a.literal == b.literal
        });
    same && !a.key.is_empty()
}
