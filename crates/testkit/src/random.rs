//! Builds random schemas on a server from a seed: tables of every type that the server has, with
//! keys, character sets, partitions, constraints and rows.
//!
//! The same seed builds the same schema on the same server.
//!
//! Statements that a server refuses (such as a key that is too long, or an expression that is not
//! allowed) are skipped and recorded. The generator knows only roughly what each server accepts, so
//! that it also finds cases that nobody thought of.

mod columns;
mod names;
mod tables;
mod values;

use refloat_wire::{Connection, Error};

use crate::oracle::quote;

/// Attempts per table until the server accepts one.
const TRIES: usize = 8;

/// The result of building a schema.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// Statements that the server accepted, in order.
    pub script: Vec<String>,
    /// Number of tables created.
    pub tables: u64,
    /// Number of rows sent. `INSERT IGNORE` drops duplicates among them.
    pub rows: u64,
    /// Statements that the server refused, after its error message.
    pub refused: Vec<String>,
}

impl Built {
    /// The accepted statements as a script for the stock client.
    pub fn text(&self) -> String {
        let mut text = String::from("DELIMITER ;;;\n");
        for statement in &self.script {
            text.push_str(statement);
            text.push_str(";;;\n");
        }
        text
    }
}

/// A deterministic pseudo-random generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that starts at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A number from `from` to `to`, inclusive.
    pub fn within(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// A number from `-end` to `end`, inclusive.
    pub fn signed(&mut self, end: u32) -> i64 {
        i64::from(self.bits() as u32 % (2 * end + 1)) - i64::from(end)
    }

    /// True with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// An element of a list, which must not be empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// What the generator knows about a server.
struct Server {
    mariadb: bool,
    version: (u32, u32),
    /// Pairs of character set and collation, for tables and columns.
    collations: Vec<(String, String)>,
}

impl Server {
    fn ask(conn: &mut Connection) -> Result<Self, Error> {
        let version = conn.query_value("SELECT VERSION()")?.unwrap_or_default();
        let mariadb = version.to_ascii_lowercase().contains("mariadb");
        let mut numbers = version
            .split(|c: char| !c.is_ascii_digit())
            .map(|word| word.parse().unwrap_or(0));
        let numbers = (
            numbers.next().unwrap_or_default(),
            numbers.next().unwrap_or_default(),
        );
        let column = if mariadb {
            "FULL_COLLATION_NAME"
        } else {
            "COLLATION_NAME"
        };
        let found = conn.query(format!(
            "SELECT CHARACTER_SET_NAME, {column} FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY \
             WHERE CHARACTER_SET_NAME NOT IN ('binary', 'filename') ORDER BY 1, 2"
        ))?;
        let text = |row, at| found.str(row, at).unwrap_or_default().to_owned();
        Ok(Self {
            mariadb,
            version: numbers,
            collations: (0..found.len())
                .map(|row| (text(row, 0), text(row, 1)))
                .collect(),
        })
    }

    /// A character set and one of its collations. Favours `utf8mb4`, the most common one.
    fn collation(&self, rng: &mut Rng) -> (String, String) {
        let charset = if rng.chance(40) {
            "utf8mb4"
        } else {
            match rng.pick(&self.collations).0.as_str() {
                // On MariaDB, loads with `--write-path insert` refuse some of its texts.
                "swe7" => "latin1",
                other => other,
            }
        };
        let of_charset: Vec<_> = self
            .collations
            .iter()
            .filter(|(one, _)| one == charset)
            .collect();
        (*rng.pick(&of_charset)).clone()
    }

    fn collate(&self, rng: &mut Rng) -> String {
        let (charset, collation) = self.collation(rng);
        format!(" CHARACTER SET {charset} COLLATE {collation}")
    }
}

/// Builds a database of about `tables` tables. Changes the session of the connection.
///
/// # Errors
/// Errors of the connection, and of the statements that create the database.
pub fn build(conn: &mut Connection, seed: u64, tables: usize) -> Result<Built, Error> {
    let mut rng = Rng::new(seed);
    let server = Server::ask(conn)?;
    let mut built = Built::default();
    // The dump tools would take a leading minus for an option.
    let database = format!("d{}", names::name(&mut rng, 0));
    let must = |conn: &mut Connection, sql: String, built: &mut Built| {
        conn.exec(&sql)?;
        built.script.push(sql);
        Ok::<(), Error>(())
    };
    for sql in [
        "SET NAMES utf8mb4".to_owned(),
        "SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', foreign_key_checks = 0"
            .to_owned(),
        format!(
            "CREATE DATABASE {}{}",
            quote(&database),
            server.collate(&mut rng)
        ),
        format!("USE {}", quote(&database)),
    ] {
        must(conn, sql, &mut built)?;
    }
    let mut parents: Vec<tables::Parent> = Vec::new();
    for number in 0..tables {
        for _ in 0..TRIES {
            let table = tables::table(&mut rng, &server, number, &parents);
            if !attempt(conn, table.create.clone(), &mut built)? {
                continue;
            }
            built.tables += 1;
            for _ in 0..table.rows {
                let sql = table.insert(&mut rng);
                if attempt(conn, sql, &mut built)? {
                    built.rows += 1;
                }
            }
            for sql in table.afterwards(&mut rng, server.mariadb) {
                attempt(conn, sql, &mut built)?;
            }
            parents.extend(table.parent());
            break;
        }
    }
    Ok(built)
}

/// Runs a statement that the server may refuse. Returns whether it was accepted.
fn attempt(conn: &mut Connection, sql: String, built: &mut Built) -> Result<bool, Error> {
    match conn.exec(&sql) {
        Ok(_) => {
            built.script.push(sql);
            Ok(true)
        }
        Err(error) if error.server_code().is_some() && !error.is_lost_connection() => {
            built.refused.push(format!("{error}: {sql}"));
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
