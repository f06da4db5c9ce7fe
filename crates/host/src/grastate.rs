//! `grastate.dat`: the position in the cluster that a stopped node has recorded.

use serde::Serialize;

/// What a node has recorded about itself.
///
/// The format is that of Galera's `saved_state.cpp`: lines of `key: value`, and comments after `#`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraState {
    /// UUID of the history that its data belongs to. All zeros: none.
    pub uuid: String,
    /// The last write-set that it holds. `None` (written as -1): it runs, or it stopped without
    /// writing its position, which must be recovered.
    pub seqno: Option<u64>,
    /// Whether it was the last to leave. `None`: providers before 3.19 do not write it.
    pub safe_to_bootstrap: Option<bool>,
}

impl GraState {
    /// Parses the text of a `grastate.dat`. `None`: it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut uuid, mut seqno, mut safe) = (None, None, None);
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
        {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match key.trim() {
                "uuid" => uuid = Some(value.to_owned()),
                "seqno" => seqno = value.parse::<i64>().ok(),
                "safe_to_bootstrap" => safe = Some(value == "1"),
                _ => {}
            }
        }
        let looks_like_one = |uuid: &String| {
            uuid.len() == 36
                && uuid
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        };
        Some(Self {
            uuid: uuid.filter(looks_like_one)?,
            seqno: u64::try_from(seqno?).ok(),
            safe_to_bootstrap: safe,
        })
    }

    /// Whether it gives the node's position: history and write-set.
    pub fn is_known(&self) -> bool {
        self.seqno.is_some() && self.has_history()
    }

    /// Whether it belongs to any history.
    pub fn has_history(&self) -> bool {
        self.uuid.bytes().any(|byte| byte != b'0' && byte != b'-')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_galera_writes() {
        let text = "# GALERA saved state\nversion: 2.1\nuuid:    30ba41b5-e6ea-11f1-acb3-d71df7acd2d5\nseqno:   -1\nsafe_to_bootstrap: 0\n";
        let state = GraState::parse(text).unwrap();
        assert_eq!((state.seqno, state.safe_to_bootstrap), (None, Some(false)));
        assert!(state.has_history() && !state.is_known());
        let left = GraState::parse(
            &text
                .replace("-1\n", "4711\n")
                .replace("strap: 0", "strap: 1"),
        )
        .unwrap();
        assert_eq!(
            (left.seqno, left.safe_to_bootstrap),
            (Some(4711), Some(true))
        );
        assert!(left.is_known());
        let none =
            GraState::parse("uuid: 00000000-0000-0000-0000-000000000000\nseqno: -1\n").unwrap();
        assert!(!none.has_history());
        assert_eq!(none.safe_to_bootstrap, None);
        for bad in [
            "",
            "uuid: x\nseqno: 1",
            "seqno: 1",
            "uuid: 30ba41b5-e6ea-11f1-acb3-d71df7acd2d5\nseqno: many",
        ] {
            assert_eq!(GraState::parse(bad), None, "{bad}");
        }
    }
}
