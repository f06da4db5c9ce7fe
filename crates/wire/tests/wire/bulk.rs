use refloat_wire::{BulkPacket, BulkType, Error};

use crate::common::{ALL, MARIADB, connect};

const ROWS: u64 = 100_000;

#[test]
fn a_hundred_thousand_rows_of_every_kind() {
    for kind in MARIADB {
        let mut c = connect(kind, "wire_bulk");
        c.exec("CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, n BIGINT, s VARCHAR(300), b BLOB, d INT DEFAULT 42, x DOUBLE, m DECIMAL(30,10))").unwrap();
        c.exec("SET NAMES utf8mb4").unwrap();
        let s = c
            .prepare("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)")
            .unwrap();
        let types = [
            BulkType::LongLongUnsigned,
            BulkType::LongLong,
            BulkType::String,
            BulkType::Blob,
            BulkType::Long,
            BulkType::Double,
            BulkType::Decimal,
        ];
        let mut p = BulkPacket::new(&s, &types);
        let all: Vec<u8> = (0..=255).collect();
        c.exec("BEGIN").unwrap();
        for id in 0..ROWS {
            p.put_u64(u64::MAX - id);
            if id % 3 == 0 {
                p.put_null();
            } else {
                p.put_i64(-id.cast_signed());
            }
            p.put_with(600, |out| {
                out.extend_from_slice("é".repeat(id as usize % 120).as_bytes());
            });
            p.put_bytes(&all[..(id % 257) as usize]);
            if id.is_multiple_of(2) {
                p.put_default();
            } else {
                p.put_i32(id as i32);
            }
            p.put_f64(id as f64 / 8.0);
            p.put_bytes(format!("{id}.0123456789").as_bytes());
            p.end_row();
            if p.rows() == 7_000 || id == ROWS - 1 {
                c.bulk_send(&p).unwrap();
                let sent = p.rows() as u64;
                p.clear();
                let ok = c.read_result().unwrap();
                assert_eq!((ok.affected_rows, ok.warnings), (sent, 0));
            }
        }
        c.exec("COMMIT").unwrap();
        let mut seen = 0;
        let check = "SELECT 18446744073709551615 - id, n, s, b, d, x, m FROM t ORDER BY id DESC";
        c.query_each(check, &mut |row| {
            let id: u64 = seen;
            let text = |i: usize| std::str::from_utf8(row.cell(i).unwrap()).unwrap();
            assert_eq!(text(0), id.to_string());
            assert_eq!(row.cell(1).is_none(), id.is_multiple_of(3));
            assert_eq!(text(2), "é".repeat(id as usize % 120));
            assert_eq!(row.cell(3).unwrap(), &all[..(id % 257) as usize]);
            assert_eq!(
                text(4),
                if id.is_multiple_of(2) {
                    "42".to_owned()
                } else {
                    id.to_string()
                }
            );
            assert!((text(5).parse::<f64>().unwrap() - id as f64 / 8.0).abs() < f64::EPSILON);
            assert_eq!(text(6), format!("{id}.0123456789"));
            seen += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(seen, ROWS);
    }
}

#[test]
fn a_blob_is_never_converted_and_text_is() {
    for kind in MARIADB {
        let mut c = connect(kind, "wire_bulkcs");
        c.exec("CREATE TABLE t (id INT, l VARCHAR(10) CHARACTER SET latin1, g VARCHAR(10) CHARACTER SET gbk, b VARBINARY(10))").unwrap();
        c.exec("SET NAMES utf8mb4").unwrap();
        let s = c.prepare("INSERT INTO t VALUES (?, ?, ?, ?)").unwrap();
        let mut p = BulkPacket::new(
            &s,
            &[
                BulkType::Long,
                BulkType::String,
                BulkType::Blob,
                BulkType::String,
            ],
        );
        p.put_i32(1);
        p.put_bytes("é".as_bytes());
        p.put_bytes(&[0xbf, 0x5c]);
        p.put_bytes("é".as_bytes());
        p.end_row();
        c.bulk_send(&p).unwrap();
        c.read_result().unwrap();
        let r = c.query("SELECT HEX(l), HEX(g), HEX(b) FROM t").unwrap();
        assert_eq!(
            (r.str(0, 0), r.str(0, 1), r.str(0, 2)),
            (Some("E9"), Some("BF5C"), Some("C3A9"))
        );
    }
}

#[test]
fn packets_over_sixteen_megabytes_and_sent_ahead() {
    for kind in MARIADB {
        let mut c = connect(kind, "wire_bulkbig");
        c.exec("CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
            .unwrap();
        let s = c.prepare("INSERT INTO t VALUES (?, ?)").unwrap();
        let mut p = BulkPacket::new(&s, &[BulkType::Long, BulkType::Blob]);
        let big = vec![0xa5; 9 << 20];
        for part in 0..3 {
            p.clear();
            for row in 0..4 {
                p.put_i32(part * 4 + row);
                p.put_bytes(&big);
                p.end_row();
            }
            c.bulk_send(&p).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(c.read_result().unwrap().affected_rows, 4);
        }
        let r = c
            .query_value(
                "SELECT CONCAT(COUNT(*), ' ', SUM(LENGTH(b)), ' ', COUNT(DISTINCT MD5(b))) FROM t",
            )
            .unwrap();
        assert_eq!(r, Some(format!("12 {} 1", 12 * (9 << 20))));
        // A duplicate in the middle causes an error, and the connection stays usable.
        p.clear();
        p.put_i32(3);
        p.put_null();
        p.end_row();
        c.bulk_send(&p).unwrap();
        assert!(c.read_result().unwrap_err().is_duplicate_key());
        for _ in 0..8 {
            p.put_i32(1);
            p.put_bytes(&big);
            p.end_row();
        }
        assert!(matches!(c.bulk_send(&p), Err(Error::PacketTooLarge { .. })));
        c.ping().unwrap();
    }
}

#[test]
fn a_server_without_it_says_so() {
    for kind in ALL.into_iter().filter(|k| !k.is_mariadb()) {
        let mut c = connect(kind, "wire_nobulk");
        c.exec("CREATE TABLE t (id INT)").unwrap();
        let s = c.prepare("INSERT INTO t VALUES (?)").unwrap();
        let mut p = BulkPacket::new(&s, &[BulkType::Long]);
        p.put_i32(1);
        p.end_row();
        assert!(matches!(c.bulk_send(&p), Err(Error::Unsupported { .. })));
    }
}
