//! Whom a unit of systemd asks first for what its node needs, for one start.
//!
//! The unit gets a piece of its own under `/run` that gives the server one more option. The piece removes itself as soon as that start has ended,
//! well or not, whatever has become of this program by then: the next start is as its unit says.

use super::StartOption;
use super::standalone::piece_called;
use crate::host::Host;

/// The name of the piece.
const PIECE: &str = "zz-refloat-donor.conf";

/// A command that prepares a unit to be started with these donors (a list for `wsrep_sst_donor`); nothing where there are none, or where a name
/// cannot be handed over. That the piece cannot be written keeps nobody from starting: it is a preference.
///
/// Units of MariaDB start their server with `$MYSQLD_OPTS $_WSREP_NEW_CLUSTER $_WSREP_START_POSITION`. The first may hold options of the
/// unit's owner, the last is where the node stands; the middle one has something to say only when a cluster is begun, which this is not.
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
