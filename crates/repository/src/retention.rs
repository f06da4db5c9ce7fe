//! Which backups a repository keeps.

use std::time::Duration;

/// Which backups are neither among the newest `keep` of their kind and server, nor younger than
/// `keep_for`. Each is given by these two and when it began, in seconds since 1970 like `now`, the
/// oldest first.
pub fn superfluous<T: PartialEq>(
    backups: &[(T, u64)],
    keep: usize,
    keep_for: Option<Duration>,
    now: u64,
) -> Vec<usize> {
    let is_young =
        |began: u64| keep_for.is_some_and(|kept| now.saturating_sub(began) < kept.as_secs());
    let all = backups.iter().enumerate();
    all.filter(|(at, (of, began))| {
        let newer = backups[at + 1..].iter().filter(|(other, _)| other == of);
        newer.count() >= keep && !is_young(*began)
    })
    .map(|(at, _)| at)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_and_the_young_stay() {
        let backups = [("a", 10), ("b", 20), ("a", 30), ("a", 40), ("b", 50)];
        let gone = |keep, keep_for| {
            let keep_for: Option<u64> = keep_for;
            superfluous(&backups, keep, keep_for.map(Duration::from_secs), 100)
        };
        assert_eq!(gone(1, None), [0, 1, 2]);
        assert_eq!(gone(2, None), [0]);
        assert_eq!(gone(3, None), [0_usize; 0]);
        // Those that began 70 seconds ago, or later, stay.
        assert_eq!(gone(0, Some(71)), [0, 1]);
        assert_eq!(gone(1, Some(71)), [0, 1]);
        assert_eq!(gone(0, Some(0)), [0, 1, 2, 3, 4]);
        // A clock that was set back makes nothing old.
        assert_eq!(
            superfluous(&[("a", 200)], 0, Some(Duration::from_secs(1)), 100),
            [0_usize; 0]
        );
    }
}
