use refloat_sandbox::StartOptions;
use refloat_wire::{ConnectOptions, Connection, Error, SslMode};

use crate::common::{ALL, connect, sandbox, tcp};

const LOAD: &str = "LOAD DATA LOCAL INFILE 'refloat:1' INTO TABLE t CHARACTER SET binary (id, v)";

#[test]
fn rows_arrive_and_are_counted() {
    for kind in ALL {
        let mut c = connect(kind, "wire_load");
        c.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
            .unwrap();
        let ok = c
            .load_data(LOAD, &mut |out| {
                for id in 0..100_000 {
                    out.write(format!("{id}\tvalue {id} {}\n", "x".repeat(id % 150)).as_bytes())?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(ok.info_count("Records"), Some(100_000), "{}", ok.info);
        assert_eq!(
            (
                ok.info_count("Deleted"),
                ok.info_count("Skipped"),
                ok.info_count("Warnings")
            ),
            (Some(0), Some(0), Some(0))
        );
        // LOCAL implies IGNORE: a duplicate is skipped, and the caller can see that.
        let ok = c
            .load_data(LOAD, &mut |out| out.write(b"5\tagain\n200000\tnew\n"))
            .unwrap();
        assert_eq!(
            (ok.info_count("Records"), ok.info_count("Skipped")),
            (Some(2), Some(1))
        );
        assert_eq!(
            c.query_value("SELECT COUNT(*) FROM t").unwrap().as_deref(),
            Some("100001")
        );
        // Large blocks, through the split form, over TLS and over plain TCP.
        for ssl_mode in [SslMode::Required, SslMode::Disabled] {
            let mut options = tcp(kind);
            options.ssl_mode = ssl_mode;
            options.database = Some("wire_load".into());
            let mut c = Connection::connect(&options).unwrap();
            c.exec("TRUNCATE t").unwrap();
            let block: Vec<u8> = (0..40_000)
                .flat_map(|id| format!("{id}\t{}\n", "z".repeat(150)).into_bytes())
                .collect();
            assert!(block.len() > 6_000_000);
            c.load_begin(LOAD).unwrap();
            assert!(matches!(c.exec("SELECT 1"), Err(Error::Busy { .. })));
            c.load_write(&block).unwrap();
            c.load_write(b"").unwrap();
            c.load_write(b"40000\tlast\n").unwrap();
            assert_eq!(c.load_finish().unwrap().info_count("Records"), Some(40_001));
            assert_eq!(
                c.query_value("SELECT COUNT(*) FROM t").unwrap().as_deref(),
                Some("40001")
            );
        }
    }
}

#[test]
fn a_source_that_fails_commits_nothing() {
    for kind in ALL {
        let mut watcher = connect(kind, "wire_cut");
        watcher
            .exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
            .unwrap();
        for ssl_mode in [SslMode::Disabled, SslMode::Required] {
            let mut options = tcp(kind);
            options.ssl_mode = ssl_mode;
            options.database = Some("wire_cut".into());
            let mut c = Connection::connect(&options).unwrap();
            let error = c
                .load_data(LOAD, &mut |out| {
                    for id in 0..50_000 {
                        out.write(format!("{id}\tvalue\n").as_bytes())?;
                    }
                    Err("the disk caught fire".into())
                })
                .unwrap_err();
            assert!(
                matches!(&error, Error::Source(e) if e.to_string() == "the disk caught fire"),
                "{error}"
            );
            assert!(c.is_closed() && matches!(c.exec("COMMIT"), Err(Error::Closed { .. })));
            assert_empty(&mut watcher, c.server().connection_id);
            // Dropping the connection midway has the same effect.
            let mut c = c.reconnect().unwrap();
            c.load_begin(LOAD).unwrap();
            c.load_write(b"1\tx\n").unwrap();
            let id = c.server().connection_id;
            drop(c);
            assert_empty(&mut watcher, id);
        }
    }
}

/// Waits until the server has ended the session, then checks the table.
fn assert_empty(watcher: &mut Connection, id: u64) {
    let gone = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}");
    for _ in 0..200 {
        if watcher.query_value(&gone).unwrap().as_deref() == Some("0") {
            assert_eq!(
                watcher
                    .query_value("SELECT COUNT(*) FROM t")
                    .unwrap()
                    .as_deref(),
                Some("0")
            );
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the session does not end");
}

#[test]
fn refused_statements_and_foreign_ones() {
    for kind in ALL {
        let mut c = connect(kind, "wire_refuse");
        c.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
            .unwrap();
        let mut never =
            |_: &mut refloat_wire::LocalInfile<'_>| -> Result<(), refloat_wire::SourceError> {
                panic!("nothing to send")
            };
        let missing = "LOAD DATA LOCAL INFILE 'refloat:1' INTO TABLE nowhere";
        assert_eq!(
            c.load_data(missing, &mut never).unwrap_err().server_code(),
            Some(1146)
        );
        assert!(matches!(
            c.load_data("LOAD DATA INFILE nothing", &mut never),
            Err(Error::LoadData { .. })
        ));
        assert_eq!(c.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
        // The same statement where no file is expected, as a dump could contain it.
        let canary = c
            .exec("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t")
            .unwrap_err();
        assert!(
            matches!(&canary, Error::LocalInfileRefused { asked } if asked == "/etc/passwd"),
            "{canary}"
        );
        assert!(c.is_closed());
    }
}

#[test]
fn a_server_that_takes_no_files_says_so_until_it_does() {
    for kind in ALL {
        let options = StartOptions::new(kind).option("local_infile", "0");
        let server = sandbox().start_ephemeral(&options).unwrap();
        let mut c =
            Connection::connect(&ConnectOptions::from_url(&server.socket_url()).unwrap()).unwrap();
        c.exec("CREATE DATABASE d").unwrap();
        c.exec("CREATE TABLE d.t (id INT)").unwrap();
        let sql = "LOAD DATA LOCAL INFILE 'x' INTO TABLE d.t";
        let off = c.load_data(sql, &mut |_| panic!("nothing to send"));
        assert!(
            off.as_ref().is_err_and(Error::is_local_infile_disabled),
            "{kind}: {off:?}"
        );
        c.exec("SET GLOBAL local_infile = 1").unwrap();
        let on = c.load_data(sql, &mut |out| out.write(b"1\n")).unwrap();
        assert_eq!(on.info_count("Records"), Some(1), "{kind}");
    }
}
