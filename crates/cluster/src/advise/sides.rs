//! What a node needs as a donor or as a joiner: programs, and an account to read the data.

use super::encryption::{self, Encryption};
use super::facts::{Account, AccountFrom, NodeFacts, SST};
use super::mistake::{Effect, Found, MistakeKind};

/// Privileges without which mariadb-backup fails (tried with 10.11), each with the names that
/// include it. The documentation also requires `LOCK TABLES`, which is not needed since backup
/// stages exist.
const PRIVILEGES: [(&str, &[&str]); 3] = [
    ("RELOAD", &["RELOAD"]),
    ("PROCESS", &["PROCESS"]),
    (
        "BINLOG MONITOR",
        &["BINLOG MONITOR", "REPLICATION CLIENT", "SUPER"],
    ),
];

/// The role of a node in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Donor,
    Joiner,
}

/// Reports missing programs that a method needs on a side.
pub(super) fn tools(node: &NodeFacts, method: &str, side: Side, found: &mut Found) {
    let Some(machine) = &node.machine else { return };
    // A person copies the data by hand, so no script runs.
    if method == "skip" {
        return;
    }
    let script = format!("wsrep_sst_{method}");
    let mut any_of: Vec<(Vec<&str>, &str)> =
        vec![(vec![script.as_str()], "the script of the method")];
    let mut needs = |program, why| any_of.push((vec![program], why));
    match method {
        "mariabackup" => {
            needs("mariadb-backup", "it reads and prepares the data");
            if node.container() == "mbstream" {
                needs("mbstream", "[sst] streamfmt");
            } else {
                needs("tar", "[sst] streamfmt");
            }
            needs(node.transfer(), "it carries the data ([sst] transferfmt)");
            if node
                .option(SST, "progress")
                .is_some_and(|how| how != "none")
            {
                needs("pv", "[sst] progress");
            }
        }
        "refloat" => needs("mariadb-backup", "it reads and prepares the data"),
        "xtrabackup-v2" | "xtrabackup" => {
            needs("xtrabackup", "it reads and prepares the data");
            needs("socat", "it carries the data");
        }
        "rsync" | "rsync_wan" => needs("rsync", "it carries the data"),
        "mysqldump" => {
            any_of.push((vec!["mariadb", "mysql"], "it loads the data"));
            any_of.push((vec!["mariadb-dump", "mysqldump"], "it reads the data"));
        }
        _ => {}
    }
    if matches!(method, "rsync" | "rsync_wan" | "mariabackup") && side == Side::Joiner {
        any_of.push((
            vec!["ss", "sockstat", "lsof"],
            "the script sees by it whether its port is open",
        ));
    }
    // As root, its daemon switches to another account, which cannot write.
    if method == "rsync" && side == Side::Joiner && machine.pid.is_some() && machine.user == "root"
    {
        found.fails(
            MistakeKind::SystemAccount,
            &[&node.name],
            "its server runs as root: the daemon of rsync takes the account nobody then, and cannot write into the data directory",
            "run the server under an account of its own, as packages do",
        );
    }
    any_of.extend(encryption::tools(node, method));
    any_of.retain(|_| !machine.programs_elsewhere);
    for (programs, why) in any_of {
        if !programs
            .iter()
            .any(|program| machine.programs.contains_key(*program))
        {
            // Without it, progress is silently not reported, but the copy works.
            let effect = if programs == ["pv"] {
                Effect::Unsafe
            } else {
                Effect::Fails
            };
            let role = if side == Side::Donor {
                "donor"
            } else {
                "joiner"
            };
            found.add(
                MistakeKind::MissingTool,
                effect,
                &[&node.name],
                format!(
                    "as a {role} it needs {}, which is not there ({why})",
                    programs.join(" or ")
                ),
                format!("install {}, or take a way that does without", programs[0]),
            );
        }
    }
    let broken = encryption::of(node, method);
    if let Encryption::Broken(reason) = broken {
        found.fails(MistakeKind::Encryption, &[&node.name], reason, "correct the files that [sst] or the server's groups name, and let the server's account read them");
    }
}

/// Whether a method logs in to the donor.
fn logs_in(method: &str) -> bool {
    // Percona's servers since 8.0 create an account for their script themselves.
    matches!(method, "mariabackup" | "mysqldump" | "refloat")
}

/// Checks the account that reads the donor's data.
pub(super) fn account(from: &NodeFacts, method: &str, found: &mut Found) {
    if !logs_in(method) {
        return;
    }
    let name = [from.name.as_str()];
    let Some(account) = from
        .machine
        .as_ref()
        .and_then(|machine| machine.account.as_ref())
    else {
        return;
    };
    if let Some((text, remedy)) = not_as_written(from, account) {
        found.add(MistakeKind::Account, Effect::Unsafe, &name, text, remedy);
    } else if let Some(reason) = &account.refused {
        let how = describe(account);
        found.fails(
            MistakeKind::Account,
            &name,
            format!("as a donor it cannot be read: {how}, and it is refused: {reason}"),
            "correct wsrep_sst_auth on every node, or the account's password: only the donor finds out, after the joiner has waited",
        );
    } else if method == "mariabackup" {
        privileges(&from.name, account, found);
    }
}

/// A running server whose account for copies differs from its option files, and the remedy.
fn not_as_written(from: &NodeFacts, account: &Account) -> Option<(String, &'static str)> {
    let has_account = from
        .state
        .as_ref()
        .is_some_and(|state| state.sst.has_account);
    let written = account.from == AccountFrom::SstAuth;
    if has_account && !written {
        return Some((
            "its wsrep_sst_auth was set while it ran, and stands in no option file that was found: after a restart it cannot give a copy".to_owned(),
            "write wsrep_sst_auth into its option file",
        ));
    }
    // The script reads its own group itself, and gets the setting in the server's group from the
    // server.
    let in_group = |group: &str| from.option(&[group], "wsrep-sst-auth").is_some();
    if written && !has_account && in_group("server") && !in_group("sst") {
        return Some((
            format!(
                "its option file says wsrep_sst_auth ({:?}), and its server runs without: it was written there after the start, and until the next one copies log in without it",
                account.name
            ),
            "set it in the server as well (SET GLOBAL wsrep_sst_auth), or start that again",
        ));
    }
    // The script gets what was set at run time, and that name is hidden.
    let set = from.variables.get("wsrep_sst_auth_origin");
    if written && set.is_some_and(|origin| origin == "SQL") {
        let after = match &account.refused {
            Some(reason) => format!(", which is refused ({reason})"),
            None => String::new(),
        };
        return Some((
            format!(
                "its wsrep_sst_auth was set while it ran: copies log in by that, which cannot be read or tried, and after a restart as its option file says ({:?}){after}",
                account.name
            ),
            "write into its option file what was set, or set what is written there",
        ));
    }
    None
}

/// The account for copies, and where it is named.
fn describe(account: &Account) -> String {
    let name = &account.name;
    match account.from {
        AccountFrom::SstAuth => format!("wsrep_sst_auth names {name:?}"),
        AccountFrom::BackupOptions => format!("the options of mariadb-backup name {name:?}"),
        AccountFrom::Nowhere => format!(
            "no account is named (wsrep_sst_auth), so the server's own system account {name:?} logs in"
        ),
    }
}

/// Checks the privileges of the account for copies on the donor.
fn privileges(donor: &str, account: &Account, found: &mut Found) {
    let granted: Vec<&str> = account
        .grants
        .iter()
        .filter_map(|grant| grant.split_once(" ON *.*").map(|(what, _)| what))
        .flat_map(|what| what.split(',').map(str::trim))
        .collect();
    // Privileges granted through a role are not examined.
    let by_role = account.grants.iter().any(|grant| !grant.contains(" ON "));
    if granted.contains(&"ALL PRIVILEGES") || by_role {
        return;
    }
    let lacks: Vec<&str> = PRIVILEGES
        .iter()
        .filter(|(_, names)| !names.iter().any(|one| granted.contains(one)))
        .map(|(name, _)| *name)
        .collect();
    if !lacks.is_empty() {
        found.fails(
            MistakeKind::Privileges,
            &[donor],
            format!(
                "its account for copies, {:?}, lacks {}",
                account.name,
                lacks.join(", ")
            ),
            format!(
                "GRANT {} ON *.* TO that account, on any node",
                lacks.join(", ")
            ),
        );
    }
}

/// `pv` limits the rate. Without it there is no limit, and a log line says so.
pub(super) fn rate_limit(from: &NodeFacts, method: &str, found: &mut Found) {
    if method != "mariabackup" {
        return;
    }
    if let (Some(limit), Some(false)) = (from.option(SST, "rlimit"), from.has("pv")) {
        found.add(
            MistakeKind::RateLimit,
            Effect::Unsafe,
            &[&from.name],
            format!("as a donor it shall send {limit} a second at the most (rlimit), but that takes pv, which is not there: it sends as fast as it can"),
            "install pv",
        );
    }
}
