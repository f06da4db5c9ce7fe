//! Cases that break other tools: delimiters, comments, client commands, the end of the input.

use refloat_sqltext::{
    CharsetFamily, ClientCommand, CommentKind, InsertVerb, ItemKind, LexMode, RowsPiece, ScanError,
    ScanOptions, StatementKind,
};

use crate::drive::{Cut, cuts, cuts_in, error_of, kind_of, scan, statements};

fn rows(cut: &Cut) -> &RowsPiece {
    match &cut.item.kind {
        ItemKind::Rows(piece) => piece,
        other => panic!("no rows: {other:?}"),
    }
}

fn only_rows(text: &str) -> (RowsPiece, Vec<u8>) {
    let all = cuts(text);
    let found: Vec<_> = all
        .iter()
        .filter(|c| matches!(c.item.kind, ItemKind::Rows(_)))
        .collect();
    assert_eq!(found.len(), 1, "{all:?}");
    (rows(found[0]).clone(), found[0].rows().to_vec())
}

#[test]
fn statements_end_at_delimiters_outside_of_quotes_and_comments() {
    let text = "SELECT ';', \";\", `;` # ;\n -- ;\n /* ; */ ;SELECT 2;";
    assert_eq!(
        statements(text),
        ["SELECT ';', \";\", `;` # ;\n -- ;\n /* ; */", "SELECT 2"]
    );
    let text = "SELECT 'a\\';', 'b\\\\';SELECT 'it''s;', \"say \"\"x;\"\"\";SELECT `a``;`;";
    assert_eq!(
        statements(text),
        [
            "SELECT 'a\\';', 'b\\\\'",
            "SELECT 'it''s;', \"say \"\"x;\"\"\"",
            "SELECT `a``;`",
        ]
    );
    // A backslash is not special inside backticks.
    assert_eq!(
        statements("SELECT `a\\`;SELECT 2;"),
        ["SELECT `a\\`", "SELECT 2"]
    );
}

#[test]
fn names_with_line_ends_and_delimiters_are_names() {
    // For the stock client, `USE` ends with its line, but not inside a name.
    let text = "USE `x\nDROP TABLE canary.t;#`;\nUSE plain\nSELECT 1;";
    assert_eq!(
        statements(text),
        ["USE `x\nDROP TABLE canary.t;#`", "USE plain", "SELECT 1"]
    );
    let (piece, text) = only_rows("INSERT INTO `a;b` (`;`, `c``;`) VALUES (1, ';'),(2, 3);");
    assert_eq!(piece.row_count, 2);
    assert_eq!(text, b"(1, ';'),(2, 3)");
}

#[test]
fn modes_change_what_ends_a_string() {
    let plain = LexMode::default();
    let no_escapes = LexMode {
        no_backslash_escapes: true,
        ..plain
    };
    let ansi = LexMode {
        ansi_quotes: true,
        ..plain
    };
    assert_eq!(cuts_in("SELECT 'a\\';SELECT 2;", no_escapes).len(), 2);
    assert_eq!(cuts_in("SELECT \"a\\\";SELECT 2;", ansi).len(), 2);
    assert_eq!(cuts_in("SELECT \"a\\\";SELECT 2;\";", plain).len(), 1);
    assert_eq!(
        cuts_in("INSERT INTO t VALUES ('a\\'),('b\\');", no_escapes).len(),
        1
    );
    // The mode takes effect with the next item.
    let mut scanner = refloat_sqltext::Scanner::default();
    scanner.set_mode(no_escapes);
    assert_eq!(scanner.mode(), no_escapes);
}

#[test]
fn a_backslash_may_be_the_tail_of_a_character() {
    let mode = |charset_family| LexMode {
        charset_family,
        ..LexMode::default()
    };
    let cases: [(CharsetFamily, &[u8]); 5] = [
        (CharsetFamily::Gbk, b"\xBF\x5C"),
        (CharsetFamily::Sjis, b"\x83\x5C"),
        (CharsetFamily::Cp932, b"\x95\x5C"),
        (CharsetFamily::Big5, b"\xA5\x5C"),
        (CharsetFamily::Gb18030, b"\x81\x30\x81\x30\xBF\x5C"),
    ];
    for (family, bytes) in cases {
        let text = [b"INSERT INTO t VALUES ('", bytes, b"'),('x');SELECT 1;"].concat();
        let all = cuts_in(&text, mode(family));
        assert_eq!(all.len(), 2, "{family:?}");
        assert_eq!(rows(&all[0]).row_count, 2, "{family:?}");
        // Read as single-byte characters, the backslash would escape the quote.
        let (_, error) = scan(&text, 9999, ScanOptions::default(), LexMode::default());
        assert!(
            matches!(error, Some(ScanError::UnterminatedQuote { .. })),
            "{family:?}"
        );
    }
    // A lead byte before a quote is not a character: the quote counts.
    let all = cuts_in(b"SELECT '\x81';SELECT 2;", mode(CharsetFamily::Gbk));
    assert_eq!(all.len(), 2);
}

#[test]
fn comments() {
    let text = "-- don't\n# it's; \n/* it's; -- */--\n--x it's\nSELECT 1--1, 5 --\t'\n;";
    let all = cuts(text);
    let kinds: Vec<_> = all
        .iter()
        .map(|c| matches!(c.item.kind, ItemKind::Comment(CommentKind::Plain)))
        .collect();
    assert_eq!(kinds, [true, true, true, true, true, false]);
    assert_eq!(statements(text), ["SELECT 1--1, 5 --\t'"]);
    // Comments do not nest, and `/*/` does not end one.
    assert_eq!(statements("/* a /* b */SELECT 1;"), ["SELECT 1"]);
    assert_eq!(statements("/*/ x */SELECT 1;"), ["SELECT 1"]);
    // A comment inside a conditional one ends at its own `*/`.
    assert_eq!(
        statements("/*!50003 CREATE /* it's */ X 'a;' */;SELECT 1;").len(),
        2
    );
    let all =
        cuts("-- Dump completed on 2026-11-21 20:00:00\n-- MariaDB dump 10.19\n-- Dump completed");
    let kinds: Vec<_> = all.iter().map(|c| c.item.kind.clone()).collect();
    let comment = ItemKind::Comment;
    assert_eq!(
        kinds,
        [
            comment(CommentKind::DumpCompleted),
            comment(CommentKind::DumpHeader),
            comment(CommentKind::DumpCompleted),
        ]
    );
}

#[test]
fn conditional_comments_are_code() {
    assert_eq!(
        statements("/*!40101 SET @a='*/;' */;/*M!100616 SET b=';'*/;"),
        ["/*!40101 SET @a='*/;' */", "/*M!100616 SET b=';'*/",]
    );
    // The stock client cuts at a delimiter inside a conditional comment.
    assert_eq!(statements("/*!40101 a;b */;"), ["/*!40101 a", "b */"]);
    // Table names with newlines and quotes that end up in comments.
    assert_eq!(
        statements("--\n-- Table structure for table `*/`\n--\nDROP TABLE `*/`;/* x */"),
        ["DROP TABLE `*/`"]
    );
}

#[test]
fn sandbox_line() {
    for text in [
        "/*!999999\\- enable the sandbox mode */ \nSELECT 1;",
        "/*M!999999\\- enable the sandbox mode */\nSELECT 1;",
    ] {
        let all = cuts(text);
        assert_eq!(
            all[0].item.kind,
            ItemKind::Comment(CommentKind::SandboxMode)
        );
        assert_eq!(statements(text), ["SELECT 1"]);
    }
}

#[test]
fn delimiters() {
    let text = "SELECT 1;\ndelimiter ;;\nCREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET @a=';;'; SET @b=1; END;;\nDELIMITER ;\nSELECT 2;\n";
    let all = cuts(text);
    assert_eq!(
        all[1].item.kind,
        ItemKind::ClientCommand(ClientCommand::Delimiter(b";;".to_vec()))
    );
    assert_eq!(
        statements(text),
        [
            "SELECT 1",
            "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET @a=';;'; SET @b=1; END",
            "SELECT 2",
        ]
    );
    assert_eq!(
        statements("DELIMITER //\nSELECT 6/2//SELECT 3//"),
        ["SELECT 6/2", "SELECT 3"]
    );
    assert_eq!(
        statements("DELIMITER $$ ignored\r\nSELECT 1;$$\nDELIMITER '||'\nSELECT 2||"),
        ["SELECT 1", "SELECT 2"]
    );
    // A delimiter that could be part of a row.
    assert_eq!(
        statements("DELIMITER go\nINSERT INTO t VALUES (1,'go'),(2,'x') go\nSELECT 1 go"),
        ["INSERT INTO t VALUES (1,'go'),(2,'x')", "SELECT 1",]
    );
    assert_eq!(
        error_of("SELECT 1;\nDELIMITER \n"),
        ScanError::BadDelimiter {
            offset: 10,
            line: 2
        }
    );
    assert_eq!(
        error_of("DELIMITER \\x\n"),
        ScanError::BadDelimiter { offset: 0, line: 1 }
    );
    // Not a command: a longer word, or not at the start of a statement.
    assert_eq!(statements("DELIMITERS x;"), ["DELIMITERS x"]);
    assert_eq!(
        statements("SELECT a\nDELIMITER x;"),
        ["SELECT a\nDELIMITER x"]
    );
}

#[test]
fn client_commands_are_reported_and_do_not_hide() {
    let command = |text: &str| match &cuts(text)[0].item.kind {
        ItemKind::ClientCommand(command) => command.clone(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(command("\\! rm -rf x\nSELECT 1;"), ClientCommand::System);
    assert_eq!(command("system ls; SELECT 1;"), ClientCommand::System);
    assert_eq!(command("  SOURCE /etc/passwd\n"), ClientCommand::Source);
    assert_eq!(command("\\. x"), ClientCommand::Source);
    assert_eq!(command("tee out.txt\n"), ClientCommand::Tee);
    assert_eq!(command("\\T x\n"), ClientCommand::Tee);
    assert_eq!(command("pager less\n"), ClientCommand::Pager);
    assert_eq!(command("charset latin1;"), ClientCommand::Charset);
    assert_eq!(command("quit\n"), ClientCommand::Other(b"quit".to_vec()));
    assert_eq!(command("\\q"), ClientCommand::Other(b"q".to_vec()));
    assert_eq!(cuts("system ls; SELECT 1;").len(), 2);
    assert_eq!(
        error_of("SELECT 1 \\! ls\n;"),
        ScanError::CommandInStatement {
            command: "!".to_owned(),
            offset: 9,
            line: 1,
        }
    );
    // A statement that begins like a command.
    assert_eq!(kind_of("source_table := 1;"), StatementKind::Other);
    assert_eq!(kind_of("help_me;"), StatementKind::Other);
    let all = cuts("USE `a b`\nUSE x;\nuse\ny;");
    let kinds: Vec<_> = all.iter().map(|c| c.item.kind.clone()).collect();
    let used = |name: &[u8]| {
        ItemKind::Statement(StatementKind::Use {
            database: name.to_vec(),
        })
    };
    assert_eq!(kinds, [used(b"a b"), used(b"x"), used(b"y")]);
}

#[test]
fn other_terminators() {
    assert_eq!(
        statements("SELECT 1\\G SELECT 2\\g SELECT \\N;"),
        ["SELECT 1", "SELECT 2", "SELECT \\N"]
    );
    assert_eq!(cuts("INSERT INTO t VALUES (1)\\g")[0].item.len, 26);
}

#[test]
fn blanks_and_empty_statements() {
    let all = cuts("\u{feff}\r\n;;  \r\nSELECT 1\r\n;\r\n");
    let kinds: Vec<_> = all
        .iter()
        .map(|c| matches!(c.item.kind, ItemKind::Blank))
        .collect();
    assert_eq!(kinds, [true, true, true, false, true]);
    assert_eq!(all[3].text(), b"SELECT 1");
    assert_eq!((all[3].item.offset, all[3].item.line), (11, 3));
    assert!(cuts("").is_empty());
    assert_eq!(cuts(" \n").len(), 1);
    // Endless blanks need no memory.
    let all = cuts(" ".repeat(200_000));
    assert!(all.iter().all(|c| c.item.len <= 65_536));
}

#[test]
fn nul_bytes() {
    assert_eq!(
        cuts("INSERT INTO t VALUES ('a\0b',_binary '\0');/*\0*/").len(),
        2
    );
    assert_eq!(
        error_of("SELECT 1;\nSELECT \0;"),
        ScanError::Nul {
            offset: 17,
            line: 2
        }
    );
    assert_eq!(
        error_of("INSERT INTO t VALUES (1\0);"),
        ScanError::Nul {
            offset: 23,
            line: 1
        }
    );
}

#[test]
fn ends_of_the_input() {
    let all = cuts("SELECT 1");
    assert!(!all[0].item.terminated);
    let all = cuts("INSERT INTO t VALUES (1),(2)\n");
    assert!(!all[0].item.terminated && rows(&all[0]).last);
    assert!(!cuts("INSERT INTO t VALUES")[0].item.terminated);
    // The stock clients treat control characters at the end as blanks.
    for end in ["\x1a", "\n\x1a\n", "\x0c\x1a "] {
        let all = cuts(format!("SELECT 1;{end}"));
        assert!(
            all[1..]
                .iter()
                .all(|cut| cut.item.kind == ItemKind::Blank && cut.item.terminated),
            "{end:?}"
        );
    }
    assert!(!cuts("SELECT 1;\x1ax")[1].item.terminated);
    assert_eq!(
        error_of("SELECT 1;\n SELECT 'it''s"),
        ScanError::UnterminatedQuote {
            quote: '\'',
            offset: 18,
            line: 2
        }
    );
    assert_eq!(
        error_of("\n/* x;"),
        ScanError::UnterminatedComment { offset: 1, line: 2 }
    );
    assert_eq!(
        error_of("INSERT INTO t VALUES (1),\n(2,'x',"),
        ScanError::UnterminatedRows {
            offset: 26,
            line: 2
        }
    );
    assert_eq!(
        error_of("INSERT INTO t VALUES (1),"),
        ScanError::UnterminatedRows {
            offset: 25,
            line: 1
        }
    );
    // A string that opened long before the end: the error still reports where.
    let row = "(1,'some text with it''s signs',NULL),".repeat(9);
    let text = format!("INSERT INTO t VALUES {row}(2,'{}", "x''".repeat(100));
    let offset = (21 + row.len() + 3) as u64;
    assert_eq!(
        error_of(text),
        ScanError::UnterminatedQuote {
            quote: '\'',
            offset,
            line: 1
        }
    );
}

#[test]
fn headers() {
    let header = |text: &str| only_rows(text).0.header;
    let h = header("INSERT INTO `a``b`.`MY_VALUES` (`VALUES`, c, `INSERT INTO`) VALUES (1,2,3);");
    assert_eq!(h.verb, InsertVerb::Insert);
    assert_eq!(h.database.as_deref(), Some(&b"a`b"[..]));
    assert_eq!(h.table, b"MY_VALUES");
    assert_eq!(
        h.columns.as_deref(),
        Some(&[b"VALUES".to_vec(), b"c".to_vec(), b"INSERT INTO".to_vec()][..])
    );
    assert_eq!(
        h.text,
        b"INSERT INTO `a``b`.`MY_VALUES` (`VALUES`, c, `INSERT INTO`) VALUES "
    );
    assert_eq!(
        header("insert  ignore into `VALUES` values\n(1);").verb,
        InsertVerb::InsertIgnore
    );
    assert_eq!(header("REPLACE t VALUE(1);").verb, InsertVerb::Replace);
    assert_eq!(
        header("INSERT INTO t () VALUES ();").columns.as_deref(),
        Some(&[][..])
    );
    assert_eq!(
        header("INSERT /* into */ INTO t -- x\n VALUES (1);").table,
        b"t"
    );
    for text in [
        "INSERT DELAYED INTO t VALUES (1);",
        "INSERT LOW_PRIORITY INTO t VALUES (1);",
        "REPLACE DELAYED t VALUES (1);",
        "INSERT INTO t SET a=1;",
        "INSERT INTO t SELECT 1;",
        "INSERT INTO t (a) SELECT 1;",
        "INSERT INTO t VALUES ROW(1);",
        "/*!40000 INSERT INTO t VALUES (1) */;",
        "INSERT /*!40000 IGNORE */ INTO t VALUES (1);",
        "INSERT INTO t VALUES;",
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a=1;",
        "INSERT INTO t VALUES (1) AS new;",
        "INSERT INTO t VALUES (1) (2);",
        "INSERT INTO t VALUES (1),;",
        "INSERT INTO t VALUES (1),(2) RETURNING a;",
        "INSERT INTO t VALUES (1;",
        "INSERT INTO t PARTITION (p) VALUES (1);",
    ] {
        assert_eq!(kind_of(text), StatementKind::Insert, "{text}");
    }
    let all = cuts("INSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2);INSERT INTO u VALUES (2);");
    assert!(std::sync::Arc::ptr_eq(
        &rows(&all[0]).header,
        &rows(&all[1]).header
    ));
    assert_eq!(rows(&all[2]).header.table, b"u");
}

#[test]
fn rows_are_counted_and_judged() {
    let judge = |rows: &str| {
        let (piece, bytes) = only_rows(&format!("INSERT INTO t VALUES {rows} ;"));
        assert_eq!(bytes, rows.as_bytes());
        (piece.row_count, piece.complex)
    };
    assert_eq!(judge("(1,'a'),\n(-2.5e3,NULL) , (0x4D,x'00')"), (3, false));
    assert_eq!(judge("(_binary 'a)(',\"b\",\\N,DEFAULT,b'01')"), (1, false));
    assert_eq!(judge("(now())"), (1, true));
    assert_eq!(judge("(@a)"), (1, true));
    assert_eq!(judge("(1*2)"), (1, true));
    assert_eq!(judge("(`a`)"), (1, true));
    assert_eq!(judge("(/* x */ 1),(2)"), (2, true));
    assert_eq!(judge("(1)-- x)\n,(2)"), (2, true));
    assert_eq!(judge("(1,2 -- it's\n)"), (1, true));
    let many = vec!["(1,'a(b)c\\'',NULL)"; 1000].join(",");
    assert_eq!(judge(&many), (1000, false));
    assert_eq!(judge(&format!("{many},(now()),{many}")), (2001, true));
}

/// Text with missing or doubled commas between rows is not rows, whichever loop reads it.
#[test]
fn commas_between_rows_are_counted() {
    let run = vec!["(1,'a')"; 20].join(",");
    for between in ["", ",,", ",,,", ", ,\n,"] {
        let text = format!("INSERT INTO t VALUES {run}{between}{run}{between}{run};");
        assert_eq!(kind_of(text), StatementKind::Insert, "{between:?}");
    }
}

#[test]
fn long_statements_come_in_pieces() {
    let row = "(1,'0123456789')";
    let text = format!(
        "INSERT INTO t VALUES {};SELECT 1;",
        vec![row; 100].join(",\n")
    );
    let options = ScanOptions {
        piece_target: 200,
        ..ScanOptions::default()
    };
    for block in [1, 50, 999_999] {
        let (all, error) = scan(text.as_bytes(), block, options, LexMode::default());
        assert_eq!(error, None);
        let pieces: Vec<_> = all
            .iter()
            .filter(|c| matches!(c.item.kind, ItemKind::Rows(_)))
            .collect();
        assert_eq!(pieces.iter().map(|c| rows(c).row_count).sum::<u64>(), 100);
        assert!(pieces.len() > 5);
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(rows(piece).first, i == 0);
            assert_eq!(rows(piece).last, i == pieces.len() - 1);
            assert!(piece.rows().starts_with(b"(") && piece.rows().ends_with(b")"));
            assert!(piece.rows().len() >= 200 || i == pieces.len() - 1);
            assert!(piece.rows().len() < 200 + row.len() + 2);
        }
        assert_eq!(pieces[1].text(), pieces[1].rows());
    }
    // The clause after the rows arrives too late to be seen before the first cut.
    let text = format!(
        "INSERT INTO t VALUES {}\n ON DUPLICATE KEY UPDATE a=1;",
        vec![row; 100].join(",")
    );
    let (_, error) = scan(text.as_bytes(), 64, options, LexMode::default());
    assert_eq!(
        error,
        Some(ScanError::TailAfterCut {
            offset: text.find("ON D").unwrap_or(0) as u64,
            line: 2
        })
    );
}

#[test]
fn lengths_are_bounded() {
    let options = ScanOptions {
        max_item: 100,
        ..ScanOptions::default()
    };
    let long = "x".repeat(200);
    for text in [
        format!("SELECT '{long}';"),
        format!("INSERT INTO t VALUES ('{long}');"),
        format!("/* {long} */"),
        format!("-- {long}\n"),
    ] {
        for block in [1, 30, 999] {
            let (_, error) = scan(text.as_bytes(), block, options, LexMode::default());
            assert!(
                matches!(
                    error,
                    Some(ScanError::TooLong {
                        limit: 100,
                        offset: 0,
                        line: 1
                    })
                ),
                "{text} {block} {error:?}"
            );
        }
    }
    let mut scanner = refloat_sqltext::Scanner::default();
    assert_eq!(
        scanner.next(b"SELECT 1", false),
        Ok(refloat_sqltext::Step::NeedMore)
    );
    assert_eq!(
        scanner.next(b"SEL", false),
        Err(ScanError::ShortBuffer {
            given: 3,
            scanned: 8
        })
    );
}

/// A value of 64 MiB in blocks of 64 KiB is scanned once. Rescanning it for each block would take
/// hundreds of times as long as this test may.
#[test]
fn one_long_value_takes_linear_time() {
    let mut text = b"INSERT INTO t VALUES (1,'".to_vec();
    text.resize(64 << 20, b'x');
    text.extend_from_slice(b"');");
    let (all, error) = scan(&text, 64 << 10, ScanOptions::default(), LexMode::default());
    assert_eq!(error, None);
    assert_eq!(rows(&all[0]).row_count, 1);
}

#[test]
fn several_statements_under_another_delimiter_are_as_many_items() {
    let text = "DELIMITER //\nSET @m = ';';\nCREATE TABLE t (a INT); INSERT INTO t VALUES (1,';'),(2,'x');\nINSERT INTO t SET a = 3 //\n\
        CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END//\nUPDATE t SET a = 1; //\nDELIMITER ;\nDROP TABLE t;\n";
    assert_eq!(
        statements(text),
        [
            "SET @m = ';'",
            "CREATE TABLE t (a INT)",
            "INSERT INTO t VALUES (1,';'),(2,'x')",
            "INSERT INTO t SET a = 3",
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
            "UPDATE t SET a = 1",
            "DROP TABLE t",
        ]
    );
    let (piece, rows) = only_rows(text);
    assert_eq!(
        (piece.row_count, rows.as_slice()),
        (2, b"(1,';'),(2,'x')".as_slice())
    );
}
