use super::*;

#[test]
fn widths_and_names_of_types_are_spelling() {
    same(
        MYSQL,
        "`a` int(11) NOT NULL, `b` bigint(20) unsigned DEFAULT NULL",
        "`a` int NOT NULL, `b` bigint unsigned DEFAULT NULL",
    );
    same(
        MARIADB,
        "`a` int, `y` year",
        "`a` int(11) DEFAULT NULL,\n  `y` year(4) DEFAULT NULL",
    );
    same(
        MARIADB,
        "a INTEGER, b BOOL, c DEC, d NUMERIC(5), e DOUBLE PRECISION, f FLOAT(30), g REAL, h BIT, i CHAR, j TEXT(300), k NATIONAL VARCHAR(5)",
        "`a` int(11), `b` tinyint(1), `c` decimal(10,0), `d` decimal(5,0), `e` double, `f` double, `g` double, `h` bit(1), `i` char(1), `j` text, `k` varchar(5) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
    );
    same(
        MYSQL,
        "`z` int(8) unsigned zerofill",
        "`z` int(8) unsigned zerofill DEFAULT NULL",
    );
    same(
        MYSQL,
        "`g` geometrycollection DEFAULT NULL",
        "`g` geomcollection DEFAULT NULL",
    );
    same(
        MYSQL,
        "`e` enum('it''s','b ') DEFAULT NULL",
        "`e` enum('it\\'s','b') DEFAULT NULL",
    );
    same(
        MYSQL,
        "`id` SERIAL",
        "`id` bigint unsigned NOT NULL AUTO_INCREMENT,\n  UNIQUE KEY `id` (`id`)",
    );
}

/// A dump may also stand in for the server.
#[test]
fn what_a_primary_key_makes_not_null_need_not_be_written() {
    for (dump, other) in [
        ("`a` int NOT NULL, PRIMARY KEY (`a`)", "`a` int PRIMARY KEY"),
        ("`a` int PRIMARY KEY", "`a` int NOT NULL, PRIMARY KEY (`a`)"),
        ("`a` int PRIMARY KEY", "`a` int, PRIMARY KEY (`a`)"),
    ] {
        same(MYSQL, dump, other);
        same(MARIADB, dump, other);
    }
    differs(
        MYSQL,
        "`a` int NOT NULL, UNIQUE KEY (`a`)",
        "`a` int, UNIQUE KEY (`a`)",
        "column a: NULL",
    );
}

#[test]
fn another_type_is_a_difference() {
    for (dump, create) in [
        ("`a` varchar(70000)", "`a` mediumtext"),
        ("`a` varchar(10)", "`a` varchar(9)"),
        ("`a` decimal(10,2)", "`a` decimal(10,0)"),
        ("`a` int unsigned", "`a` int"),
        ("`a` int(8) zerofill", "`a` int(9) unsigned zerofill"),
        ("`a` datetime(6)", "`a` datetime"),
        ("`a` enum('x','y')", "`a` enum('x','z')"),
        ("`a` float(7,3)", "`a` float"),
        ("`a` vector(3)", "`a` vector(4)"),
    ] {
        differs(MYSQL, dump, create, "column a: type");
    }
}

#[test]
fn json_of_mariadb_is_a_name() {
    same(
        MARIADB,
        "`j` json DEFAULT NULL",
        "`j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`))",
    );
    same(
        MYSQL,
        "`j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`))",
        "`j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,\n  CONSTRAINT `t_chk_1` CHECK (json_valid(`j`))",
    );
}

#[test]
fn defaults_are_compared_by_value() {
    same(
        MARIADB,
        "`a` int DEFAULT '0', `b` decimal(10,2) DEFAULT '1.5'",
        "`a` int(11) DEFAULT 0,\n  `b` decimal(10,2) DEFAULT 1.50",
    );
    same(
        MYSQL,
        "`a` int DEFAULT NULL, `b` varchar(5)",
        "`a` int,\n  `b` varchar(5) DEFAULT NULL",
    );
    same(
        MYSQL,
        "`a` double DEFAULT 1e-7, `b` bit(5) DEFAULT 5, `c` bool DEFAULT TRUE",
        "`a` double DEFAULT '0.0000001',\n  `b` bit(5) DEFAULT b'101',\n  `c` tinyint(1) DEFAULT '1'",
    );
    same(
        MARIADB,
        "`a` varchar(5) DEFAULT (_utf8mb4'abc')",
        "`a` varchar(5) DEFAULT 'abc'",
    );
    same(
        MARIADB,
        "`a` varchar(36) DEFAULT (uuid()), `d` date DEFAULT (curdate())",
        "`a` varchar(36) DEFAULT uuid(),\n  `d` date DEFAULT curdate()",
    );
    same(
        MYSQL,
        "`a` varbinary(4) DEFAULT 'ab'",
        "`a` varbinary(4) DEFAULT x'6162'",
    );
    same(
        MYSQL,
        "`a` set('x','y') DEFAULT 'y,x', `b` enum('X') DEFAULT 'x'",
        "`a` set('x','y') DEFAULT 'x,y',\n  `b` enum('X') DEFAULT 'X'",
    );
    same(
        MYSQL,
        "`a` datetime DEFAULT '2001-02-03', `b` time DEFAULT '10:11'",
        "`a` datetime DEFAULT '2001-02-03 00:00:00',\n  `b` time DEFAULT '10:11:00'",
    );
    for (dump, create) in [
        ("`a` text DEFAULT 'x'", "`a` text"),
        ("`a` int DEFAULT '1'", "`a` int DEFAULT '2'"),
        ("`a` int DEFAULT NULL", "`a` int DEFAULT '0'"),
        (
            "`a` bigint DEFAULT 9223372036854775807",
            "`a` bigint DEFAULT '9223372036854775806'",
        ),
        ("`a` varchar(5) DEFAULT ''", "`a` varchar(5) DEFAULT NULL"),
        ("`a` varchar(5) DEFAULT 'x'", "`a` varchar(5) DEFAULT 'X'"),
        (
            "`a` datetime DEFAULT '2001-02-03'",
            "`a` datetime DEFAULT '2001-02-04 00:00:00'",
        ),
        (
            "`a` varchar(36) DEFAULT (uuid())",
            "`a` varchar(36) DEFAULT NULL",
        ),
    ] {
        differs(MYSQL, dump, create, "column a: default");
    }
}

#[test]
fn times_that_are_set_by_themselves() {
    same(
        MARIADB,
        "`a` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, `b` datetime(6) DEFAULT NOW(6)",
        "`a` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),\n  `b` datetime(6) DEFAULT current_timestamp(6)",
    );
    // An old mode fills in what a timestamp does not say.
    same(
        MYSQL,
        "`a` timestamp",
        "`a` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
    );
    differs(
        MYSQL,
        "`a` timestamp NULL DEFAULT NULL",
        "`a` timestamp NOT NULL",
        "column a: NULL",
    );
    differs(
        MYSQL,
        "`a` datetime DEFAULT NOW() ON UPDATE NOW()",
        "`a` datetime DEFAULT CURRENT_TIMESTAMP",
        "column a: ON UPDATE",
    );
}

#[test]
fn what_columns_say_besides() {
    differs(
        MYSQL,
        "`a` int NOT NULL",
        "`a` int DEFAULT NULL",
        "column a: NULL",
    );
    differs(
        MYSQL,
        "`a` int NOT NULL AUTO_INCREMENT, KEY (a)",
        "`a` int NOT NULL,\n  KEY `a` (`a`)",
        "column a: AUTO_INCREMENT",
    );
    differs(MYSQL, "`a` int COMMENT 'x'", "`a` int", "column a: comment");
    differs(
        MYSQL,
        "`a` int, `b` int AS (a + 1) STORED",
        "`a` int,\n  `b` int GENERATED ALWAYS AS ((`a` + 1)) VIRTUAL",
        "column b: value",
    );
    differs(
        MYSQL,
        "`a` point /*!80003 SRID 4326 */",
        "`a` point DEFAULT NULL",
        "column a: SRID",
    );
    differs(
        MYSQL,
        "`a` int, `b` int /*!80023 INVISIBLE */",
        "`a` int,\n  `b` int",
        "column b: INVISIBLE",
    );
    differs(
        MARIADB,
        "`a` text /*M!100301 COMPRESSED*/",
        "`a` text",
        "column a: COMPRESSED",
    );
    differs(MYSQL, "`a` int, `b` int", "`a` int", "columns");
    same(
        MARIADB,
        "`a` int, `v` varchar(9) GENERATED ALWAYS AS (concat(_utf8mb4'x',`a`)) VIRTUAL, `c` int COMMENT 'caf\u{e9}\\n'",
        "`a` int(11) DEFAULT NULL,\n  `v` varchar(9) GENERATED ALWAYS AS (concat('x',`a`)) VIRTUAL,\n  `c` int(11) DEFAULT NULL COMMENT 'caf\u{e9}\\n'",
    );
    same(
        MYSQL,
        "a INT PRIMARY KEY, b INT UNIQUE",
        "`a` int NOT NULL,\n  `b` int DEFAULT NULL,\n  PRIMARY KEY (`a`),\n  UNIQUE KEY `b` (`b`)",
    );
    // A primary key that the server adds where there is none.
    same(
        MYSQL,
        "`a` int",
        "`my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,\n  `a` int DEFAULT NULL,\n  PRIMARY KEY (`my_row_id`)",
    );
}

#[test]
fn collations() {
    let columns = |text: &str| format!("`a` varchar(5) {text}");
    for (dump, create) in [
        // For a character set alone, the collation is up to the server.
        (
            "CHARACTER SET latin1",
            "CHARACTER SET latin1 COLLATE latin1_german1_ci",
        ),
        (
            "CHARACTER SET utf8",
            "CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
        ),
        (
            "CHARACTER SET utf8 COLLATE utf8_bin",
            "CHARACTER SET utf8mb3 COLLATE utf8mb3_bin",
        ),
        // A mode of MariaDB decides what `utf8` means.
        (
            "CHARACTER SET utf8 COLLATE utf8_bin",
            "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ),
        ("COLLATE latin1_swedish_ci", "CHARACTER SET latin1"),
        ("COLLATE utf8mb4_bin", ""),
        ("", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        (
            "COLLATE utf8mb4_0900_ai_ci",
            "COLLATE utf8mb4_uca1400_ai_ci",
        ),
        (
            "CHARACTER SET utf8mb4 COLLATE uca1400_as_ci",
            "COLLATE utf8mb4_uca1400_as_ci",
        ),
    ] {
        same(MARIADB, &columns(dump), &columns(create));
    }
    for (dump, create) in [
        ("CHARACTER SET latin1", ""),
        ("CHARACTER SET utf8mb3", ""),
        (
            "COLLATE utf8_bin",
            "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        ),
        ("COLLATE utf8mb4_unicode_ci", "COLLATE utf8mb4_general_ci"),
        ("COLLATE latin1_bin", "CHARACTER SET latin1"),
        ("", "CHARACTER SET latin1"),
    ] {
        differs(
            MARIADB,
            &columns(dump),
            &columns(create),
            "column a: collation",
        );
    }
    assert_eq!(
        options(
            MYSQL,
            "CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
            "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
        ),
        ["collation"]
    );
    assert!(
        options(
            MYSQL,
            "CHARSET=utf8mb4",
            "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
        )
        .is_empty()
    );
    assert!(options(MYSQL, "", "ENGINE=InnoDB DEFAULT CHARSET=latin1").is_empty());
}
