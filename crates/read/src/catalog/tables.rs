//! Tables: definition, columns, and the key for cutting their rows into ranges.

use std::borrow::Cow;
use std::collections::HashMap;

use refloat_schema::definition::fingerprint;
use refloat_source::delimited::DelimitedFile;
use refloat_source::native;
use refloat_source::stream::StreamedTable;
use refloat_sqltext::{LexMode, literal, parse_create_table, quote_ident};
use refloat_wire::{Connection, ResultSet, Vendor};

use super::columns::{Column, Described, KeyLiteral, hidden_period};
use super::{Database, GONE, collated, show_create, unshown};
use crate::error::ReadError;
use crate::foreign;
use crate::options::ReadOptions;

/// Assumed bytes per row. `Table::bytes` is at least a quarter of this for each estimated row.
const ROW_BYTES: u64 = 100;

/// What happens to a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPolicy {
    /// Read them in the snapshot.
    Snapshot,
    /// The engine keeps no old row versions: read them while writers are stopped.
    Locked,
    /// The rows live elsewhere, or nowhere: take only the definition.
    Elsewhere,
}

/// A table to dump.
#[derive(Debug, Clone)]
pub struct Table {
    /// Database name.
    pub database: String,
    /// Table name.
    pub name: String,
    /// Storage engine, as `information_schema` spells it; empty if unknown.
    pub engine: String,
    /// `CREATE TABLE` as the server shows it.
    pub create: Vec<u8>,
    /// The same with every collation spelled out, so that all servers read it alike.
    pub definition: Vec<u8>,
    /// Columns to read; without generated ones.
    pub columns: Vec<Column>,
    /// Generated columns.
    pub generated: Vec<Column>,
    /// The key by which the rows can be cut into ranges; empty if there is none.
    pub key: Vec<KeyColumn>,
    /// Index name of that key; empty if there is none.
    pub key_name: String,
    /// Partitions or, if there are any, subpartitions.
    pub partitions: Vec<String>,
    /// Whether historical rows belong to the dump.
    pub history: bool,
    /// Whether historical rows carry transaction IDs, which only a server may assign.
    pub numbered: bool,
    /// What happens to its rows.
    pub policy: DataPolicy,
    /// Estimated size of the rows in bytes.
    pub bytes: u64,
    /// Estimated number of rows.
    pub rows: u64,
    /// Notes on what the server does not show of its definition.
    pub unshown: Vec<String>,
}

/// A column of a key.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    /// Column name.
    pub name: String,
    /// Index among `Table::columns`.
    pub index: usize,
    /// Whether the key sorts this column in descending order.
    pub descending: bool,
    /// How conditions spell its values.
    pub literal: KeyLiteral,
}

impl Table {
    /// `` `database`.`table` ``.
    pub fn quoted(&self) -> String {
        format!(
            "{}.{}",
            quote_ident(&self.database),
            quote_ident(&self.name)
        )
    }

    /// Whether its range borders contain text.
    pub fn has_text_in_key(&self) -> bool {
        let is_text = |column: &KeyColumn| matches!(column.literal, KeyLiteral::Text { .. });
        self.key.iter().any(is_text)
    }

    /// The text format of its rows.
    pub fn form(&self) -> DelimitedFile {
        let columns = self
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column.load));
        native::form(columns, self.history)
    }

    /// The table as it is announced to a stream, with or without rows.
    pub fn streamed(&self, data: bool) -> StreamedTable {
        StreamedTable {
            database: self.database.clone(),
            table: self.name.clone(),
            bytes: self.bytes,
            rows: self.rows,
            form: self.form(),
            data: data && self.policy != DataPolicy::Elsewhere,
        }
    }

    /// `database.table`, for messages.
    pub fn label(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }
}

/// `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`.
const DENIED: &[u16] = &[1142, 1143];

/// Reads everything about the listed tables of a database.
pub fn read_tables(
    conn: &mut Connection,
    options: &ReadOptions,
    database: &Database,
) -> Result<Vec<Table>, ReadError> {
    let schema = literal(&database.name);
    let ask = |conn: &mut Connection, query: String| {
        conn.query(query).map_err(|error| {
            ReadError::server(
                format!("reading the tables of database {}", database.name),
                error,
            )
        })
    };
    // Definitions come first: they are checked again once all rows of a table have been read, so
    // any change from here on is detected.
    let mut creates = Vec::with_capacity(database.tables.len());
    for name in &database.tables {
        let label = format!("table {}.{name}", database.name);
        let statement = format!(
            "SHOW CREATE TABLE {}.{}",
            quote_ident(&database.name),
            quote_ident(name)
        );
        creates.push(show_create(conn, &label, &statement, &["Create Table"])?.text);
    }
    let odd_keys = foreign::read(conn, &schema, &creates).map_err(|error| {
        ReadError::server(
            format!("reading the foreign keys of database {}", database.name),
            error,
        )
    })?;
    let facts = ask(
        conn,
        format!(
            "SELECT TABLE_NAME, ENGINE, TABLE_ROWS, DATA_LENGTH, TABLE_TYPE, TABLE_COLLATION FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = {schema}"
        ),
    )?;
    let facts_of = by_name(&facts);
    // The column exists since MariaDB 10.2.5 and MySQL 5.7.
    let server = conn.server();
    let has_expression = match server.vendor {
        Vendor::MariaDb => server.version >= (10, 2, 5),
        Vendor::MySql => server.version >= (5, 7, 0),
    };
    let expression = if has_expression {
        "COALESCE(GENERATION_EXPRESSION, '')"
    } else {
        "''"
    };
    // An index hidden from the optimizer cannot be forced either: MariaDB 10.6, MySQL 8.0.
    let usable = match server.vendor {
        Vendor::MariaDb if server.version >= (10, 6, 0) => " AND IGNORED = 'NO'",
        Vendor::MySql if server.version >= (8, 0, 0) => " AND IS_VISIBLE = 'YES'",
        _ => "",
    };
    let columns = ask(
        conn,
        format!(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, EXTRA, {expression}, \
             CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_DEFAULT FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA = {schema} ORDER BY CAST(TABLE_NAME AS BINARY), ORDINAL_POSITION"
        ),
    )?;
    let columns_of = groups(&columns);
    let keys = ask(
        conn,
        format!(
            "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME, COLLATION, SUB_PART, NULLABLE \
             FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {schema} AND NON_UNIQUE = 0{usable} \
             ORDER BY CAST(TABLE_NAME AS BINARY), INDEX_NAME = 'PRIMARY' DESC, INDEX_NAME, SEQ_IN_INDEX"
        ),
    )?;
    let keys_of = groups(&keys);
    let partitions = ask(
        conn,
        format!(
            "SELECT TABLE_NAME, COALESCE(SUBPARTITION_NAME, PARTITION_NAME) FROM information_schema.PARTITIONS \
             WHERE TABLE_SCHEMA = {schema} AND PARTITION_NAME IS NOT NULL \
             ORDER BY CAST(TABLE_NAME AS BINARY), PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION"
        ),
    )?;
    let partitions_of = groups(&partitions);
    let vendor = conn.server().vendor;
    let mut tables = Vec::with_capacity(database.tables.len());
    for (name, create) in database.tables.iter().zip(creates) {
        let name = name.as_str();
        let mine = columns_of.get(name).cloned().unwrap_or(0..0);
        let all: Vec<Described> = mine.map(|row| Described::read(&columns, row)).collect();
        let written = odd_keys
            .get(name)
            .map_or(Cow::Borrowed(create.as_slice()), |keys| {
                foreign::mended(&create, keys)
            });
        if all.is_empty() || !same_columns(&written, &all) {
            return Err(other_columns(conn, (&database.name, name), &create, &all));
        }
        let fact = facts_of.get(name).copied();
        let number = |column| fact.and_then(|row| facts.u64(row, column)).unwrap_or(0);
        let engine = fact
            .and_then(|row| facts.str(row, 1))
            .unwrap_or_default()
            .to_owned();
        let versioned = fact.and_then(|row| facts.str(row, 4)) == Some("SYSTEM VERSIONED");
        let history = versioned && !options.no_history;
        let numbered = history && all.iter().any(Described::numbers_transactions);
        let kept = all.iter().filter(|column| column.stored(history));
        let mut read: Vec<Column> = kept.map(|column| column.column(vendor)).collect();
        let generated = all.iter().filter(|column| column.generated());
        let generated = generated.map(|column| column.column(vendor)).collect();
        if history {
            read.extend(hidden_period(&create, &all));
        }
        let (key_name, key) = keys_of
            .get(name)
            .map(|rows| usable_key(&keys, rows.clone(), &all, &read, vendor))
            .unwrap_or_default();
        let rows = number(2);
        let unshown = unshown::of(conn, &database.name, name, &all)?;
        tables.push(Table {
            unshown,
            database: database.name.clone(),
            name: name.to_owned(),
            policy: policy(&engine, &create),
            bytes: number(3).max(rows * ROW_BYTES / 4),
            rows,
            engine,
            definition: collated::table(&written, fact.and_then(|row| facts.str(row, 5)), |name| {
                Described::collation(&all, name)
            }),
            create: create.clone(),
            columns: read,
            generated,
            key,
            key_name,
            partitions: partitions_of
                .get(name)
                .map(|rows| {
                    rows.clone()
                        .filter_map(|row| partitions.str(row, 1))
                        .map(str::to_owned)
                        .collect()
                })
                .unwrap_or_default(),
            history,
            numbered,
        });
    }
    Ok(tables)
}

/// Why the listed columns of a table differ from its definition: it changed in between, or some
/// columns are hidden from the account.
fn other_columns(
    conn: &mut Connection,
    (database, name): (&str, &str),
    create: &[u8],
    listed: &[Described],
) -> ReadError {
    let label = format!("table {database}.{name}");
    let quoted = format!("{}.{}", quote_ident(database), quote_ident(name));
    // A single statement opens the table once, so its result is consistent.
    let shown = match conn.query(format!("SHOW COLUMNS FROM {quoted}")) {
        Ok(columns) => columns,
        Err(error) => {
            return match error.server_code() {
                Some(code) if GONE.contains(&code) => ReadError::Changed { what: label },
                Some(code) if DENIED.contains(&code) => hidden_columns(&label),
                _ => ReadError::server(format!("reading the columns of {label}"), error),
            };
        }
    };
    let statement = format!("SHOW CREATE TABLE {quoted}");
    let now = match show_create(conn, &label, &statement, &["Create Table"]) {
        Ok(now) => now.text,
        Err(error) => return error,
    };
    let print = |text: &[u8]| fingerprint(&String::from_utf8_lossy(text));
    let again = (0..shown.len()).map(|row| shown.str(row, 0).unwrap_or_default());
    if print(&now) == print(create) && again.eq(listed.iter().map(|column| column.name.as_str())) {
        hidden_columns(&label)
    } else {
        ReadError::Changed { what: label }
    }
}

fn hidden_columns(label: &str) -> ReadError {
    ReadError::Refused {
        reason: format!("columns of {label} are hidden from the account"),
        hint: "Grant it SELECT on the table, or leave the table out with --exclude.".to_owned(),
    }
}

/// Whether a definition has exactly the listed columns. A definition that cannot be parsed is
/// trusted.
fn same_columns(create: &[u8], listed: &[Described]) -> bool {
    parse_create_table(create, LexMode::default()).map_or(true, |table| {
        table
            .columns()
            .map(|column| column.name.as_slice())
            .eq(listed.iter().map(|column| column.name.as_bytes()))
    })
}

/// Row numbers by the table name in the first column.
fn by_name(result: &ResultSet) -> HashMap<&str, usize> {
    (0..result.len())
        .filter_map(|row| Some((result.str(row, 0)?, row)))
        .collect()
}

/// Row ranges of a sorted result by the table name in the first column. The result must be sorted
/// by the bytes of that name: otherwise names that differ only in case come interleaved.
fn groups(result: &ResultSet) -> HashMap<&str, std::ops::Range<usize>> {
    let mut groups: HashMap<&str, std::ops::Range<usize>> = HashMap::new();
    for row in 0..result.len() {
        if let Some(name) = result.str(row, 0) {
            groups
                .entry(name)
                .and_modify(|range| range.end = row + 1)
                .or_insert(row..row + 1);
        }
    }
    groups
}

/// The first key whose order conditions can follow; the primary key comes first.
fn usable_key(
    keys: &ResultSet,
    rows: std::ops::Range<usize>,
    all: &[Described],
    read: &[Column],
    vendor: Vendor,
) -> (String, Vec<KeyColumn>) {
    let mut by_key: Vec<(String, Vec<usize>)> = Vec::new();
    for row in rows {
        let name = keys.str(row, 1).unwrap_or_default();
        match by_key.last_mut() {
            Some((last, rows)) if last == name => rows.push(row),
            _ => by_key.push((name.to_owned(), vec![row])),
        }
    }
    let column = |row: usize| -> Option<KeyColumn> {
        let name = keys.str(row, 4)?;
        let described = all.iter().find(|column| column.name == name)?;
        if described.nullable || keys.bytes(row, 6).is_some() {
            return None;
        }
        Some(KeyColumn {
            index: read.iter().position(|column| column.name == name)?,
            name: name.to_owned(),
            descending: keys.str(row, 5) == Some("D"),
            literal: described.literal(vendor)?,
        })
    };
    by_key
        .into_iter()
        .find_map(|(name, rows)| {
            let columns: Option<Vec<KeyColumn>> = rows.into_iter().map(column).collect();
            Some((name, columns?))
        })
        .unwrap_or_default()
}

/// What happens to the rows of a table with this engine.
fn policy(engine: &str, create: &[u8]) -> DataPolicy {
    match engine.to_ascii_lowercase().as_str() {
        "innodb" | "rocksdb" | "tokudb" | "ndbcluster" | "columnstore" => DataPolicy::Snapshot,
        // Rows on other servers, in files or in other tables, or no rows at all.
        "federated" | "spider" | "connect" | "blackhole" | "mrg_myisam" | "oqgraph" | "sphinx"
        | "s3" => DataPolicy::Elsewhere,
        "" if memchr::memmem::find(create, b"ENGINE=InnoDB").is_some() => DataPolicy::Snapshot,
        _ => DataPolicy::Locked,
    }
}
