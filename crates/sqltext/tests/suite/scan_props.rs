//! Properties of the scanner: nothing is lost, and block sizes do not matter.

use proptest::prelude::*;
use refloat_sqltext::{CharsetFamily, ItemKind, LexMode, ScanOptions};

use crate::drive::scan;

/// Fragments that make up hostile dumps.
const PIECES: &[&[u8]] = &[
    b"INSERT INTO `t` VALUES ", b"INSERT INTO t (a,`b`) VALUES\n", b"insert ignore into d.t values", b"REPLACE INTO `x``y` VALUES ",
    b"(1,2)", b"(1,'a')", b"('it''s')", b"('a\\'b',NULL)", b"(_binary 'x\\\\')", b"(-1.5e3,0x4D)", b"(now())", b"(\\N)", b"()",
    b"(1,\"q\")", b"(`c`)", b"(1--1)", b"(5-- \n)", b"(/*x*/1)", b"(/*!1*/)", b",", b",\n", b", ", b";", b";\n", b"\n", b" ", b"\r\n",
    b"'", b"\"", b"`", b"\\", b"\\g", b"\\G", b"#c\n", b"-- it's\n", b"--x\n", b"/* it's ; */", b"/*!40101 SET a='*/' */", b"/*", b"*/", b"/",
    b"-", b"--", b"DELIMITER ;;\n", b"delimiter ;\n", b"DELIMITER //\n", b";;", b"//", b"BEGIN", b"END", b"SELECT 1", b"USE `db`\n",
    b"source x\n", b"\\! ls\n", b"/*!999999\\- enable the sandbox mode */ \n", b"/*M!100616 SET x=1 */", b" ON DUPLICATE KEY UPDATE a=1",
    b"\xBF\x5C", b"\x81'", b"\x83\x5C'", b"\xEF\xBB\xBF", b"\x81\x30\x81\x30", b"\0", b"CREATE TABLE t (a int)", b"('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')",
    b"(10001,'1953-09-02','Georgi','Facello','M','1986-06-26'),(10002,'1964-06-02','Bezalel','Simmel','F','1985-11-21')",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..4),
        // Rows that the block loop accepts, with a fragment in the middle.
        6 => (1_usize..12, prop::sample::select(PIECES)).prop_map(|(n, p)| {
            let mut rows = vec![b"(4711,'some text, (with) it''s signs','x\\\\',NULL,-1.5)".to_vec(); n].join(&b',');
            rows.extend(p);
            rows
        }),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|v| v.concat())
}

/// Damaged rows: the block loop accepts most, and must leave the rest to the byte loop.
fn wounded_rows() -> impl Strategy<Value = Vec<u8>> {
    const ROWS: &[&[u8]] = &[
        b"(4711,'some text, (with) it''s signs','x\\\\',NULL,-1.5)",
        b"(1,'a')",
        b"('\\\\\\'\\\\\\\\','--')",
        b"(-5,- 6)",
        b"()",
    ];
    const WOUNDS: &[&[u8]] = &[
        b",", b"(", b")", b"'", b"\\", b"-", b"--", b"-- ", b"''", b" ", b"\n", b";", b"/*", b"*/",
        b"#", b"\"", b"@", b"\0", b"\\N", b"",
    ];
    let rows = prop::collection::vec(prop::sample::select(ROWS), 1..12);
    let wound = (
        any::<prop::sample::Index>(),
        0_usize..3,
        prop::sample::select(WOUNDS),
    );
    (rows, prop::collection::vec(wound, 0..3)).prop_map(|(rows, wounds)| {
        let mut text = rows.join(&b',');
        for (at, cut, insert) in wounds {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = text.len().min(at + cut);
            text.splice(at..end, insert.iter().copied());
        }
        [b"INSERT INTO t VALUES ", text.as_slice(), b";SELECT 1;"].concat()
    })
}

fn mode() -> impl Strategy<Value = LexMode> {
    let family = prop::sample::select(&[
        CharsetFamily::Plain,
        CharsetFamily::Plain,
        CharsetFamily::Plain,
        CharsetFamily::Gbk,
        CharsetFamily::Sjis,
        CharsetFamily::Big5,
        CharsetFamily::Gb18030,
        CharsetFamily::Euckr,
    ]);
    (any::<bool>(), any::<bool>(), family).prop_map(
        |(no_backslash_escapes, ansi_quotes, charset_family)| LexMode {
            no_backslash_escapes,
            ansi_quotes,
            charset_family,
            mariadb: false,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn blocks_do_not_matter_and_nothing_is_lost(
        text in text(),
        mode in mode(),
        target in prop::sample::select(&[1_usize, 40, 200, 1 << 20]),
        block in 1_usize..90,
    ) {
        let options = ScanOptions { piece_target: target, ..ScanOptions::default() };
        let whole = scan(&text, text.len() + 1, options, mode);
        let parts = scan(&text, block, options, mode);
        prop_assert_eq!(&whole, &parts);
        let joined: Vec<u8> = whole.0.iter().flat_map(|c| c.bytes.iter().copied()).collect();
        prop_assert!(text.starts_with(&joined));
        if whole.1.is_none() {
            prop_assert_eq!(joined.len(), text.len());
        }
    }

    /// Fed byte by byte, the scanner never sees a block, so this compares the two loops.
    #[test]
    fn both_loops_cut_alike(
        text in wounded_rows(),
        no_backslash_escapes in any::<bool>(),
        target in prop::sample::select(&[100_usize, 300, 1 << 20]),
        block in 64_usize..300,
    ) {
        let options = ScanOptions { piece_target: target, ..ScanOptions::default() };
        let mode = LexMode { no_backslash_escapes, ..LexMode::default() };
        let bytes = scan(&text, 1, options, mode);
        prop_assert_eq!(&bytes, &scan(&text, text.len(), options, mode));
        prop_assert_eq!(&bytes, &scan(&text, block, options, mode));
    }

    /// The piece target only moves borders: same rows, same header, same order.
    #[test]
    fn piece_target_only_moves_borders(text in text(), target in 1_usize..300) {
        let count = |target: usize| {
            let options = ScanOptions { piece_target: target, ..ScanOptions::default() };
            let (cuts, error) = scan(&text, 1 << 20, options, LexMode::default());
            let rows: u64 = cuts.iter().map(|c| match &c.item.kind {
                ItemKind::Rows(piece) => piece.row_count,
                _ => 0,
            }).sum();
            (rows, cuts.len(), error)
        };
        let (fine, coarse) = (count(target), count(1 << 30));
        // Only a small target makes a tail after a cut, which is an error.
        if fine.2.is_none() {
            prop_assert_eq!(fine.0, coarse.0);
            prop_assert!(fine.1 >= coarse.1);
        }
    }
}
