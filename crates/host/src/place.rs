//! Changes a node's position in its cluster by rewriting its `grastate.dat`: discards it, restores
//! it, or allows the node to bootstrap.

use std::path::Path;

use crate::datadir::refuse_server_here;
use crate::error::HostError;
use crate::files::word;
use crate::host::Host;

/// The UUID of no history.
pub const NOWHERE: &str = "00000000-0000-0000-0000-000000000000";

/// Discards a node's position in its cluster. With such a file, no donor lets the node join by IST,
/// whatever position its tables hold, and a cluster that it bootstraps has a new history. The old
/// file is kept beside it.
///
/// [`HostError::ServerRuns`], because a server does not see the file and overwrites it; others: the
/// machine cannot be reached, or reports a failure.
pub fn give_place_up(
    host: &Host,
    datadir: &Path,
    run_id: &str,
    why: &str,
    safe_to_bootstrap: bool,
) -> Result<(), HostError> {
    let text = place(why, NOWHERE, "-1", safe_to_bootstrap);
    write_place(host, datadir, run_id, &text)
}

/// Restores the position of a node whose tables are intact, and sets whether it may bootstrap the
/// cluster. The old file is kept beside it.
///
/// [`HostError::ServerRuns`], because a server does not see the file and overwrites it; others: the
/// machine cannot be reached, or reports a failure.
pub fn give_place_back(
    host: &Host,
    datadir: &Path,
    run_id: &str,
    (uuid, seqno): (&str, u64),
    safe_to_bootstrap: bool,
) -> Result<(), HostError> {
    let text = place("", uuid, &seqno.to_string(), safe_to_bootstrap);
    write_place(host, datadir, run_id, &text)
}

fn place(why: &str, uuid: &str, seqno: &str, safe_to_bootstrap: bool) -> String {
    format!(
        "# GALERA saved state\n{why}version: 2.1\nuuid:    {uuid}\nseqno:   {seqno}\nsafe_to_bootstrap: {}\n",
        u8::from(safe_to_bootstrap)
    )
}

fn write_place(host: &Host, datadir: &Path, run_id: &str, text: &str) -> Result<(), HostError> {
    let (text, keep) = (
        Host::word(text),
        Host::word(&format!("grastate.dat.refloat-{run_id}")),
    );
    let script = format!(
        "cd -- {}\n{}\n\
         [ -e {keep} ] || {{ cp -p -- grastate.dat .grastate.keep; sync -- .grastate.keep; mv -- .grastate.keep {keep}; }}\n\
         cp -p -- grastate.dat .grastate.new; printf %s {text} >.grastate.new; sync -- .grastate.new\n\
         mv -f -- .grastate.new grastate.dat; sync -- grastate.dat .",
        word(datadir),
        refuse_server_here()
    );
    host.change(&script, datadir, datadir).map(drop)
}

/// Allows the one node that holds the newest state of a history to bootstrap its cluster again, in
/// the same history.
///
/// [`HostError::ServerRuns`], because a server does not see the file and overwrites it; others: the
/// machine cannot be reached, or reports a failure.
pub fn allow_to_begin(host: &Host, datadir: &Path) -> Result<(), HostError> {
    let script = format!(
        "cd -- {}\n{}\n\
         cp -p -- grastate.dat .grastate.new\n\
         {{ grep -v '^safe_to_bootstrap:' grastate.dat; echo 'safe_to_bootstrap: 1'; }} >.grastate.new; sync -- .grastate.new\n\
         mv -f -- .grastate.new grastate.dat; sync -- grastate.dat .",
        word(datadir),
        refuse_server_here()
    );
    host.change(&script, datadir, datadir).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixtures::something_like_a_server;
    use crate::grastate::GraState;

    #[test]
    fn a_place_is_given_up_and_what_was_there_is_kept() {
        const WHY: &str = "# It went on alone.\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grastate.dat");
        let old = "uuid: 30ba41b5-e6ea-11f1-acb3-d71df7acd2d5\nseqno: 7\nsafe_to_bootstrap: 1\n";
        fs::write(&file, old).unwrap();
        for safe in [false, true] {
            give_place_up(&Host::Local, folder.path(), "r1", WHY, safe).unwrap();
            let now = GraState::parse(&fs::read_to_string(&file).unwrap()).unwrap();
            assert!(!now.has_history());
            assert_eq!((now.seqno, now.safe_to_bootstrap), (None, Some(safe)));
        }
        let kept = fs::read_to_string(folder.path().join("grastate.dat.refloat-r1")).unwrap();
        assert_eq!(kept, old, "the second time does not write over it");
        fs::write(&file, old.replace("strap: 1", "strap: 0")).unwrap();
        allow_to_begin(&Host::Local, folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), old, "its place is kept");
        let error =
            give_place_up(&Host::Local, Path::new("/no/such"), "r1", WHY, true).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
    #[test]
    fn a_place_is_not_written_under_a_server() {
        const OLD: &str = "uuid: 30ba41b5-e6ea-11f1-acb3-d71df7acd2d5\nseqno: 7\n";
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("it's data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("grastate.dat"), OLD).unwrap();
        let mut server = something_like_a_server(&data);
        let refused = [
            give_place_up(&Host::Local, &data, "r1", "", true),
            give_place_back(&Host::Local, &data, "r1", (NOWHERE, 7), true),
            allow_to_begin(&Host::Local, &data),
        ];
        let pid = server.id();
        drop(server.stdin.take());
        server.wait().unwrap();
        let text = format!(
            "a server is running in {} on this machine (process {pid})",
            data.display()
        );
        for error in refused {
            assert_eq!(error.unwrap_err().to_string(), text);
        }
        let names: Vec<_> = fs::read_dir(&data).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing was kept or begun: {names:?}");
        let now = fs::read_to_string(data.join("grastate.dat")).unwrap();
        assert_eq!(now, OLD);
        allow_to_begin(&Host::Local, &data).unwrap();
    }
}
