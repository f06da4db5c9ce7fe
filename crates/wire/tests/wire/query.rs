use std::ops::ControlFlow;

use refloat_wire::{Connection, Error, RetryStatus, Vendor};

use crate::common::{ALL, MAX_ALLOWED_PACKET, connect, tcp, unix};

#[test]
fn the_server_is_recognised() {
    for kind in ALL {
        let c = Connection::connect(&unix(kind)).unwrap();
        let s = c.server();
        assert_eq!(s.vendor == Vendor::MariaDb, kind.is_mariadb());
        assert_eq!(s.has_bulk, kind.is_mariadb());
        assert!(s.version >= (9, 7, 0), "{:?}", s.version);
        assert!(s.is_unix_socket && s.connection_id > 0);
        assert_eq!(c.max_allowed_packet(), MAX_ALLOWED_PACKET);
        assert!(
            !Connection::connect(&tcp(kind))
                .unwrap()
                .server()
                .is_unix_socket
        );
    }
}

#[test]
fn values_come_back_as_they_are() {
    for kind in ALL {
        let mut c = connect(kind, "wire_values");
        c.exec("CREATE TABLE t (id INT PRIMARY KEY, b BLOB, n DECIMAL(20,5), d DATE)")
            .unwrap();
        let ok = c.exec("INSERT INTO t VALUES (1, x'00ff27', -1.5, '2024-02-29'), (2, '', NULL, NULL), (3, NULL, 0, '0001-01-01')").unwrap();
        assert_eq!((ok.affected_rows, ok.info_count("Records")), (3, Some(3)));
        let r = c.query("SELECT * FROM t ORDER BY id").unwrap();
        assert_eq!(
            (
                r.len(),
                r.columns.len(),
                r.columns[1].name.as_str(),
                r.columns[1].collation
            ),
            (3, 4, "b", 63)
        );
        assert_eq!(r.bytes(0, 1), Some(&[0, 0xff, 0x27][..]));
        assert_eq!((r.bytes(1, 1), r.bytes(2, 1)), (Some(&b""[..]), None));
        assert_eq!(
            (r.str(0, 2), r.get(0, "D"), r.u64(2, 0)),
            (Some("-1.50000"), Some("2024-02-29"), Some(3))
        );
        assert_eq!(c.query_value("SELECT NULL").unwrap(), None);
        assert_eq!(c.query_value("SELECT 'é'").unwrap().as_deref(), Some("é"));
        assert_eq!(c.query("SELECT 1 FROM t WHERE id = 9").unwrap().len(), 0);
    }
}

#[test]
fn errors_leave_the_connection_usable() {
    for kind in ALL {
        let mut c = connect(kind, "wire_errors");
        c.exec("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
        c.exec("INSERT INTO t VALUES (1)").unwrap();
        let dup = c.exec("INSERT INTO t VALUES (1)").unwrap_err();
        assert!(
            dup.is_duplicate_key() && dup.retry() == RetryStatus::Never,
            "{dup}"
        );
        assert!(matches!(&dup, Error::Server { sqlstate, .. } if sqlstate == "23000"));
        assert!(
            c.exec("SELECT x COLLATE utf8mb4_klingon_ci")
                .unwrap_err()
                .is_unknown_collation()
        );
        assert!(
            c.exec("SET NAMES klingon")
                .unwrap_err()
                .is_unknown_charset()
        );
        assert_eq!(
            c.exec("SELECT 1; SELECT 2").unwrap_err().server_code(),
            Some(1064),
            "several statements in one are off"
        );
        // An error in the middle of the rows.
        assert!(
            c.query("SELECT id, (SELECT 1 UNION SELECT 2) FROM t")
                .is_err()
        );
        assert_eq!(
            c.query_value("SELECT COUNT(*) FROM t").unwrap().as_deref(),
            Some("1")
        );
        assert_eq!(c.pending(), 0);
    }
}

#[test]
fn procedures_with_several_results_are_read_to_the_end() {
    for kind in ALL {
        let mut c = connect(kind, "wire_procs");
        c.exec(
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2, 3; INSERT INTO nowhere VALUES (1); END",
        )
        .unwrap();
        assert_eq!(c.exec("CALL p()").unwrap_err().server_code(), Some(1146));
        c.exec("CREATE PROCEDURE q() BEGIN SELECT 'a' AS x; SELECT 2, 3; END")
            .unwrap();
        let r = c.query("CALL q()").unwrap();
        assert_eq!((r.len(), r.str(0, 0)), (1, Some("a")));
        assert_eq!(c.query_value("SELECT 7").unwrap().as_deref(), Some("7"));
    }
}

#[test]
fn rows_stream_and_can_be_left() {
    for kind in ALL {
        let mut c = connect(kind, "wire_stream");
        let sql = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT a.n * 1000 + b.n, NULL, REPEAT('x', 50) FROM s a, s b WHERE a.n <= 100";
        let (mut sum, mut bytes) = (0_u64, 0);
        let end = c
            .query_each(sql, &mut |row| {
                sum += std::str::from_utf8(row.cell(0).unwrap())
                    .unwrap()
                    .parse::<u64>()
                    .unwrap();
                assert_eq!((row.cell(1), row.len()), (None, 3));
                bytes += row.cell(2).unwrap().len();
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((end.rows, end.stopped, bytes), (90_000, false, 4_500_000));
        assert_eq!(sum, 900 * 1000 * 5050 + 100 * 900 * 901 / 2);
        let mut seen = 0;
        let end = c
            .query_each(sql, &mut |_| {
                seen += 1;
                if seen == 10 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        assert_eq!((seen, end.stopped, end.rows), (10, true, 90_000));
        assert_eq!(c.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
    }
}

#[test]
fn forty_megabytes_go_there_and_back() {
    for kind in ALL {
        for options in [unix(kind), tcp(kind)] {
            let mut c = Connection::connect(&options).unwrap();
            let mut sql = b"SELECT '".to_vec();
            let text: Vec<u8> = (0..40_u32 << 20)
                .map(|i| b'a' + (i.wrapping_mul(2_654_435_761) >> 27) as u8 % 26)
                .collect();
            sql.extend_from_slice(&text);
            sql.push(b'\'');
            let r = c.query(&sql).unwrap();
            assert!(r.bytes(0, 0) == Some(&text[..]), "{kind}");
            assert_eq!(c.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
        }
    }
}

#[test]
fn packets_of_exactly_the_border_go_through() {
    const BORDER: usize = 0xff_ff_ff;
    for kind in ALL {
        let mut c = Connection::connect(&unix(kind)).unwrap();
        for length in [BORDER - 1, BORDER, BORDER + 1, 2 * BORDER] {
            // The command byte counts too.
            let fill = length - 1 - "SELECT LENGTH('')".len();
            let sql = format!("SELECT LENGTH('{}')", "y".repeat(fill));
            assert_eq!(
                c.query_value(&sql).unwrap(),
                Some(fill.to_string()),
                "{kind} {length}"
            );
        }
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_is_sent() {
    for kind in ALL {
        let mut c = Connection::connect(&unix(kind)).unwrap();
        let sql = vec![b' '; MAX_ALLOWED_PACKET];
        match c.exec(&sql).unwrap_err() {
            Error::PacketTooLarge { size, limit } => assert_eq!(
                (size, limit),
                (MAX_ALLOWED_PACKET + 1, MAX_ALLOWED_PACKET - 1)
            ),
            other => panic!("{other}"),
        }
        assert_eq!(
            c.query_value("SELECT 1").unwrap().as_deref(),
            Some("1"),
            "nothing was sent"
        );
        // The server accepts the longest command that we let through.
        let mut sql = b"SELECT 1 /*".to_vec();
        sql.resize(MAX_ALLOWED_PACKET - 2 - 2, b'x');
        sql.extend_from_slice(b"*/");
        assert_eq!(sql.len() + 1, MAX_ALLOWED_PACKET - 1);
        assert_eq!(c.query_value(&sql).unwrap().as_deref(), Some("1"));
    }
}

#[test]
fn commands_can_be_sent_ahead() {
    for kind in ALL {
        let mut c = connect(kind, "wire_ahead");
        c.exec("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
        for i in 0..100 {
            c.send_query(format!("INSERT INTO t VALUES ({})", i / 2 * 2).as_bytes())
                .unwrap();
        }
        assert_eq!(c.pending(), 100);
        let failed = (0..100)
            .filter(|_| c.read_result().is_err_and(|e| e.is_duplicate_key()))
            .count();
        assert_eq!(failed, 50);
        assert!(matches!(c.read_result(), Err(Error::Busy { .. })));
        assert_eq!(
            c.query_value("SELECT COUNT(*) FROM t").unwrap().as_deref(),
            Some("50")
        );
    }
}

#[test]
fn warnings_are_listed() {
    for kind in ALL {
        let mut c = connect(kind, "wire_warn");
        c.exec("SET sql_mode = ''").unwrap();
        c.exec("CREATE TABLE t (n TINYINT)").unwrap();
        let ok = c.exec("INSERT INTO t VALUES (1000), ('x')").unwrap();
        assert_eq!((ok.warnings, ok.info_count("Warnings")), (2, Some(2)));
        let w = c.warnings().unwrap();
        assert_eq!(
            (w.len(), w[0].code, w[0].level.as_str(), w[1].code),
            (2, 1264, "Warning", 1366)
        );
        assert!(w[0].message.contains("'n'"), "{}", w[0].message);
    }
}

#[test]
fn rows_of_prepared_statements_are_bytes_of_memory() {
    for kind in ALL {
        let mut c = connect(kind, "wire_binary");
        c.exec(
            "CREATE TABLE t (i INT, n TINYINT, f FLOAT, d DOUBLE, s VARCHAR(300), y YEAR, b BIGINT UNSIGNED, v DECIMAL(5,2), t DATETIME(6))",
        )
        .unwrap();
        c.exec(
            "INSERT INTO t VALUES (-2, 7, 0.1, -1e300, REPEAT('é', 150), 2024, 18446744073709551615, 1.5, '2024-01-02'), \
             (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .unwrap();
        let s = c.prepare("SELECT * FROM t ORDER BY i DESC").unwrap();
        let mut rows: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
        let end = c
            .query_each_binary(&s, &mut |row| {
                rows.push(row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect());
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((end.rows, rows.len()), (2, 2));
        let cell = |at: usize| rows[0][at].clone().unwrap();
        assert_eq!(cell(0), (-2_i32).to_le_bytes());
        assert_eq!(cell(1), [7]);
        assert_eq!(cell(2), 0.1_f32.to_le_bytes());
        assert_eq!(cell(3), (-1e300_f64).to_le_bytes());
        assert_eq!(cell(4), "é".repeat(150).as_bytes());
        assert_eq!(cell(5), 2024_u16.to_le_bytes());
        assert_eq!(cell(6), u64::MAX.to_le_bytes());
        assert_eq!(cell(7), b"1.50");
        assert_eq!(cell(8)[..4], [0xe8, 0x07, 1, 2]);
        assert!(rows[1].iter().all(Option::is_none));
        let asked = c.prepare("SELECT ?").unwrap();
        assert!(
            c.query_each_binary(&asked, &mut |_| ControlFlow::Continue(()))
                .is_err()
        );
    }
}

#[test]
fn ping_reset_and_prepared_statements() {
    for kind in ALL {
        let mut c = connect(kind, "wire_prep");
        c.ping().unwrap();
        c.exec("CREATE TABLE t (a INT, b VARCHAR(10))").unwrap();
        let s = c.prepare("INSERT INTO wire_prep.t VALUES (?, ?)").unwrap();
        assert_eq!((s.params, s.columns.len()), (2, 0));
        assert_eq!(c.execute(&s, &[Some(b"7"), None]).unwrap().affected_rows, 1);
        assert_eq!(
            c.execute(&s, &[None, Some("é".as_bytes())])
                .unwrap()
                .affected_rows,
            1
        );
        c.close_statement(&s).unwrap();
        assert_eq!(
            c.execute(&s, &[None, None]).unwrap_err().server_code(),
            Some(1243)
        );
        assert!(c.prepare("INSERT INTO nowhere.t VALUES (?)").is_err());
        assert_eq!(
            c.query_value("SELECT CONCAT(SUM(a), MAX(b)) FROM t")
                .unwrap()
                .as_deref(),
            Some("7é")
        );
        assert!(c.exec("BEGIN").unwrap().in_transaction());
        c.exec("SET @x = 1").unwrap();
        c.reset().unwrap();
        assert_eq!(c.query_value("SELECT @x").unwrap(), None);
    }
}
