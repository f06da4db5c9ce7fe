//! Tests of splitting `CREATE TABLE`.

use refloat_sqltext::ddl::{Generated, KeyKind};
use refloat_sqltext::{
    CreateTable, DdlError, Element, LexMode, parse_create_table, replace_collations,
};

fn parse(text: &str) -> CreateTable {
    parse_create_table(text.as_bytes(), LexMode::default()).expect(text)
}

const RICH: &str = "CREATE TABLE `orders` (\n  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,\n  \
`ref` varchar(40) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'KEY `x` (`y`),\\n' COMMENT 'not AUTO_INCREMENT, ENGINE=MyISAM; it''s',\n  \
`total` decimal(10,2) GENERATED ALWAYS AS (`net` * (1 + `vat`)) STORED,\n  \
`name` varchar(9) AS (concat('a,)',`ref`)) VIRTUAL,\n  \
`hidden` int(11) DEFAULT NULL /*!80023 INVISIBLE */,\n  \
`doc` json DEFAULT (json_object('a',1)),\n  \
`place` geometry NOT NULL /*!80003 SRID 4326 */,\n  \
PRIMARY KEY (`id`),\n  UNIQUE KEY `u_ref` (`ref`(10),`id` DESC) USING BTREE COMMENT 'a, b',\n  \
KEY `expr` ((lower(`ref`)),`id`) /*!80000 INVISIBLE */,\n  FULLTEXT KEY `ft` (`ref`) /*!50100 WITH PARSER `ngram` */ ,\n  \
SPATIAL KEY `sp` (`place`),\n  CONSTRAINT `fk,1` FOREIGN KEY (`a`,`b`) REFERENCES `other db`.`t``x` (`c`, `d`) ON DELETE SET NULL ON UPDATE NO ACTION,\n  \
CONSTRAINT `chk` CHECK ((`total` > 0) and (`ref` <> ')'))\n\
) ENGINE=InnoDB AUTO_INCREMENT=17 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC COMMENT='PARTITION BY x'\n\
/*!50100 PARTITION BY RANGE (`id`)\n(PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB) */";

#[test]
fn a_rich_table_comes_apart() {
    let create = parse(RICH);
    assert_eq!(create.table.name, b"orders");
    let columns: Vec<_> = create.columns().collect();
    let names: Vec<_> = columns
        .iter()
        .map(|c| String::from_utf8_lossy(&c.name).into_owned())
        .collect();
    assert_eq!(
        names,
        ["id", "ref", "total", "name", "hidden", "doc", "place"]
    );
    assert!(columns[0].auto_increment && columns[0].unsigned && columns[0].not_null);
    assert_eq!(columns[0].type_name, b"BIGINT");
    assert_eq!(&RICH[columns[0].type_range.clone()], "bigint(20)");
    assert!(columns[1..].iter().all(|c| !c.auto_increment));
    assert_eq!(columns[1].charset.as_deref(), Some(&b"latin1"[..]));
    assert_eq!(columns[1].collation.as_deref(), Some(&b"latin1_bin"[..]));
    assert_eq!(
        columns[1].comment.as_deref(),
        Some(&b"not AUTO_INCREMENT, ENGINE=MyISAM; it's"[..])
    );
    let generated: Vec<_> = columns.iter().map(|c| c.generated).collect();
    assert_eq!(
        generated[..4],
        [
            None,
            None,
            Some(Generated::Stored),
            Some(Generated::Virtual)
        ]
    );
    assert!(columns[4].invisible && !columns[5].invisible);

    let keys: Vec<_> = create.keys().collect();
    let kinds: Vec<_> = keys.iter().map(|k| k.kind).collect();
    assert_eq!(
        kinds,
        [
            KeyKind::Primary,
            KeyKind::Unique,
            KeyKind::Index,
            KeyKind::Fulltext,
            KeyKind::Spatial
        ]
    );
    assert_eq!(keys[1].name.as_deref(), Some(&b"u_ref"[..]));
    assert_eq!(keys[1].parts[0].prefix, Some(10));
    assert!(keys[1].parts[1].descending && !keys[1].parts[0].descending);
    assert!(keys[2].parts[0].is_expression() && !keys[2].parts[1].is_expression());
    assert_eq!(
        keys[3].add_clause(RICH.as_bytes()),
        b"ADD FULLTEXT KEY `ft` (`ref`) /*!50100 WITH PARSER `ngram` */"
    );
    assert_eq!(
        keys[2].add_clause(RICH.as_bytes()),
        b"ADD KEY `expr` ((lower(`ref`)),`id`) /*!80000 INVISIBLE */"
    );

    let foreign = create.foreign_keys().next().expect("a foreign key");
    assert_eq!(foreign.name.as_deref(), Some(&b"fk,1"[..]));
    assert_eq!(foreign.columns, [b"a", b"b"]);
    assert_eq!(
        foreign.ref_table.database.as_deref(),
        Some(&b"other db"[..])
    );
    assert_eq!(foreign.ref_table.name, b"t`x");
    assert_eq!(foreign.ref_columns, [b"c", b"d"]);
    assert_eq!(foreign.on_delete.as_deref(), Some("SET NULL"));
    assert_eq!(foreign.on_update.as_deref(), Some("NO ACTION"));
    assert!(
        matches!(create.elements.last(), Some(Element::Check(c)) if c.name.as_deref() == Some(b"chk"))
    );

    let options: Vec<_> = create
        .options
        .iter()
        .map(|o| (o.name.as_str(), String::from_utf8_lossy(&o.value)))
        .collect();
    let options: Vec<_> = options.iter().map(|(n, v)| (*n, v.as_ref())).collect();
    assert_eq!(
        options,
        [
            ("ENGINE", "InnoDB"),
            ("AUTO_INCREMENT", "17"),
            ("CHARSET", "utf8mb4"),
            ("COLLATE", "utf8mb4_bin"),
            ("ROW_FORMAT", "DYNAMIC"),
            ("COMMENT", "PARTITION BY x"),
        ]
    );
    assert!(
        RICH[create.options_range.clone()].starts_with("ENGINE=")
            && RICH[create.options_range].ends_with("BY x'")
    );
    let partition = &RICH[create.partition.expect("partitions")];
    assert!(partition.starts_with("/*!50100 PARTITION BY RANGE") && partition.ends_with("*/"));
}

#[test]
fn keys_are_left_out_and_the_rest_is_verbatim() {
    let text = "CREATE TABLE `t` (\n  `a` int,\n  PRIMARY KEY (`a`),\n  KEY `k` (`a`),\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`a`)\n) ENGINE=InnoDB";
    let create = parse(text);
    let lean = create.without(text.as_bytes(), |e| match e {
        Element::Key(key) => key.kind != KeyKind::Primary,
        Element::ForeignKey(_) => true,
        _ => false,
    });
    let expected = "CREATE TABLE `t` (\n  `a` int,\n  PRIMARY KEY (`a`)\n) ENGINE=InnoDB";
    assert_eq!(String::from_utf8(lean).expect("text"), expected);
    assert_eq!(create.without(text.as_bytes(), |_| false), text.as_bytes());
    assert_eq!(create.without(text.as_bytes(), |_| true), text.as_bytes());
    // The first element can be removed, too.
    let text = "CREATE TABLE t(KEY (a), a int, b int)";
    let lean = parse(text).without(text.as_bytes(), |e| matches!(e, Element::Key(_)));
    assert_eq!(
        String::from_utf8(lean).expect("text"),
        "CREATE TABLE t(a int, b int)"
    );
}

#[test]
fn names_that_look_like_ddl_do_not_fool() {
    let text = "CREATE TABLE `a\n  KEY x` (\n  `b,\n)` int(11) NOT NULL,\n  `PRIMARY KEY` int,\n  `\n) ENGINE=MyISAM` text,\n  KEY `,\n)` (`b,\n)`)\n) ENGINE=InnoDB";
    let create = parse(text);
    assert_eq!(create.table.name, b"a\n  KEY x");
    assert_eq!(create.columns().count(), 3);
    assert_eq!(create.keys().count(), 1);
    assert_eq!(
        create.keys().next().expect("key").parts[0]
            .column
            .as_deref(),
        Some(&b"b,\n)"[..])
    );
    assert_eq!(create.option("ENGINE"), Some(&b"InnoDB"[..]));
}

#[test]
fn forms_written_by_hand() {
    let create = parse(
        "create temporary table if not exists db.t -- it's\n (id serial, period int, `key` int unique, vector vector(3), n int primary key default 5 check (n > 1),\n\
         # a comment, with )\n index (n), unique (period), vector index v (vector) m=6, check (n < 9), like_it int,\n period for system_time (s, e),\n\
         s timestamp(6) generated always as row start, e timestamp(6) generated always as row end\n /*!50000 , index z (n) */) with system versioning engine innodb partition by hash(n)",
    );
    assert!(create.temporary && create.if_not_exists && !create.or_replace);
    let names: Vec<_> = create
        .columns()
        .map(|c| String::from_utf8_lossy(&c.name).into_owned())
        .collect();
    assert_eq!(
        names,
        ["id", "period", "key", "vector", "n", "like_it", "s"]
    );
    let columns: Vec<_> = create.columns().collect();
    assert!(columns[0].auto_increment);
    assert_eq!(columns[2].inline_key, Some(KeyKind::Unique));
    assert_eq!(columns[4].inline_key, Some(KeyKind::Primary));
    assert_eq!(columns[6].generated, Some(Generated::RowStart));
    let kinds: Vec<_> = create.keys().map(|k| k.kind).collect();
    assert_eq!(kinds, [KeyKind::Index, KeyKind::Unique, KeyKind::Vector]);
    // Anything that only some servers see stays verbatim.
    assert!(matches!(create.elements.last(), Some(Element::Other(_))));
    assert_eq!(create.options[0].name, "WITH SYSTEM VERSIONING");
    assert_eq!(create.option("ENGINE"), Some(&b"innodb"[..]));
    assert!(create.partition.is_some());
}

#[test]
fn like_select_and_others() {
    assert!(parse("CREATE TABLE a LIKE b").like);
    assert!(parse("CREATE TABLE a (LIKE b)").like);
    assert!(parse("CREATE OR REPLACE TABLE a AS SELECT 1").select);
    assert!(parse("CREATE TABLE a (b int) ENGINE=InnoDB IGNORE SELECT 1 AS b").select);
    let error =
        |text: &str| parse_create_table(text.as_bytes(), LexMode::default()).expect_err(text);
    assert_eq!(error("CREATE VIEW v AS SELECT 1"), DdlError::NotCreateTable);
    assert_eq!(error("CREATE TABLE"), DdlError::NotCreateTable);
    assert_eq!(
        error("CREATE TABLE t (a int"),
        DdlError::Unbalanced { at: 15 }
    );
    assert_eq!(
        error("CREATE TABLE t (a int default 'x"),
        DdlError::Unbalanced { at: 30 }
    );
    // mysqldump's placeholder table for a view.
    assert_eq!(
        parse("/*!50001 CREATE TABLE `v` (\n `a` tinyint NOT NULL\n) ENGINE=MyISAM */")
            .columns()
            .count(),
        1
    );
}

#[test]
fn collations_are_replaced_outside_of_strings() {
    let map = |name: &[u8]| match name {
        b"utf8mb4_0900_ai_ci" => Some(b"utf8mb4_uca1400_ai_ci".to_vec()),
        b"utf8mb3" => Some(b"utf8".to_vec()),
        _ => None,
    };
    let replace = |text: &str| {
        let new = replace_collations(text.as_bytes(), LexMode::default(), map);
        new.map(|t| String::from_utf8(t).expect("text"))
    };
    let text = "CREATE TABLE t (a varchar(9) CHARACTER SET utf8mb3 COLLATE utf8mb4_0900_ai_ci DEFAULT 'COLLATE utf8mb4_0900_ai_ci', \
utf8mb3 int) DEFAULT CHARSET=utf8mb3 COLLATE='utf8mb4_0900_ai_ci' /* COLLATE utf8mb3 */";
    let expected = "CREATE TABLE t (a varchar(9) CHARACTER SET utf8 COLLATE utf8mb4_uca1400_ai_ci DEFAULT 'COLLATE utf8mb4_0900_ai_ci', \
utf8mb3 int) DEFAULT CHARSET=utf8 COLLATE='utf8mb4_uca1400_ai_ci' /* COLLATE utf8mb3 */";
    assert_eq!(replace(text).as_deref(), Some(expected));
    assert_eq!(
        replace("SET NAMES utf8mb3").as_deref(),
        Some("SET NAMES utf8")
    );
    assert_eq!(
        replace("/*!50003 SET collation_connection  = UTF8MB4_0900_AI_CI */").as_deref(),
        Some("/*!50003 SET collation_connection  = utf8mb4_uca1400_ai_ci */")
    );
    assert_eq!(
        replace("SELECT _utf8mb3'x', utf8mb3").as_deref(),
        Some("SELECT _utf8'x', utf8mb3")
    );
    assert_eq!(replace("SELECT 'utf8mb3'"), None);
}
