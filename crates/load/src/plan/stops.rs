//! Finds what a load would stop at before anything is changed, for both the plan and the load.

use std::collections::BTreeMap;

use refloat_run::{Cancel, Refusal};
use refloat_schema::definition::{as_seen_by, is_ignored_by, written_for};
use refloat_sqltext::ddl::parse_create_table;
use refloat_sqltext::token::{Token, tokens};
use refloat_sqltext::{LexMode, SqlMode, StatementKind, classify, head, quote_ident};
use refloat_wire::Connection;
use refloat_wire::codes::WRONG_VALUE_FOR_VAR;

use super::survey::{Definition, Found, Survey};
use crate::collation::{mapped, substitutes};
use crate::error::LoadError;
use crate::open_source::OpenSource;
use crate::options::{LoadOptions, OnError};
use crate::outline::{Named, NamedPlace, Outline};

/// Unknown collation, and unknown character set.
const UNKNOWN: [u16; 2] = [1273, 1115];
/// A server's errors for a definition that it cannot read: `ER_PARSE_ERROR`,
/// `ER_UNKNOWN_STORAGE_ENGINE`, MariaDB's `ER_UNKNOWN_DATA_TYPE` and `ER_UNKNOWN_OPTION`. Other
/// errors (no such database, no privilege) may no longer apply when the load gets there.
const UNREADABLE: [u16; 4] = [1064, 1286, 4161, 1911];
/// The `sql_mode` word that makes a server refuse an engine that it does not have.
const NO_SUBSTITUTION: &[u8] = b"NO_ENGINE_SUBSTITUTION";
/// Largest definition in bytes whose hexadecimal text fits any server's `max_allowed_packet`.
const DEFINITION_MAX: usize = 256 << 10;
/// How many definitions a refusal names at most.
const REFUSALS_MAX: usize = 100;

/// What a load would stop at. If the quick look at the source (`outline`) found a sign of it, this
/// reads the whole source, as a plan does, and that decides.
///
/// # Errors
/// Any error that prevents reading the source or the server, and [`LoadError::Interrupted`].
pub fn stops(
    options: &LoadOptions,
    source: &OpenSource,
    outline: Option<&Outline>,
    conn: &mut Connection,
    cancel: &Cancel,
) -> Result<Vec<Refusal>, LoadError> {
    let Some(outline) = outline else {
        return Ok(Vec::new());
    };
    let server = conn.server().into();
    let mut conditional = outline.conditional.iter();
    let is_suspect =
        outline.suspect || conditional.any(|(text, mode)| !is_ignored_by(server, text, *mode));
    let suspect = outline.unmatched || is_suspect && options.on_error == OnError::Stop;
    if !suspect && unknown(options, conn, outline)?.is_empty() {
        return Ok(Vec::new());
    }
    let mut survey = Survey::new(options, &source.name(), server, cancel);
    match source {
        OpenSource::Stream(input) => {
            let Some(mut input) = input.reopen()? else {
                return Ok(Vec::new());
            };
            survey.file(&mut input)?;
        }
        OpenSource::Layout(layout) => survey.layout(layout)?,
    }
    let mut found = survey.end();
    of_found(options, &mut found, conn)
}

/// What a load would stop at, for a source that was read to its end.
pub fn of_found(
    options: &LoadOptions,
    found: &mut Found,
    conn: &mut Connection,
) -> Result<Vec<Refusal>, LoadError> {
    let mut stops = std::mem::take(&mut found.stops);
    stops.extend(unknown(options, conn, &found.outline)?);
    stops.extend(unreadable(options, conn, &found.definitions)?);
    Ok(stops)
}

/// Definitions of tables that the server cannot read, because of types, engines or words that it
/// does not know. It is asked to prepare them, which runs nothing.
fn unreadable(
    options: &LoadOptions,
    conn: &mut Connection,
    definitions: &[Definition],
) -> Result<Vec<Refusal>, LoadError> {
    if options.on_error == OnError::Continue || definitions.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error| LoadError::server("having the server read definitions", error);
    let session_mode = conn
        .query_value("SELECT @@SESSION.sql_mode")
        .map_err(failed)?;
    let session_mode = session_mode.unwrap_or_default();
    let found = read_each(options, conn, definitions, &session_mode).map_err(failed);
    conn.exec(format!(
        "SET SESSION sql_mode = {}",
        hex(session_mode.as_bytes())
    ))
    .map_err(failed)?;
    found
}

fn read_each(
    options: &LoadOptions,
    conn: &mut Connection,
    definitions: &[Definition],
    session_mode: &str,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    let mut current = None;
    for one in definitions {
        let sql_mode = match &one.sql_mode {
            SqlMode::Own => session_mode.to_owned(),
            SqlMode::Set(text) => options.mapped_sql_modes(&String::from_utf8_lossy(text)),
            SqlMode::Unknown => continue,
        };
        if one.text.len() > DEFINITION_MAX {
            continue;
        }
        if current.as_ref() != Some(&sql_mode) {
            let set = format!("SET SESSION sql_mode = {}", hex(sql_mode.as_bytes()));
            if refused(conn.exec(set))?.is_some() {
                // An unknown word is reported where it is set.
                continue;
            }
            current = Some(sql_mode.clone());
        }
        let text = mapped(options, &one.text, one.mode);
        let text = written_for(&text, one.mode, conn.server().into()).text;
        let text = as_seen_by(&text, one.mode, Some(conn.server().into()));
        let text = placed(&text, one.mode);
        let kept = format!("SET @refloat_definition = {}", hex(&text));
        if refused(conn.exec(kept))?.is_some() {
            // Text in another character set.
            continue;
        }
        let read = conn.exec("PREPARE refloat_definition FROM @refloat_definition");
        let found = if let Some(error) = refused(read)? {
            Some(error)
        } else {
            refused(conn.exec("DEALLOCATE PREPARE refloat_definition"))?;
            lacks_engine(conn, &text, one.mode, sql_mode.as_bytes())?
        };
        let Some(error) = found else { continue };
        if error
            .server_code()
            .is_some_and(|code| UNREADABLE.contains(&code))
        {
            let (line, head) = (one.line, head(&one.text));
            refusals.push(Refusal {
                reason: format!("line {line}: {error}: {head}"),
                hint: "The server has no such type, engine or option. Write the definition as this server takes it, or load everything else with --on-error continue, which lists what was refused."
                    .to_owned(),
            });
        }
        if refusals.len() >= REFUSALS_MAX {
            break;
        }
    }
    Ok(refusals)
}

/// The server's error for the engine of a definition, if it may not substitute another engine.
/// MariaDB checks the engine only when the definition runs.
fn lacks_engine(
    conn: &mut Connection,
    text: &[u8],
    mode: LexMode,
    sql_mode: &[u8],
) -> Result<Option<refloat_wire::Error>, refloat_wire::Error> {
    let strict = memchr::memmem::find(&sql_mode.to_ascii_uppercase(), NO_SUBSTITUTION).is_some();
    let parsed = parse_create_table(text, mode).ok().filter(|_| strict);
    let Some(engine) = parsed.and_then(|table| table.option("ENGINE").map(<[u8]>::to_vec)) else {
        return Ok(None);
    };
    let set = format!("SET SESSION default_storage_engine = {}", hex(&engine));
    let found = refused(conn.exec(set))?;
    conn.exec("SET SESSION default_storage_engine = DEFAULT")?;
    Ok(found)
}

/// A definition with a database added to its table: no server prepares one without a database, and
/// the dump's own may not exist yet.
fn placed(text: &[u8], mode: LexMode) -> Vec<u8> {
    let StatementKind::CreateTable { table, .. } = classify(text, mode) else {
        return text.to_vec();
    };
    let list: Vec<Token> = tokens(text, mode).code().collect();
    let words = list.iter().position(|token| token.is(text, "TABLE"));
    let words = words.filter(|_| table.database.is_none());
    let Some(mut at) = words.map(|at| at + 1) else {
        return text.to_vec();
    };
    if list.get(at).is_some_and(|token| token.is(text, "IF")) {
        at += 3;
    }
    let mut placed = text.to_vec();
    if let Some(name) = list.get(at) {
        let start = name.range.start;
        placed.splice(start..start, *b"refloat_load.");
    }
    placed
}

/// The server's refusal, if the error is one.
fn refused<T>(
    result: Result<T, refloat_wire::Error>,
) -> Result<Option<refloat_wire::Error>, refloat_wire::Error> {
    match result {
        Ok(_) => Ok(None),
        Err(error) if error.is_lost_connection() || error.server_code().is_none() => Err(error),
        Err(error) => Ok(Some(error)),
    }
}

/// A literal that means the same under every `sql_mode`.
fn hex(text: &[u8]) -> String {
    format!("_utf8mb4 x'{}'", refloat_source::manifest::hex(text))
}

/// Collations, character sets and SQL modes that the server does not have.
fn unknown(
    options: &LoadOptions,
    conn: &mut Connection,
    outline: &Outline,
) -> Result<Vec<Refusal>, LoadError> {
    let mut refusals = Vec::new();
    if options.on_error == OnError::Continue {
        return Ok(refusals);
    }
    let failed = |error| LoadError::server("asking for a name of the dump", error);
    let mut modes: BTreeMap<(Option<u64>, &str), Vec<UnknownMode>> = BTreeMap::new();
    for ((named, name), place) in &outline.names {
        let mapped = match named {
            Named::SqlMode => options.mapped_sql_mode(name),
            _ => options.mapped_collation(name),
        };
        let Some(words) = lacks(conn, *named, mapped.unwrap_or(name)).map_err(failed)? else {
            continue;
        };
        if *named == Named::SqlMode {
            let statement = (place.line, place.head.as_str());
            modes.entry(statement).or_default().push(UnknownMode {
                name,
                mapped,
                place,
                words,
            });
        } else {
            refusals.push(refusal(conn, *named, name, mapped, (place, &words))?);
        }
    }
    refusals.extend(modes.values().filter_map(|modes| refused_modes(modes)));
    Ok(refusals)
}

/// A word of `sql_mode` that the server does not know.
struct UnknownMode<'a> {
    name: &'a str,
    mapped: Option<&'a str>,
    place: &'a NamedPlace,
    /// The server's error.
    words: String,
}

/// The refusal of the words that one statement is the first to name.
fn refused_modes(modes: &[UnknownMode]) -> Option<Refusal> {
    let (first, others) = modes.split_first()?;
    let others = others.iter().fold(String::new(), |list, mode| {
        list + ", nor of '" + mode.mapped.unwrap_or(mode.name) + "'"
    });
    let maps: Vec<String> = modes
        .iter()
        .filter(|mode| mode.mapped.is_none())
        .map(|mode| format!("--map-sql-mode {}=", mode.name))
        .collect();
    let mut hints = Vec::new();
    if !maps.is_empty() {
        let maps = maps.join(" ");
        hints.push(format!(
            "Leave out what the server does not know with {maps}, or write another word after the =."
        ));
    }
    hints.extend(modes.iter().filter_map(|UnknownMode { name, mapped, .. }| {
        mapped
            .map(|to| format!("The server does not know what --map-sql-mode maps {name} to: {to}."))
    }));
    let (at, head, words) = (first.place.at(), &first.place.head, &first.words);
    Some(Refusal {
        reason: format!("{at}{words}{others}: {head}"),
        hint: hints.join(" "),
    })
}

/// The server's error if it does not know a name. It is asked to use the name, because lists omit
/// names that the server understands as others.
fn lacks(
    conn: &mut Connection,
    named: Named,
    name: &str,
) -> Result<Option<String>, refloat_wire::Error> {
    let asked = match named {
        Named::Collation => format!("SELECT _utf8'' COLLATE {}", quote_ident(name)),
        Named::Charset => format!("SELECT CONVERT('' USING {})", quote_ident(name)),
        Named::SqlMode => return lacks_mode(conn, name),
    };
    match conn.query(asked) {
        Ok(_) => Ok(None),
        Err(error) if error.is_lost_connection() => Err(error),
        // A collation of another character set is refused too, but known.
        Err(error) => {
            let unknown = error
                .server_code()
                .is_some_and(|code| UNKNOWN.contains(&code));
            Ok(unknown.then(|| error.to_string()))
        }
    }
}

/// The server's error for words of `sql_mode`, which is left as it was.
fn lacks_mode(conn: &mut Connection, words: &str) -> Result<Option<String>, refloat_wire::Error> {
    let before = conn.query_value("SELECT @@SESSION.sql_mode")?;
    let set = |words: &str| format!("SET SESSION sql_mode = {}", hex(words.as_bytes()));
    let found = refused(conn.exec(set(words)))?;
    conn.exec(set(&before.unwrap_or_default()))?;
    let unknown = found.filter(|error| error.server_code() == Some(WRONG_VALUE_FOR_VAR));
    Ok(unknown.map(|error| error.to_string()))
}

fn refusal(
    conn: &mut Connection,
    named: Named,
    name: &str,
    mapped: Option<&str>,
    (place, words): (&NamedPlace, &str),
) -> Result<Refusal, LoadError> {
    let (at, head) = (place.at(), &place.head);
    if mapped.is_some() {
        return Ok(Refusal {
            reason: format!("{at}{words} (to which --map-collation maps {name}): {head}"),
            hint: "SHOW COLLATION and SHOW CHARACTER SET list those that the server has."
                .to_owned(),
        });
    }
    let list = match named {
        Named::Collation => substitutes(name),
        // A SET determines how the bytes of the dump are read: another name would change the rows.
        _ if place.session => Vec::new(),
        _ => vec!["utf8mb4".to_owned()],
    };
    let mut other = None;
    for candidate in list {
        let lacking = lacks(conn, named, &candidate)
            .map_err(|error| LoadError::server("asking for a collation", error))?;
        if lacking.is_none() {
            other = Some(candidate);
            break;
        }
    }
    Ok(Refusal {
        reason: format!("{at}{words}: {head}"),
        hint: match (other, named) {
            (Some(other), Named::Collation) => format!("Replace it with another collation: \
                --map-collation {name}={other}. SHOW COLLATION lists those that the server has."),
            (Some(other), _) => format!("Replace it with another character set: \
                --map-collation {name}={other}, and likewise for each of its collations. SHOW \
                CHARACTER SET lists those that the server has."),
            (None, _) => "Dump again with one that the server has (SHOW CHARACTER SET, SHOW COLLATION), or load into a server that has it.".to_owned(),
        },
    })
}
