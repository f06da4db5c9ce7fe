//! HAProxy's agent protocol: each connection gets one line, and sends nothing.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::Health;

/// Answers one check.
///
/// The words are those of `agent-check` in HAProxy's manual. `ready` undoes an earlier `drain`, and
/// `up` an earlier `down`.
pub(super) fn answer(client: &mut TcpStream, health: &Health) -> io::Result<()> {
    client.write_all(line(health).as_bytes())
}

fn line(health: &Health) -> String {
    let verdict = &health.verdict;
    // HAProxy's statistics show what follows the #, up to the end of the line.
    let reason: String = verdict
        .reason
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match (verdict.writes, verdict.drains) {
        (true, _) => "ready up 100%\n".to_owned(),
        (false, true) => format!("up drain #{reason}\n"),
        (false, false) => format!("ready down #{reason}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Verdict;
    use super::*;

    #[test]
    fn lines() {
        let of = |verdict: Verdict| {
            line(&Health {
                verdict,
                node: String::new(),
                age_seconds: 0.0,
            })
        };
        let down = Verdict::down("non_primary", "not in\nthe component");
        assert_eq!(of(down.clone()), "ready down #not in the component\n");
        assert_eq!(
            of(Verdict {
                drains: true,
                ..down.clone()
            }),
            "up drain #not in the component\n"
        );
        assert_eq!(
            of(Verdict {
                writes: true,
                reads: true,
                ..down
            }),
            "ready up 100%\n"
        );
    }
}
