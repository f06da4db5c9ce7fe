//! Which donors the server of a systemd unit prefers, for one start.
//!
//! The unit gets a drop-in under `/run` that passes one more option to the server. The drop-in
//! removes itself as soon as that start has ended, successful or not, even if this program no
//! longer runs. The next start follows the unit again.

use super::StartOption;
use super::standalone::piece_called;
use crate::host::Host;

/// File name of the drop-in.
const PIECE: &str = "zz-refloat-donor.conf";

/// A command that prepares a unit to start with these donors (a list for `wsrep_sst_donor`). Empty
/// if there are no donors, or if a name cannot be passed. Donors are a preference: the node starts
/// even if the drop-in cannot be written.
///
/// MariaDB's units start the server with `$MYSQLD_OPTS $_WSREP_NEW_CLUSTER $_WSREP_START_POSITION`.
/// The first may hold options of the administrator, and the last is the node's position. The middle
/// one is otherwise set only to bootstrap a cluster, so the drop-in uses it.
pub(super) fn prepare(unit: &str, donors: &str) -> String {
    let option = StartOption::new("wsrep-sst-donor", donors);
    let Some(word) = option.word() else {
        return String::new();
    };
    let gone = "rm -f -- $piece; systemctl --no-block daemon-reload";
    format!(
        "{find} && mkdir -p -- \"${{piece%/*}}\" && printf '%s\\n' '[Service]' {set} \
         \"ExecStartPost=-+/bin/sh -c '{gone}'\" \"ExecStopPost=-+/bin/sh -c '{gone}'\" >\"$piece\" && systemctl daemon-reload || :\n",
        find = piece_called(unit, PIECE),
        set = Host::word(&format!("Environment=\"_WSREP_NEW_CLUSTER={word}\"")),
    )
}

#[cfg(test)]
mod tests {
    use super::prepare;

    #[test]
    fn only_names_that_can_be_handed_over_are() {
        for odd in ["", "a b,", "$x,", "a'b,"] {
            assert_eq!(prepare("mariadb", odd), "", "{odd}");
        }
        let script = prepare("it's", "n1,n2,");
        assert!(
            script.contains("_WSREP_NEW_CLUSTER=--wsrep-sst-donor=n1,n2,"),
            "{script}"
        );
        let parsed = std::process::Command::new("sh")
            .args(["-n", "-c", &script])
            .status();
        assert!(parsed.unwrap().success(), "{script}");
    }
}
