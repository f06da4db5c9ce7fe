//! Tables: definition, columns, and the key for cutting their rows into ranges.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use refloat_run::Refusal;
use refloat_schema::definition::fingerprint;
use refloat_source::delimited::DelimitedFile;
use refloat_source::native;
use refloat_source::stream::StreamedTable;
use refloat_sqltext::{LexMode, literal, parse_create_table, quote_ident};
use refloat_wire::{Connection, ResultSet, Vendor};

use super::columns::{Column, Described, KeyLiteral, hidden_period};
use super::{Database, GONE, collated, hidden_characters, show_create};
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
    /// The database that it belongs to, unquoted.
    pub database: String,
    /// Name without the database, unquoted.
    pub name: String,
    /// Storage engine, as `information_schema` spells it; empty if unknown.
    pub engine: String,
    /// `CREATE TABLE` as the server shows it.
    pub create: Vec<u8>,
    /// The same with every collation spelled out, so that all servers read it alike.
    pub definition: Vec<u8>,
    /// Columns to read; without generated ones.
    pub columns: Vec<Column>,
    /// Columns that the server computes: they are not read.
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

/// A column by which rows are read in ranges.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    /// As the server spells it, unquoted.
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
    // Definitions come first: they are checked again once all rows of a table have been read, so
    // any change from here on is detected.
    let creates = show_tables(conn, database)?;
    let odd_keys = foreign::read(conn, &schema, &creates).map_err(|error| {
        ReadError::server(
            format!("reading the foreign keys of database {}", database.name),
            error,
        )
    })?;
    let listed = Listed::read(conn, &database.name)?;
    let listed = listed.by_table();
    let mut tables = Vec::with_capacity(database.tables.len());
    for (name, create) in database.tables.iter().zip(creates) {
        let written = odd_keys
            .get(name)
            .map_or(Cow::Borrowed(create.as_slice()), |keys| {
                foreign::mended(&create, keys)
            });
        let names = (database.name.as_str(), name.as_str());
        tables.push(read_table(
            conn,
            options,
            &listed,
            names,
            (&create, &written),
        )?);
    }
    Ok(tables)
}

/// The definitions of the listed tables as the server shows them.
fn show_tables(conn: &mut Connection, database: &Database) -> Result<Vec<Vec<u8>>, ReadError> {
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
    Ok(creates)
}

/// Puts together one table. `create` is its definition as the server shows it, `written` the same
/// with all foreign keys quoted correctly.
fn read_table(
    conn: &mut Connection,
    options: &ReadOptions,
    listed: &ByTable,
    (database, name): (&str, &str),
    (create, written): (&[u8], &[u8]),
) -> Result<Table, ReadError> {
    let vendor = conn.server().vendor;
    let all = listed.columns(name);
    if all.is_empty() || !same_columns(written, &all) {
        return Err(other_columns(conn, (database, name), create, &all));
    }
    let history = listed.is_versioned(name) && !options.no_history;
    let kept = all.iter().filter(|column| column.stored(history));
    let mut columns: Vec<Column> = kept.map(|column| column.column(vendor)).collect();
    if history {
        columns.extend(hidden_period(create, &all));
    }
    let generated = all.iter().filter(|column| column.generated());
    let (key_name, key) = listed.key(name, &all, &columns, vendor);
    let engine = listed.engine(name);
    let rows = listed.rows(name);
    Ok(Table {
        unshown: hidden_characters::of(conn, database, name, &all)?,
        database: database.to_owned(),
        name: name.to_owned(),
        policy: policy(engine, create),
        bytes: listed.bytes(name).max(rows * ROW_BYTES / 4),
        rows,
        engine: engine.to_owned(),
        definition: collated::table(written, listed.collation(name), |name| {
            Described::collation_of(&all, name)
        }),
        create: create.to_vec(),
        columns,
        generated: generated.map(|column| column.column(vendor)).collect(),
        key,
        key_name,
        partitions: listed.partitions(name),
        history,
        numbered: history && all.iter().any(Described::numbers_transactions),
    })
}

/// What `information_schema` says of all tables of a database. The first column of each result is
/// the table name.
struct Listed {
    facts: ResultSet,
    columns: ResultSet,
    keys: ResultSet,
    partitions: ResultSet,
}

impl Listed {
    fn read(conn: &mut Connection, database: &str) -> Result<Self, ReadError> {
        let schema = literal(database);
        let ask = |conn: &mut Connection, query: String| {
            conn.query(query).map_err(|error| {
                ReadError::server(format!("reading the tables of database {database}"), error)
            })
        };
        let facts = ask(
            conn,
            format!(
                "SELECT TABLE_NAME, ENGINE, TABLE_ROWS, DATA_LENGTH, TABLE_TYPE, TABLE_COLLATION FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = {schema}"
            ),
        )?;
        let expression = expression_column(conn);
        let columns = ask(
            conn,
            format!(
                "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA, {expression}, \
                 COLLATION_NAME, COLUMN_DEFAULT FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = {schema} ORDER BY CAST(TABLE_NAME AS BINARY), ORDINAL_POSITION"
            ),
        )?;
        let usable = usable_index(conn);
        let keys = ask(
            conn,
            format!(
                "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME, COLLATION, SUB_PART, NULLABLE \
                 FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {schema} AND NON_UNIQUE = 0{usable} \
                 ORDER BY CAST(TABLE_NAME AS BINARY), INDEX_NAME = 'PRIMARY' DESC, INDEX_NAME, SEQ_IN_INDEX"
            ),
        )?;
        let partitions = ask(
            conn,
            format!(
                "SELECT TABLE_NAME, COALESCE(SUBPARTITION_NAME, PARTITION_NAME) FROM information_schema.PARTITIONS \
                 WHERE TABLE_SCHEMA = {schema} AND PARTITION_NAME IS NOT NULL \
                 ORDER BY CAST(TABLE_NAME AS BINARY), PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION"
            ),
        )?;
        Ok(Self {
            facts,
            columns,
            keys,
            partitions,
        })
    }

    fn by_table(&self) -> ByTable<'_> {
        ByTable {
            facts: by_name(&self.facts),
            columns: groups(&self.columns),
            keys: groups(&self.keys),
            partitions: groups(&self.partitions),
            listed: self,
        }
    }
}

/// How to ask for the expression of a generated column.
fn expression_column(conn: &Connection) -> &'static str {
    // The column exists since MariaDB 10.2.5 and MySQL 5.7.
    let server = conn.server();
    let has_expression = match server.vendor {
        Vendor::MariaDb => server.version >= (10, 2, 5),
        Vendor::MySql => server.version >= (5, 7, 0),
    };
    if has_expression {
        "COALESCE(GENERATION_EXPRESSION, '')"
    } else {
        "''"
    }
}

/// The condition that leaves out indexes hidden from the optimizer, which cannot be forced either:
/// MariaDB 10.6, MySQL 8.0.
fn usable_index(conn: &Connection) -> &'static str {
    let server = conn.server();
    match server.vendor {
        Vendor::MariaDb if server.version >= (10, 6, 0) => " AND IGNORED = 'NO'",
        Vendor::MySql if server.version >= (8, 0, 0) => " AND IS_VISIBLE = 'YES'",
        _ => "",
    }
}

/// [`Listed`], and which of its rows belong to each table.
struct ByTable<'a> {
    listed: &'a Listed,
    facts: HashMap<&'a str, usize>,
    columns: HashMap<&'a str, Range<usize>>,
    keys: HashMap<&'a str, Range<usize>>,
    partitions: HashMap<&'a str, Range<usize>>,
}

impl ByTable<'_> {
    fn fact(&self, table: &str, column: usize) -> Option<&str> {
        self.listed.facts.str(*self.facts.get(table)?, column)
    }

    /// A number that `information_schema.TABLES` estimates; 0 if it does not.
    fn estimate(&self, table: &str, column: usize) -> u64 {
        let row = self.facts.get(table);
        row.and_then(|row| self.listed.facts.u64(*row, column))
            .unwrap_or(0)
    }

    fn engine(&self, table: &str) -> &str {
        self.fact(table, 1).unwrap_or_default()
    }

    fn rows(&self, table: &str) -> u64 {
        self.estimate(table, 2)
    }

    fn bytes(&self, table: &str) -> u64 {
        self.estimate(table, 3)
    }

    /// Whether the server keeps its historical rows.
    fn is_versioned(&self, table: &str) -> bool {
        self.fact(table, 4) == Some("SYSTEM VERSIONED")
    }

    fn collation(&self, table: &str) -> Option<&str> {
        self.fact(table, 5)
    }

    /// All of its columns.
    fn columns(&self, table: &str) -> Vec<Described> {
        let rows = self.columns.get(table).cloned().unwrap_or(0..0);
        rows.map(|row| Described::read(&self.listed.columns, row))
            .collect()
    }

    /// Name and columns of the key by which its rows can be cut into ranges.
    fn key(
        &self,
        table: &str,
        all: &[Described],
        read: &[Column],
        vendor: Vendor,
    ) -> (String, Vec<KeyColumn>) {
        self.keys
            .get(table)
            .map(|rows| usable_key(&self.listed.keys, rows.clone(), all, read, vendor))
            .unwrap_or_default()
    }

    /// Its partitions or, if there are any, subpartitions.
    fn partitions(&self, table: &str) -> Vec<String> {
        let rows = self.partitions.get(table).cloned().unwrap_or(0..0);
        rows.filter_map(|row| self.listed.partitions.str(row, 1))
            .map(str::to_owned)
            .collect()
    }
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
    if print(&now) == print(create) && again.eq(listed.iter().map(Described::name)) {
        hidden_columns(&label)
    } else {
        ReadError::Changed { what: label }
    }
}

fn hidden_columns(label: &str) -> ReadError {
    ReadError::Refused(Refusal {
        reason: format!("columns of {label} are hidden from the account"),
        hint: "Grant it SELECT on the table, or leave the table out with --exclude.".to_owned(),
    })
}

/// Whether a definition has exactly the listed columns. A definition that cannot be parsed is
/// trusted.
fn same_columns(create: &[u8], listed: &[Described]) -> bool {
    parse_create_table(create, LexMode::default()).map_or(true, |table| {
        table
            .columns()
            .map(|column| column.name.as_slice())
            .eq(listed.iter().map(|column| column.name().as_bytes()))
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
fn groups(result: &ResultSet) -> HashMap<&str, Range<usize>> {
    let mut groups: HashMap<&str, Range<usize>> = HashMap::new();
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
    rows: Range<usize>,
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
        let described = all.iter().find(|column| column.name() == name)?;
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
