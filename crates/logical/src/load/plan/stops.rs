//! What a load would stop at, found before anything is touched, by the plan and by the load alike.

use refloat_run::Cancel;
use refloat_sqltext::quote_ident;
use refloat_wire::Connection;

use super::survey::{Found, Survey};
use crate::load::collation::substitutes;
use crate::load::error::{LoadError, Refusal};
use crate::load::opened::Opened;
use crate::load::options::{LoadOptions, OnError};
use crate::load::outline::{CharsetPlace, Named, Outline};
use crate::source::cutter::Ends;

/// Unknown collation, and unknown character set.
const UNKNOWN: [u16; 2] = [1273, 1115];

/// What a load would stop at, where the quick look over the source (`outline`) has found a sign of it: then all of the source is read, as
/// a plan does, and that decides.
///
/// # Errors
/// What keeps the source or the server from being read, and [`LoadError::Interrupted`].
pub fn stops(
    options: &LoadOptions,
    source: &Opened,
    outline: Option<&Outline>,
    conn: &mut Connection,
    cancel: &Cancel,
) -> Result<Vec<Refusal>, LoadError> {
    let Some(outline) = outline else {
        return Ok(Vec::new());
    };
    let suspect = outline.unmatched || outline.suspect && options.on_error == OnError::Stop;
    if !suspect && unknown(options, conn, outline)?.is_empty() {
        return Ok(Vec::new());
    }
    let mut survey = Survey::new(options, &source.name(), cancel);
    match source {
        Opened::Stream(input) => {
            let Some(mut input) = input.reopen()? else {
                return Ok(Vec::new());
            };
            survey.read(&mut input, Ends::Client)?;
        }
        Opened::Layout(layout) => survey.layout(layout)?,
    }
    let mut found = survey.end()?;
    of_found(options, &mut found, conn)
}

/// What a load would stop at, of a source that was read to its end.
pub fn of_found(
    options: &LoadOptions,
    found: &mut Found,
    conn: &mut Connection,
) -> Result<Vec<Refusal>, LoadError> {
    let mut stops = std::mem::take(&mut found.stops);
    stops.extend(unknown(options, conn, &found.outline)?);
    Ok(stops)
}

/// Collations and character sets that the server does not have.
fn unknown(
    options: &LoadOptions,
    conn: &mut Connection,
    outline: &Outline,
) -> Result<Vec<Refusal>, LoadError> {
    let mut refusals = Vec::new();
    if options.on_error == OnError::Continue {
        return Ok(refusals);
    }
    for ((named, name), place) in &outline.charsets {
        let mapped = options
            .map_collation
            .iter()
            .find(|(from, _)| from.eq_ignore_ascii_case(name))
            .map(|(_, to)| to);
        let words = lacks(conn, *named, mapped.unwrap_or(name))
            .map_err(|error| LoadError::server("asking for a collation", error))?;
        if let Some(words) = words {
            let place = (place, words.as_str());
            refusals.push(refusal(conn, *named, name, mapped, place)?);
        }
    }
    Ok(refusals)
}

/// What the server says when it does not know a name. It is asked to use it: lists leave out names that it reads as others.
fn lacks(
    conn: &mut Connection,
    named: Named,
    name: &str,
) -> Result<Option<String>, refloat_wire::Error> {
    let name = quote_ident(name);
    let asked = match named {
        Named::Collation => format!("SELECT _utf8'' COLLATE {name}"),
        Named::Charset => format!("SELECT CONVERT('' USING {name})"),
    };
    match conn.query(asked) {
        Ok(_) => Ok(None),
        Err(error) if error.is_lost_connection() => Err(error),
        // A collation of another character set is refused too, and known.
        Err(error) => {
            let unknown = error
                .server_code()
                .is_some_and(|code| UNKNOWN.contains(&code));
            Ok(unknown.then(|| error.to_string()))
        }
    }
}

fn refusal(
    conn: &mut Connection,
    named: Named,
    name: &str,
    mapped: Option<&String>,
    (place, words): (&CharsetPlace, &str),
) -> Result<Refusal, LoadError> {
    let (line, head) = (place.line, &place.head);
    if mapped.is_some() {
        return Ok(Refusal {
            reason: format!(
                "line {line}: {words} (which --map-collation writes in the place of {name}): {head}"
            ),
            hint: "SHOW COLLATION and SHOW CHARACTER SET list those that the server has."
                .to_owned(),
        });
    }
    let list = match named {
        Named::Collation => substitutes(name),
        // A SET says how the bytes of the dump are to be read: another name would change the rows.
        Named::Charset if place.session => Vec::new(),
        Named::Charset => vec!["utf8mb4".to_owned()],
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
        reason: format!("line {line}: {words}: {head}"),
        hint: match (other, named) {
            (Some(other), Named::Collation) => format!("Write another collation in its place: --map-collation {name}={other}. SHOW COLLATION lists those that the server has."),
            (Some(other), Named::Charset) => format!("Write another character set in its place: --map-collation {name}={other}, and so for each of its collations. SHOW CHARACTER SET lists those that the server has."),
            (None, _) => "Dump again with one that the server has (SHOW CHARACTER SET, SHOW COLLATION), or load into a server that has it.".to_owned(),
        },
    })
}
