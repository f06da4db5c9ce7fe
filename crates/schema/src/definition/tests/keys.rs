use super::*;

#[test]
fn keys() {
    let columns = "`a` int NOT NULL, `b` varchar(10) NOT NULL, `c` text";
    let with = |keys: &str| format!("{columns}, {keys}");
    for (dump, create) in [
        (
            "KEY `x` (`b`(10)), KEY `y` (`a`)",
            "KEY `y` (`a`),\n  KEY `x` (`b`) USING BTREE",
        ),
        (
            "KEY (a), KEY (a), UNIQUE (b, a)",
            "UNIQUE KEY `b` (`b`,`a`),\n  KEY `a` (`a`),\n  KEY `a_2` (`a`)",
        ),
        ("KEY `x` (`a`) /*!80000 NOT IGNORED */", "KEY `x` (`a`)"),
        ("KEY `x` ((a + 1))", "KEY `x` (((`a` + 1)))"),
        ("FULLTEXT KEY `f` (`b`(3))", "FULLTEXT KEY `f` (`b`)"),
        ("CONSTRAINT `u` UNIQUE (A)", "UNIQUE KEY `u` (`a`)"),
    ] {
        same(MYSQL, &with(dump), &with(create));
    }
    for (dump, create) in [
        ("KEY `x` (`a` DESC)", "KEY `x` (`a`)"),
        ("KEY `x` (`c`(1000))", "KEY `x` (`c`(767))"),
        ("KEY `x` (`c`)", "KEY `x` (`c`(767))"),
        ("UNIQUE KEY `x` (`a`)", "KEY `x` (`a`)"),
        ("KEY `x` (`a`), KEY `y` (`b`)", "KEY `y` (`b`)"),
        ("KEY `x` (`a`,`b`)", "KEY `x` (`b`,`a`)"),
        (
            "UNIQUE KEY `y` (`b`)",
            "UNIQUE KEY `y` (`b`),\n  UNIQUE KEY `z` (`a`)",
        ),
    ] {
        differs(OLD_MARIADB, &with(dump), &with(create), "key");
    }
    differs(
        MYSQL,
        &with("KEY `x` (`a`) COMMENT 'c'"),
        &with("KEY `x` (`a`)"),
        "comment of key x",
    );
    differs(
        MYSQL,
        &with("KEY `x` (`a`) /*!80000 INVISIBLE */"),
        &with("KEY `x` (`a`)"),
        "key x: hidden from the optimiser",
    );
    let memory = |keys: &str| format!("CREATE TABLE t (`a` int, {keys}) ENGINE=MEMORY");
    let found = |dump: &str, create: &str| {
        found_in(MYSQL, LexMode::default(), &memory(dump), &memory(create))
    };
    assert!(found("KEY k (a) USING HASH", "KEY k (a)").is_empty());
    assert_eq!(
        found("KEY k (a) USING BTREE", "KEY k (a)"),
        ["key k: USING"]
    );
}

#[test]
fn foreign_keys() {
    let with = |keys: &str| format!("`a` int, `b` int, {keys}");
    for (dump, create) in [
        (
            "CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`x`) ON DELETE RESTRICT",
            "KEY `f` (`a`),\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`x`)",
        ),
        (
            "FOREIGN KEY (a) REFERENCES d.P (X) ON UPDATE NO ACTION",
            "KEY `a` (`a`),\n  CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `p` (`x`)",
        ),
    ] {
        same(MYSQL, &with(dump), &with(create));
    }
    for (dump, create) in [
        ("FOREIGN KEY (a) REFERENCES p (x)", "KEY (b)"),
        (
            "FOREIGN KEY (a) REFERENCES p (x) ON DELETE CASCADE",
            "FOREIGN KEY (a) REFERENCES p (x)",
        ),
        (
            "FOREIGN KEY (a) REFERENCES p (x)",
            "FOREIGN KEY (a) REFERENCES q (x)",
        ),
        (
            "CONSTRAINT f FOREIGN KEY (a) REFERENCES p (x)",
            "CONSTRAINT g FOREIGN KEY (a) REFERENCES p (x)",
        ),
    ] {
        let found = found_in(
            MYSQL,
            LexMode::default(),
            &statement(&with(dump), ""),
            &statement(&with(create), ""),
        );
        assert!(found.contains(&"foreign key".to_owned()), "{found:?}");
    }
    // MyISAM keeps the key and nothing else.
    differs(
        MYSQL,
        "`a` int, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (x)",
        "`a` int DEFAULT NULL,\n  KEY `f` (`a`)",
        "foreign key",
    );
}

#[test]
fn checks() {
    same(
        MYSQL,
        "`a` int DEFAULT NULL CHECK (`a` > 0), `b` varchar(9), CONSTRAINT `k` CHECK (`a` > 10 and `b` <> 'x')",
        "`a` int DEFAULT NULL,\n  `b` varchar(9) DEFAULT NULL,\n  CONSTRAINT `k` CHECK (((`a` > 10) and (`b` <> _utf8mb4'x'))),\n  CONSTRAINT `t_chk_1` CHECK ((`a` > 0))",
    );
    // Written differently, it may still be the same.
    same(
        MYSQL,
        "`a` int CHECK (a between 1 and 2)",
        "`a` int,\n  CONSTRAINT `t_chk_1` CHECK ((`a` >= 1 and `a` <= 2))",
    );
    differs(OLD_MYSQL, "`a` int, CHECK (a > 0)", "`a` int", "CHECK");
    differs(
        MYSQL,
        "`a` int, CHECK (a > 0) NOT ENFORCED",
        "`a` int, CHECK (a > 0)",
        "CHECK (a > 0)",
    );
}
