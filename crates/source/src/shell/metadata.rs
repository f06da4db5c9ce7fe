//! The Shell's metadata files. Only the fields in use are kept; everything else in a file is
//! skipped without taking memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// `@.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Dump {
    pub dumper: Option<String>,
    pub source: Source,
    pub redirected_dump_dir: Option<String>,
    pub tz_utc: Option<bool>,
    pub schemas: Names,
    pub basenames: Of<String>,
    pub capabilities: Option<Vec<Capability>>,
}

/// The server that was dumped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Source {
    /// `mariadb` or `mysql`; only MariaDB Shell writes it.
    pub vendor: Option<String>,
}

/// A feature that a reader of the dump must know.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Capability {
    pub id: String,
}

/// `@.done.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Done {
    /// Number of rows, by schema and table.
    pub table_rows: Of<Of<u64>>,
    /// Size of the text in bytes, by file name.
    pub chunk_file_bytes: Of<u64>,
}

/// `SCHEMA.json`. Every `includes_…` flag that is absent counts as true.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Schema {
    pub includes_ddl: Option<bool>,
    pub includes_views_ddl: Option<bool>,
    pub includes_data: Option<bool>,
    pub multifile_ddl: Option<bool>,
    pub tables: Names,
    pub views: Names,
    pub events: Names,
    pub functions: Names,
    pub procedures: Names,
    pub libraries: Names,
    pub basenames: Of<String>,
}

/// `SCHEMA@TABLE.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Table {
    pub options: Options,
    pub triggers: Names,
    pub includes_data: Option<bool>,
    pub extension: Option<String>,
    pub chunking: Option<bool>,
    /// By partition name.
    pub basenames: Of<String>,
}

/// The text format of a table's rows.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Options {
    pub columns: Names,
    pub decode_columns: Of<String>,
    pub default_character_set: Option<String>,
    pub character_set: Option<String>,
    pub fields_terminated_by: Option<String>,
    pub fields_enclosed_by: Option<String>,
    pub fields_escaped_by: Option<String>,
    pub lines_terminated_by: Option<String>,
}

/// A JSON object as a map; `null` gives an empty one.
#[derive(Debug)]
pub struct Of<T>(pub BTreeMap<String, T>);

impl<T> Default for Of<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Of<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let found = Option::<BTreeMap<String, T>>::deserialize(from)?;
        Ok(Self(found.unwrap_or_default()))
    }
}

/// A list of names, in order and without duplicates.
#[derive(Debug, Default)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Once<'de>(PhantomData<&'de ()>);

        impl<'de> Visitor<'de> for Once<'de> {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names")
            }

            fn visit_unit<E>(self) -> Result<Names, E> {
                Ok(Names::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
                let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
                while let Some(name) = list.next_element::<String>()? {
                    if seen.insert(name.clone()) {
                        names.push(name);
                    }
                }
                Ok(Names(names))
            }
        }

        from.deserialize_any(Once(PhantomData))
    }
}
