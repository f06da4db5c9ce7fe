//! Parses recorded output of examinations, and examines this machine.

use refloat_testkit::EXPIRED_CERTIFICATE;

use super::super::candidate::Shown;
use super::super::script::lines;
use super::*;

/// A node on this machine.
fn candidate(datadir: &std::path::Path) -> Candidate {
    Candidate {
        member: Member {
            name: "n1".to_owned(),
            connect: refloat_wire::ConnectOptions::default(),
            host: Some(Host::Local),
            datadir: Some(datadir.to_owned()),
            log: None,
            defaults_file: None,
        },
        unit: None,
        shown: Shown::default(),
    }
}

#[test]
fn a_look_is_read() {
    let machine = read(&lines(
        "hostname\tdb1\npid\t17\nmemory\tVmRSS:\t800\ncores\t4\n\
         disk\t100\t50\ndata\t40\t10\noption\tsst\tcompressor\tzstd -3\noption\tmariabackup\tinno-backup-opts\t--password=x --rsync -py\n\
         account-from\tauth\naccount\tsst\naccount-is\taccepted\ngrant\tRELOAD ON *.*\nlistens\t9\tsocat\nnonsense\t1\t2\t3\t4\t5\n",
    ));
    assert_eq!((machine.pid, machine.cores), (Some(17), Some(4)));
    assert_eq!(machine.memory.server, Some(800));
    assert_eq!(
        (machine.space.free, machine.space.data()),
        (Some(50), Some(30))
    );
    assert_eq!(machine.options.get(&["sst"], "compressor"), Some("zstd -3"));
    assert_eq!(
        machine.options.get(&["mariabackup"], "inno-backup-opts"),
        Some("--password=… --rsync -p…")
    );
    let account = machine.account.unwrap();
    assert_eq!(
        (
            account.name.as_str(),
            account.from,
            account.refused,
            account.grants.len()
        ),
        ("sst", AccountFrom::SstAuth, None, 1)
    );
    assert_eq!(machine.listens[0].program, "socat");
}

/// Servers from a separate tree beside packages of another version: the server is down, and was
/// seen running from the tree.
#[test]
fn programs_of_a_server_that_is_down_are_those_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let tree = |name: &str, version: &str| {
        let bin = folder.path().join(name).join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let program = bin.join("mariadb-backup");
        std::fs::write(&program, format!("#!/bin/sh\necho {version}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        bin.parent().unwrap().to_string_lossy().into_owned()
    };
    let (installed, path) = (tree("own", "11.8"), tree("path", "11.4"));
    // This machine's option files do not belong to this server.
    let file = folder.path().join("my.cnf");
    std::fs::write(&file, "[mysqld]\n").unwrap();
    let version = |shown: Shown| {
        let mut candidate = candidate(folder.path());
        candidate.member.defaults_file = Some(file.clone());
        candidate.shown = shown;
        let machine = look(
            &Host::Local,
            &candidate,
            &NodeFacts::default(),
            "mariabackup",
        );
        machine
            .unwrap()
            .versions
            .remove("mariadb-backup")
            .unwrap_or_default()
    };
    let mut shown = Shown {
        defaults_file: None,
        basedir: Some(format!("{installed}/")),
        path: Some(format!("{path}/bin:/usr/bin")),
    };
    assert_eq!(version(shown.clone()), "11.8");
    shown.basedir = None;
    assert_eq!(version(shown), "11.4");
    assert!(!version(Shown::default()).starts_with("11.4"));
}

#[test]
fn a_machine_is_not_searched_for_a_guessed_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    std::fs::write(&file, "[mysqld]\n").unwrap();
    let mut candidate = candidate(folder.path());
    candidate.member.datadir = None;
    candidate.member.defaults_file = Some(file);
    let seen = look(&Host::Local, &candidate, &NodeFacts::default(), "rsync");
    assert!(seen.unwrap_err().ends_with("gives no datadir"));
}

#[test]
fn a_certificate_that_is_over_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("over.pem"), EXPIRED_CERTIFICATE).unwrap();
    let candidate = candidate(folder.path());
    let mut facts = NodeFacts::default();
    let options = "base_port = 1; socket.ssl_cert = over.pem; socket.ssl_ca = none.pem";
    let named = ("wsrep_provider_options".to_owned(), options.to_owned());
    facts.variables.extend([named]);
    let machine = look(&Host::Local, &candidate, &facts, "rsync").unwrap();
    let seen: Vec<_> = machine.ending.into_iter().collect();
    let ending = Ending {
        over: true,
        when: "Jan  1 00:00:00 2021 GMT".to_owned(),
    };
    assert_eq!(seen, [("over.pem".to_owned(), ending)]);
}
