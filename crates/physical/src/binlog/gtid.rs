//! Numbers of transactions (GTIDs), and which of them a log has.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The number of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gtid {
    /// `DOMAIN-SERVER-SEQUENCE`.
    MariaDb {
        /// `gtid_domain_id`.
        domain: u32,
        /// `server_id`.
        server: u32,
        /// Its place in the domain.
        sequence: u64,
    },
    /// `UUID:NUMBER`.
    MySql {
        /// `server_uuid` in small letters, with the tag behind another colon if there is one.
        source: String,
        /// Its place among those of the source.
        number: u64,
    },
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MariaDb {
                domain,
                server,
                sequence,
            } => write!(f, "{domain}-{server}-{sequence}"),
            Self::MySql { source, number } => write!(f, "{source}:{number}"),
        }
    }
}

impl FromStr for Gtid {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((source, number)) = text.rsplit_once(':') {
            let source = source.to_ascii_lowercase();
            return Ok(Self::MySql {
                source: Some(source).filter(|it| is_uuid(it)).ok_or(())?,
                number: number.parse().map_err(drop)?,
            });
        }
        let mut words = text.split('-');
        let mut next = || words.next().ok_or(());
        let gtid = Self::MariaDb {
            domain: next()?.parse().map_err(drop)?,
            server: next()?.parse().map_err(drop)?,
            sequence: next()?.parse().map_err(drop)?,
        };
        words.next().map_or(Ok(gtid), |_| Err(()))
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The transactions that a log has up to some place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// MariaDB: the last of each domain and server.
    sequences: BTreeMap<(u32, u32), u64>,
    /// MariaDB: the last of each domain.
    last: BTreeMap<u32, (u32, u64)>,
    /// MySQL: half-open ranges of numbers, sorted and disjoint.
    ranges: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Seen {
    /// Adds a transaction. Those of one MariaDB server must come in order.
    pub fn add(&mut self, gtid: &Gtid) {
        match gtid {
            Gtid::MariaDb {
                domain,
                server,
                sequence,
            } => {
                self.sequences.insert((*domain, *server), *sequence);
                self.last.insert(*domain, (*server, *sequence));
            }
            Gtid::MySql { source, number } => {
                self.add_range(source, (*number, number.saturating_add(1)));
            }
        }
    }

    /// Adds numbers of a MySQL source, from the first up to but not including the second.
    pub fn add_range(&mut self, source: &str, range: (u64, u64)) {
        if range.0 >= range.1 {
            return;
        }
        let all = self.ranges.entry(source.to_owned()).or_default();
        // It nearly always continues the last range.
        let at = all.partition_point(|one| one.1 < range.0);
        let until = all.partition_point(|one| one.0 <= range.1);
        let joined = all[at..until]
            .iter()
            .fold(range, |sum, one| (sum.0.min(one.0), sum.1.max(one.1)));
        all.splice(at..until, [joined]);
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty() && self.ranges.is_empty()
    }

    /// Whether it has a transaction.
    pub fn has(&self, gtid: &Gtid) -> bool {
        match gtid {
            Gtid::MariaDb {
                domain,
                server,
                sequence,
            } => {
                let last = self.sequences.get(&(*domain, *server));
                last.is_some_and(|last| last >= sequence)
            }
            Gtid::MySql { source, number } => self
                .ranges
                .get(source)
                .is_some_and(|all| all.iter().any(|one| (one.0..one.1).contains(number))),
        }
    }

    /// Whether another set has all transactions of this one.
    pub fn is_within(&self, other: &Self) -> bool {
        let maria = self
            .sequences
            .iter()
            .all(|(key, last)| other.sequences.get(key).is_some_and(|its| its >= last));
        maria
            && self.ranges.iter().all(|(source, ranges)| {
                let its = other.ranges.get(source).map_or(&[][..], Vec::as_slice);
                ranges
                    .iter()
                    .all(|one| its.iter().any(|it| it.0 <= one.0 && one.1 <= it.1))
            })
    }

    /// Whether a file that says that it comes after `list` can follow one that ends with these
    /// transactions: all of `list` is among them, and MariaDB's last one of each domain and server
    /// that both name is the same. A file that comes after nothing begins another history.
    fn ends_with(&self, list: &Self) -> bool {
        if list.is_empty() && !self.is_empty() {
            return false;
        }
        let mut both = list
            .sequences
            .iter()
            .filter_map(|(key, its)| self.sequences.get(key).map(|sequence| sequence == its));
        list.is_within(self) && both.all(|same| same)
    }

    /// Continues with a file that says that it comes after `list`. `false`: it cannot be the next
    /// one.
    pub fn go_on(&mut self, list: &Self) -> bool {
        let follows = self.ends_with(list);
        if follows {
            // MariaDB may drop a domain from its list. Transactions of MySQL stay, because none may
            // come again.
            self.sequences.clone_from(&list.sequences);
            self.last.clone_from(&list.last);
        }
        follows
    }

    /// Whether a log with these transactions can belong to a server that reports `server`: the last
    /// transaction of each domain that both name is the same, and all of MySQL's are there. The
    /// server may have more, which came from elsewhere.
    pub fn fits(&self, server: &Self) -> bool {
        let mut both = self
            .last
            .iter()
            .filter_map(|(domain, last)| server.last.get(domain).map(|its| last == its));
        let ranges = Self {
            ranges: self.ranges.clone(),
            ..Self::default()
        };
        both.all(|same| same) && ranges.is_within(server)
    }

    /// MariaDB: the last transaction of each domain, as `gtid_slave_pos` takes them. Domains that
    /// only `others` has are taken from there.
    pub fn position(&self, others: &Self) -> String {
        let mut last = others.last.clone();
        last.extend(&self.last);
        let words: Vec<String> = last
            .iter()
            .map(|(domain, (server, sequence))| format!("{domain}-{server}-{sequence}"))
            .collect();
        words.join(",")
    }

    /// MariaDB: the state of a binary log, a line for each domain and server, as the server keeps
    /// it beside its logs. The last transaction of each domain comes after the others of that
    /// domain.
    pub fn state(&self) -> String {
        let mut text = String::new();
        for (domain, (last, _)) in &self.last {
            let of_domain = self.sequences.range((*domain, 0)..=(*domain, u32::MAX));
            let (end, others): (Vec<_>, Vec<_>) =
                of_domain.partition(|((_, server), _)| server == last);
            for ((domain, server), sequence) in others.into_iter().chain(end) {
                text.extend([format!("{domain}-{server}-{sequence}\n")]);
            }
        }
        text
    }
}

impl FromStr for Seen {
    type Err = ();

    /// Reads a set of either vendor, as variables hold them.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut seen = Self::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let mut parts = word.split(':').map(str::trim);
            let source = parts.next().unwrap_or_default().to_ascii_lowercase();
            if !is_uuid(&source) {
                seen.add(&word.parse()?);
                continue;
            }
            let mut named = source.clone();
            for part in parts {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                match (first.parse::<u64>(), last.parse::<u64>()) {
                    (Ok(first), Ok(last)) => {
                        seen.add_range(&named, (first, last.saturating_add(1)));
                    }
                    // A tag, which applies to the ranges after it.
                    _ => named = format!("{source}:{part}"),
                }
            }
        }
        Ok(seen)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.last.is_empty() {
            return f.write_str(&self.position(&Self::default()));
        }
        let words = self.ranges.iter().map(|(source, all)| {
            let all = all.iter().map(|(first, behind)| match behind - first {
                1 => format!(":{first}"),
                _ => format!(":{first}-{}", behind - 1),
            });
            format!("{source}{}", all.collect::<String>())
        });
        f.write_str(&words.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::{Gtid, Seen};

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn numbers_of_both_vendors_are_read_and_written() {
        for text in ["0-1-17", "4294967295-4294967295-18446744073709551615"] {
            assert_eq!(text.parse::<Gtid>().unwrap().to_string(), text);
        }
        let mysql = format!("{UUID}:23");
        let read: Gtid = mysql.to_uppercase().parse().unwrap();
        assert_eq!(read.to_string(), mysql);
        for text in [
            "",
            "0-1",
            "0-1-2-3",
            "binlog.000001:4",
            "x:1",
            "2026-11-28 14:00:00Z",
        ] {
            assert!(text.parse::<Gtid>().is_err(), "{text}");
        }
    }

    #[test]
    fn sets_of_mysql() {
        let text = format!("{UUID}:1-5:8:10-12");
        let mut seen: Seen = text.parse().unwrap();
        assert_eq!(seen.to_string(), text);
        let number = |number| Gtid::MySql {
            source: UUID.to_owned(),
            number,
        };
        assert!(seen.has(&number(5)) && !seen.has(&number(6)) && seen.has(&number(12)));
        let before = seen.clone();
        for one in [6, 7, 9, 13] {
            seen.add(&number(one));
        }
        assert_eq!(seen.to_string(), format!("{UUID}:1-13"));
        assert!(before.is_within(&seen) && !seen.is_within(&before));
        // The first transaction of the previous file may be missing, and does not come a second
        // time.
        let mut follows = seen.clone();
        assert!(follows.go_on(&before) && follows == seen);
        assert!(!follows.go_on(&Seen::default()) && !before.clone().go_on(&seen));
        let tagged: Seen = format!("{UUID}:1-5:tag:7").parse().unwrap();
        assert_eq!(tagged.to_string(), format!("{UUID}:1-5,{UUID}:tag:7"));
    }

    #[test]
    fn sets_of_mariadb() {
        let mut seen: Seen = "0-1-5,1-9-4".parse().unwrap();
        let before = seen.clone();
        seen.add(&"0-2-6".parse().unwrap());
        assert_eq!(seen.to_string(), "0-2-6,1-9-4");
        assert_eq!(seen.state(), "0-1-5\n0-2-6\n1-9-4\n");
        assert!(before.is_within(&seen) && !before.fits(&seen));
        assert!(before.fits(&"0-1-5,7-1-1".parse().unwrap()));
        let after: Seen = "0-1-5,1-9-4,0-2-6".parse().unwrap();
        let older: Seen = "0-1-5,0-2-5".parse().unwrap();
        assert!(seen.ends_with(&after) && seen.ends_with(&before));
        assert!(!seen.ends_with(&older) && !before.ends_with(&after));
        let mut follows = seen.clone();
        assert!(!follows.go_on(&Seen::default()) && follows == seen);
        assert!(follows.go_on(&"0-2-6".parse().unwrap()) && follows.state() == "0-2-6\n");
        let replica: Seen = "0-1-1,7-3-2".parse().unwrap();
        assert_eq!(seen.position(&replica), "0-2-6,1-9-4,7-3-2");
    }
}
