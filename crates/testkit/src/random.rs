//! Random schemas: tables of every type that a server has, with keys, character sets, partitions, constraints and rows, built
//! on the server from a seed. The same seed builds the same schema on the same server.
//!
//! What a server refuses (a key that is too long, an expression that it does not allow) is left out and counted: the generator
//! knows only roughly what each server takes, so that it also finds what nobody thought of.

mod columns;
mod names;
mod tables;
mod values;

use refloat_wire::{Connection, Error};

use crate::oracle::quote;

/// Tries for one table until the server takes one.
const TRIES: usize = 8;

/// What was built.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// The statements that the server took, in order.
    pub script: Vec<String>,
    /// Tables that are there.
    pub tables: u64,
    /// Rows that were sent; duplicates among them are not there.
    pub rows: u64,
    /// Statements that the server refused, with its words.
    pub refused: Vec<String>,
}

impl Built {
    /// The statements as a script for the stock client.
    pub fn text(&self) -> String {
        let mut text = String::from("DELIMITER ;;;\n");
        for statement in &self.script {
            text.push_str(statement);
            text.push_str(";;;\n");
        }
        text
    }
}

/// Numbers that look random and are the same for the same seed (the step of `SplitMix64`).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Begins at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A number from `from` to `to`, both included.
    pub fn within(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// A number from `-end` to `end`.
    pub fn signed(&mut self, end: u32) -> i64 {
        i64::from(self.bits() as u32 % (2 * end + 1)) - i64::from(end)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// What the generator knows of a server.
struct Server {
    mariadb: bool,
    version: (u32, u32),
    /// Character set and collation, for tables and columns.
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

    /// A character set with one of its collations; every second time the one that people use.
    fn collation(&self, rng: &mut Rng) -> (String, String) {
        let charset = if rng.chance(40) {
            "utf8mb4"
        } else {
            match rng.pick(&self.collations).0.as_str() {
                // Loads with `--write-path insert` refuse some of its texts on MariaDB.
                "swe7" => "latin1",
                other => other,
            }
        };
        let own: Vec<_> = self
            .collations
            .iter()
            .filter(|(one, _)| one == charset)
            .collect();
        (*rng.pick(&own)).clone()
    }

    /// ` CHARACTER SET x COLLATE y`.
    fn collate(&self, rng: &mut Rng) -> String {
        let (charset, collation) = self.collation(rng);
        format!(" CHARACTER SET {charset} COLLATE {collation}")
    }
}

/// Builds a database of about `tables` tables; the connection's session is changed for it.
///
/// # Errors
/// Those of the connection, and of statements that no server refuses.
pub fn build(conn: &mut Connection, seed: u64, tables: usize) -> Result<Built, Error> {
    let mut rng = Rng::new(seed);
    let server = Server::ask(conn)?;
    let mut built = Built::default();
    // A minus at its beginning would be an option of the dump tools.
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

/// Runs a statement that the server may refuse; whether it took it.
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
