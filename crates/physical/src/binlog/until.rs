//! Up to where binary logs are replayed.

use std::fmt;
use std::str::FromStr;

use crate::binlog::gtid::Gtid;

/// Up to where binary logs are replayed. The place that is named is itself not replayed, unless the
/// variant says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// Everything in the logs.
    Latest,
    /// What was committed before this second, counted from 1970 in UTC.
    Time(u64),
    /// Everything before a transaction.
    Before(Gtid),
    /// Everything up to and including a transaction.
    After(Gtid),
    /// Everything before a byte of a file.
    Position(String, u64),
}

/// A text that is none of the forms of [`Until`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UntilError(String);

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Time(seconds) => f.write_str(&moment(*seconds)),
            Self::Before(gtid) => write!(f, "{gtid}"),
            Self::After(gtid) => write!(f, "after:{gtid}"),
            Self::Position(file, at) => write!(f, "{file}:{at}"),
        }
    }
}

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Self, UntilError> {
        let text = text.trim();
        if text == "latest" {
            return Ok(Self::Latest);
        }
        if let Some(gtid) = text.strip_prefix("after:") {
            let bad = |()| UntilError(format!("{gtid:?} is not the GTID of one transaction"));
            return gtid.parse().map(Self::After).map_err(bad);
        }
        if let Ok(gtid) = text.parse() {
            return Ok(Self::Before(gtid));
        }
        if let Some((file, at)) = text.rsplit_once(':')
            && number_of(file).is_some()
            && let Ok(at) = at.parse()
        {
            return Ok(Self::Position(file.to_owned(), at));
        }
        match refloat_run::seconds(text) {
            Some(seconds) => Ok(Self::Time(seconds)),
            None => Err(UntilError(
                "it is no time with a zone (2026-11-28 14:00:00Z, 2026-11-28 14:00:00+01:00), no \
                 GTID, no FILE:POSITION (binlog.000007:4242), and not `latest`"
                    .to_owned(),
            )),
        }
    }
}

/// A moment as text, in UTC.
pub fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(refloat_run::moment);
    moment.unwrap_or_else(|| format!("{seconds} seconds after 1970"))
}

/// The number at the end of the name of a binary log.
pub fn number_of(file: &str) -> Option<u64> {
    let (base, number) = file.rsplit_once('.')?;
    let is_number = number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit());
    number
        .parse()
        .ok()
        .filter(|_| is_number && !base.is_empty())
}

#[cfg(test)]
mod tests {
    use super::Until;

    #[test]
    fn all_forms_are_read() {
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7";
        for (text, shown) in [
            ("latest", "latest"),
            ("2026-11-28 14:00:00Z", "2026-11-28T14:00:00Z"),
            ("2026-11-28T14:00:00+01:00", "2026-11-28T13:00:00Z"),
            // Includes everything of the second before this moment, and of its own second.
            ("2026-11-28 14:00:00.5Z", "2026-11-28T14:00:01Z"),
            ("0-1-17", "0-1-17"),
            ("after:0-1-17", "after:0-1-17"),
            (uuid, uuid),
            ("db.bin.000007:4242", "db.bin.000007:4242"),
        ] {
            assert_eq!(text.parse::<Until>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "2026-11-28 14:00:00",
            "14:00:00",
            "binlog.7:4",
            "binlog.000007",
            "after:latest",
            "0-1-17,1-1-2",
        ] {
            assert!(text.parse::<Until>().is_err(), "{text}");
        }
    }
}
