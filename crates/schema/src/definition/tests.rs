use super::*;

mod columns;
mod keys;

const CREATE: &str = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT COMMENT ' AUTO_INCREMENT=7',\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=12 DEFAULT CHARSET=utf8mb4";
const MARIADB: ServerVersion = ServerVersion {
    vendor: Vendor::MariaDb,
    version: (11, 8, 3),
};
const OLD_MARIADB: ServerVersion = ServerVersion {
    vendor: Vendor::MariaDb,
    version: (10, 6, 11),
};
const MYSQL: ServerVersion = ServerVersion {
    vendor: Vendor::MySql,
    version: (9, 7, 0),
};
const OLD_MYSQL: ServerVersion = ServerVersion {
    vendor: Vendor::MySql,
    version: (5, 7, 44),
};

fn found_in(server: ServerVersion, mode: LexMode, dump: &str, create: &str) -> Vec<String> {
    differences(server, "d.t", dump.as_bytes(), mode, create)
        .into_iter()
        .map(|one| one.about.replace("table d.t: ", ""))
        .collect()
}

#[test]
fn collations_that_a_dump_leaves_to_another_server_are_named() {
    let found = |dump: &str, create: &str| -> Vec<String> {
        let found = other_defaults(MARIADB, dump.as_bytes(), LexMode::default(), create);
        let text = |one: OtherDefault| {
            let column = one.column.unwrap_or_default();
            format!("{column}:{}>{}", one.old, one.new)
        };
        found.into_iter().map(text).collect()
    };
    let columns = "`a` varchar(9) CHARACTER SET utf16, `b` varchar(9), `c` varchar(9) CHARACTER SET latin1, `d` char(1) COLLATE utf8mb4_bin";
    let there = "CREATE TABLE `t` (\n  `a` varchar(9) CHARACTER SET utf16 COLLATE utf16_uca1400_ai_ci,\n  `b` varchar(9),\n  `c` varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci,\n  `d` char(1) COLLATE utf8mb4_bin\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci";
    assert_eq!(
        found(
            &format!("CREATE TABLE `t` ({columns}) DEFAULT CHARSET=utf8mb4"),
            there
        ),
        [
            ":utf8mb4_general_ci>utf8mb4_uca1400_ai_ci",
            "a:utf16_general_ci>utf16_uca1400_ai_ci"
        ]
    );
    let explicit = format!(
        "CREATE TABLE `t` ({}) CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci",
        columns.replace("utf16", "utf16 COLLATE utf16_uca1400_ai_ci")
    );
    assert!(found(&explicit, there).is_empty(), "the dump says so");
    let old = there.replace("uca1400_ai_ci", "general_ci");
    let implicit = format!("CREATE TABLE `t` ({columns}) CHARSET=utf8mb4");
    assert!(found(&implicit, &old).is_empty(), "it is the same");
}

/// The whole statement with this body, as servers print it.
fn statement(body: &str, options: &str) -> String {
    format!("CREATE TABLE `t` (\n  {body}\n) ENGINE=InnoDB {options}")
}

/// Asserts that there is no difference between these bodies.
#[track_caller]
fn same(server: ServerVersion, dump: &str, create: &str) {
    let options = "DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin";
    let found = found_in(
        server,
        LexMode::default(),
        &statement(dump, options),
        &statement(create, options),
    );
    assert!(found.is_empty(), "{found:?}");
}

/// Asserts exactly this difference between these bodies.
#[track_caller]
fn differs(server: ServerVersion, dump: &str, create: &str, about: &str) {
    let options = "DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin";
    let found = found_in(
        server,
        LexMode::default(),
        &statement(dump, options),
        &statement(create, options),
    );
    assert_eq!(found, [about]);
}

/// Differences between these options after a single column.
fn options(server: ServerVersion, dump: &str, create: &str) -> Vec<String> {
    let table = |options: &str| format!("CREATE TABLE `t` (\n  `a` int\n) {options}");
    found_in(server, LexMode::default(), &table(dump), &table(create))
}

#[test]
fn only_the_table_option_is_left_out() {
    let without = without_auto_increment(CREATE);
    assert!(without.contains("COMMENT ' AUTO_INCREMENT=7'"));
    assert!(!without.contains("=12"));
    assert_eq!(
        fingerprint(CREATE),
        fingerprint(&CREATE.replace("=12", "=13"))
    );
    assert_ne!(
        fingerprint(CREATE),
        fingerprint(&CREATE.replace("int", "bigint"))
    );
}

#[test]
fn the_next_number_is_read_from_the_options_only() {
    let next = |options: &str| {
        next_auto_increment(&format!(
            "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT COMMENT ' AUTO_INCREMENT=7'\n) ENGINE=InnoDB{options}"
        ))
    };
    assert_eq!(next(" AUTO_INCREMENT=42 DEFAULT CHARSET=latin1"), Some(42));
    assert_eq!(next(" AUTO_INCREMENT=18446744073709551615"), Some(u64::MAX));
    assert_eq!(next(" DEFAULT CHARSET=latin1"), None);
    assert_eq!(
        next(" DEFAULT CHARSET=latin1 COMMENT=' AUTO_INCREMENT=7'"),
        None
    );
}

#[test]
fn the_next_number_is_no_difference() {
    assert!(
        found_in(
            MYSQL,
            LexMode::default(),
            CREATE,
            &CREATE.replace("=12", "=1")
        )
        .is_empty()
    );
}

#[test]
fn conditional_comments_count_for_the_servers_they_name() {
    let dump = "`a` int, `b` int /*!80023 INVISIBLE */, KEY `k` (`b`) /*!80000 INVISIBLE */";
    let create = "`a` int(11) DEFAULT NULL,\n  `b` int(11) DEFAULT NULL,\n  KEY `k` (`b`)";
    same(MARIADB, dump, create);
    same(OLD_MYSQL, dump, create);
    same(MYSQL, "`a` text /*M!100301 COMPRESSED*/", "`a` text");
    let partitions = "/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 4 */";
    assert!(
        options(
            MARIADB,
            partitions,
            "ENGINE=InnoDB\n PARTITION BY HASH (`a`)\nPARTITIONS 4"
        )
        .is_empty()
    );
    assert_eq!(
        options(MARIADB, partitions, "ENGINE=InnoDB"),
        ["partitions"]
    );
    let nested = "/*!99999 COMMENT='x' /*!50100 COMMENT='y' */ */ COMMENT='z'";
    assert!(options(MYSQL, nested, "ENGINE=InnoDB COMMENT='z'").is_empty());
}

#[test]
fn partitions() {
    let list = "PARTITION BY RANGE (`a`)\n(PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB,\n PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB)";
    let dump = format!("/*!50100 {list} */");
    let create = format!(
        "ENGINE=InnoDB\n {}",
        list.replace("p0", "`p0`").replace("p1", "`p1`")
    );
    assert!(options(MARIADB, &dump, &create).is_empty());
    for change in [
        create.replace("RANGE", "LIST"),
        create.replace("`p1`", "`p2`"),
        create.replace(
            " ENGINE = InnoDB,\n",
            " ENGINE = InnoDB,\n PARTITION px VALUES LESS THAN (20),",
        ),
        "ENGINE=InnoDB".to_owned(),
    ] {
        assert_eq!(options(MARIADB, &dump, &change), ["partitions"]);
    }
}

#[test]
fn options_of_the_table() {
    for (dump, create) in [
        (
            "ENGINE=innodb STATS_PERSISTENT=1 MAX_ROWS=5",
            "ENGINE=InnoDB DEFAULT CHARSET=latin1",
        ),
        ("TYPE=heap", "ENGINE=MEMORY"),
        ("ENGINE=Aria", "ENGINE=Aria PAGE_CHECKSUM=1 TRANSACTIONAL=1"),
        (
            "ENGINE=InnoDB /*!80016 DEFAULT ENCRYPTION='N' */",
            "ENGINE=InnoDB",
        ),
        (
            "ENGINE=InnoDB `PAGE_COMPRESSED`='1'",
            "ENGINE=InnoDB `PAGE_COMPRESSED`=ON",
        ),
        ("ENGINE=InnoDB ROW_FORMAT=DEFAULT", "ENGINE=InnoDB"),
    ] {
        assert_eq!(options(MYSQL, dump, create), Vec::<String>::new());
    }
    for (dump, create, about) in [
        ("ENGINE=MyISAM", "ENGINE=InnoDB", "engine"),
        (
            "ENGINE=InnoDB ROW_FORMAT=COMPRESSED",
            "ENGINE=InnoDB",
            "ROW_FORMAT",
        ),
        (
            "ENGINE=InnoDB KEY_BLOCK_SIZE=8",
            "ENGINE=InnoDB",
            "KEY_BLOCK_SIZE",
        ),
        (
            "ENGINE=InnoDB COMMENT='it''s'",
            "ENGINE=InnoDB COMMENT='its'",
            "comment",
        ),
        (
            "ENGINE=InnoDB COMPRESSION='zlib'",
            "ENGINE=InnoDB /* `COMPRESSION`='zlib' */",
            "COMPRESSION",
        ),
        (
            "ENGINE=InnoDB WITH SYSTEM VERSIONING",
            "ENGINE=InnoDB",
            "WITH SYSTEM VERSIONING",
        ),
        (
            "ENGINE=MyISAM DATA DIRECTORY='/x/'",
            "ENGINE=MyISAM",
            "DATA DIRECTORY",
        ),
    ] {
        assert_eq!(options(MARIADB, dump, create), [about]);
    }
}

#[test]
fn texts_in_other_character_sets_and_modes() {
    let found = |mode, dump: &[u8], create: &str| {
        let dump = [b"CREATE TABLE t (`a` int COMMENT '", dump, b"')"].concat();
        let create = format!("CREATE TABLE `t` (\n  `a` int COMMENT '{create}'\n) ENGINE=InnoDB");
        differences(MYSQL, "d.t", &dump, mode, &create).len()
    };
    let latin1 = LexMode::default();
    assert_eq!(found(latin1, b"caf\xE9", "caf\u{e9}"), 0);
    assert_eq!(found(latin1, b"caf\xE9", "caf?"), 1);
    let sjis = LexMode {
        charset_family: refloat_sqltext::CharsetFamily::Sjis,
        ..LexMode::default()
    };
    assert_eq!(found(sjis, b"\x95\x5C", "\u{8868}"), 0);
    let plain = LexMode::default().with_sql_mode(b"NO_BACKSLASH_ESCAPES");
    assert_eq!(found(plain, b"a\\n", "a\\\\n"), 0);
    let ansi = LexMode::default().with_sql_mode(b"ANSI_QUOTES");
    assert!(
        found_in(
            MYSQL,
            ansi,
            "CREATE TABLE \"t\" (\"a\" int DEFAULT NULL, KEY \"k\" (\"a\"))",
            "CREATE TABLE \"t\" (\n  \"a\" int DEFAULT NULL,\n  KEY \"k\" (\"a\")\n)"
        )
        .is_empty()
    );
}

#[test]
fn what_is_uncertain_is_left_alone() {
    let create = statement("`a` int DEFAULT NULL", "");
    for dump in [
        "CREATE TABLE t LIKE u",
        "CREATE TABLE t SELECT 1 AS a",
        "CREATE TABLE t (a some_type(5))",
    ] {
        assert_eq!(
            found_in(MYSQL, LexMode::default(), dump, &create),
            Vec::<String>::new(),
            "{dump}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_equal() {
    let create = statement("`a` int DEFAULT NULL", "");
    for (dump, create) in [
        ("CREATE TABLE t (`a`", create.as_str()),
        ("no statement", &create),
        (&create, ""),
    ] {
        assert_eq!(
            found_in(MYSQL, LexMode::default(), dump, create),
            ["not compared"],
            "{dump}"
        );
    }
}
