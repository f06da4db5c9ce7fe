//! Scans whole dumps in the style of the dump programs.

use refloat_sqltext::{
    ClientCommand, CommentKind, ItemKind, LexMode, ScanOptions, StatementKind, parse_create_table,
};

use crate::drive::{Cut, cuts, scan};

/// One word per item, without plain comments and blanks.
fn outline(text: &str) -> (Vec<String>, Vec<Cut>) {
    let all = cuts(text);
    let words = all.iter().filter_map(|cut| {
        assert!(cut.item.terminated);
        Some(match &cut.item.kind {
            ItemKind::Comment(CommentKind::Plain) | ItemKind::Blank => return None,
            ItemKind::Comment(kind) => format!("{kind:?}"),
            ItemKind::ClientCommand(ClientCommand::Delimiter(d)) => {
                format!("Delimiter {}", d.escape_ascii())
            }
            ItemKind::ClientCommand(other) => panic!("{other:?}"),
            ItemKind::Rows(piece) => format!("Rows {}", piece.row_count),
            ItemKind::Statement(StatementKind::CreateTable { .. }) => {
                let create = parse_create_table(cut.text(), LexMode::default()).expect("a table");
                format!(
                    "CreateTable {}+{}",
                    create.columns().count(),
                    create.keys().count()
                )
            }
            ItemKind::Statement(kind) => {
                let debug = format!("{kind:?}");
                debug.split(' ').next().unwrap_or_default().to_owned()
            }
        })
    });
    (words.collect(), all)
}

#[test]
fn mysqldump_8() {
    let (words, _) = outline(include_str!("../dumps/mysql-8.sql"));
    let expected = "DumpHeader,Set,Set,Set,Set,Set,Set,Set,Set,SetGtidPurged,CreateDatabase,Use,DropTable,Set,Set,\
CreateTable 3+2,Set,LockTables,AlterTableKeys,Rows 3,AlterTableKeys,UnlockTables,Set,Set,Delimiter ;;,CreateTrigger,\
Delimiter ;,Set,DropView,CreateView,Set,DropEvent,Delimiter ;;,CreateEvent,Delimiter ;,DropRoutine,Delimiter ;;,\
CreateRoutine,Delimiter ;,DropView,CreateView,Set,Set,DumpCompleted";
    assert_eq!(words.join(","), expected);
}

#[test]
fn mariadb_dump_11() {
    let (words, all) = outline(include_str!("../dumps/mariadb-11.sql"));
    let expected = "SandboxMode,DumpHeader,Set,Set,Set,DropSequence,CreateSequence,Do,DropTable,Set,Set,CreateTable 4+1,\
Set,LockTables,AlterTableKeys,Set,Rows 2,Rows 1,AlterTableKeys,UnlockTables,Commit,Delimiter ;;,CreateRoutine,\
Delimiter ;,Set,DumpCompleted";
    assert_eq!(words.join(","), expected);
    let tables = all.iter().filter_map(|cut| match &cut.item.kind {
        ItemKind::Rows(piece) => Some((piece.header.table.clone(), piece.complex)),
        _ => None,
    });
    assert_eq!(
        tables.collect::<Vec<_>>(),
        vec![(b"*/ ships".to_vec(), false); 2]
    );
}

/// A dump with Windows line endings has the same statements.
#[test]
fn line_ends_do_not_matter() {
    for text in [
        include_str!("../dumps/mysql-8.sql"),
        include_str!("../dumps/mariadb-11.sql"),
    ] {
        assert_eq!(outline(text).0, outline(&text.replace('\n', "\r\n")).0);
    }
}

/// A dump truncated anywhere is recognisable: by an error, or by its missing last line.
#[test]
fn every_cut_shows() {
    let text = include_bytes!("../dumps/mysql-8.sql");
    let run = |len: usize| {
        scan(
            &text[..len],
            4096,
            ScanOptions::default(),
            LexMode::default(),
        )
    };
    let (whole, _) = run(text.len());
    for len in 0..text.len() - 60 {
        let (all, error) = run(len);
        let completed = ItemKind::Comment(CommentKind::DumpCompleted);
        assert!(
            error.is_some() || all.iter().all(|c| c.item.kind != completed),
            "{len}"
        );
        // All items but the last are those of the whole text.
        let sure = all.len().saturating_sub(1);
        assert_eq!(all[..sure], whole[..sure], "{len}");
    }
}
