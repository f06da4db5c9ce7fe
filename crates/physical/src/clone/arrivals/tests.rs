use std::sync::atomic::AtomicU32;

use super::*;
use crate::clone::redo::tests::{BLOCKS, LSN, blocks, head};

/// Takes blocks, and counts files.
#[derive(Default)]
struct Counter(AtomicU32);

impl Blocks for Counter {
    type File = u32;

    fn begin(&self, _: &Path) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn buffer(&self) -> Vec<u8> {
        Vec::new()
    }

    fn put(&self, _: u32, _: u64, _: Vec<u8>) -> Result<(), PhysicalError> {
        Ok(())
    }
}

fn file(stage: Stage, index: u32, name: &str) -> FileInfo {
    FileInfo {
        stage,
        index,
        name: name.to_owned(),
        size: 7 * 16384,
        space: index + 1,
        flags: 0x4021,
        is_encrypted: false,
        is_renamed: false,
        is_removed: false,
    }
}

fn begins(stage: Stage, files: u32) -> StageInfo {
    StageInfo {
        stage,
        begins: true,
        is_ping: false,
        chunks: 9,
        files,
        bytes: 0,
        acknowledgement: Vec::new(),
    }
}

fn piece(stage: Stage, file: u32, chunk: u32, begins: u64, size: u64) -> DataInfo {
    DataInfo {
        stage,
        chunk,
        block: 1,
        file,
        length: 16384,
        begins,
        size,
    }
}

#[test]
fn files_have_the_names_and_sizes_that_they_end_with() {
    let writer = Counter::default();
    let all = Arrivals::new(&writer, (9, 7, 0));
    all.begin_stage(&begins(Stage::Files, 4));
    for (index, name) in ["ibdata1", "./a/old.ibd", "./a/gone.ibd", "./a/b.ibd"]
        .iter()
        .enumerate()
    {
        let first = all.file(&file(Stage::Files, index as u32, name)).unwrap();
        assert_eq!(first, None);
    }
    // Announced while files are still arriving, for the next stage.
    let mut renamed = file(Stage::Pages, 1, "./a/new.ibd");
    renamed.is_renamed = true;
    let mut removed = file(Stage::Pages, 2, "./a/gone.ibd");
    removed.is_removed = true;
    for info in [&renamed, &removed] {
        assert_eq!(all.file(info).unwrap(), None);
    }
    let (target, page) = all
        .file(&file(Stage::Pages, 4, "./a/made.ibd"))
        .unwrap()
        .unwrap();
    assert_eq!((target, page.len()), (8, 16384));
    all.begin_stage(&begins(Stage::Pages, 2));
    // The first page says how large a tablespace has become.
    let grown = piece(Stage::Pages, 3, 1, 0, 3 << 20);
    let target = all.place(&grown).unwrap().unwrap();
    assert_eq!((target.file, target.number), (4, 6));
    all.arrived(0, &grown).unwrap();
    assert_eq!(all.place(&piece(Stage::Pages, 2, 2, 0, 0)).unwrap(), None);
    all.place(&piece(Stage::Pages, 9, 2, 0, 0)).unwrap_err();
    all.place(&piece(Stage::Files, 3, 2, 0, 0)).unwrap_err();
    all.arrived(1, &piece(Stage::Pages, 3, 99, 0, 0))
        .unwrap_err();
    all.begin_stage(&begins(Stage::Redo, 1));
    assert_eq!(all.file(&file(Stage::Redo, 0, "")).unwrap(), None);
    // Without the head of the redo log, the copy is useless.
    all.begin_stage(&begins(Stage::Done, 0));
    all.finish().unwrap_err();
    all.begin_stage(&begins(Stage::Redo, 1));
    let checkpoint = LSN + 99;
    let log_arrives = |begins: u64, chunk: u32, bytes: &[u8]| {
        let info = piece(Stage::Redo, 0, chunk, begins, 0);
        let target = all.place(&info).unwrap().unwrap();
        all.look(&info, &target, bytes).unwrap();
        assert_eq!(all.keeps(&info, 1, bytes), chunk > 7);
    };
    log_arrives(0, 8, &head(LSN, checkpoint));
    log_arrives(5 * 512, 9, &blocks(LSN + 512..LSN + 1024));
    assert_eq!(all.take_last().len(), 2);
    all.begin_stage(&begins(Stage::Done, 0));
    let words = all.finish().unwrap_err().to_string();
    let missing = "#innodb_redo/#ib_redo0: block 4 is missing";
    assert!(words.ends_with(missing), "{words}");
    all.begin_stage(&begins(Stage::Redo, 1));
    log_arrives(4 * 512, 1, &blocks(LSN..LSN + 512));
    all.begin_stage(&begins(Stage::Done, 0));
    let (files, found) = all.finish().unwrap();
    assert_eq!(found, checkpoint);
    let files: BTreeMap<&str, u64> = files
        .iter()
        .map(|(_, path, size)| (path.as_str(), *size))
        .collect();
    assert_eq!(files["a/b.ibd"], 3 << 20);
    let names: Vec<&str> = files.into_keys().collect();
    let redo = "#innodb_redo/#ib_redo0";
    let expected = [
        redo,
        "a/b.ibd",
        "a/made.ibd",
        "a/new.ibd",
        "ibdata1",
        CHANGES,
        NAMES,
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_cannot_be_put_back_is_refused() {
    let writer = Counter::default();
    let all = Arrivals::new(&writer, (9, 7, 0));
    all.begin_stage(&begins(Stage::Files, 1));
    let mut secret = file(Stage::Files, 0, "./a/b.ibd");
    secret.is_encrypted = true;
    let outside = file(Stage::Files, 0, "/elsewhere/b.ibd");
    for (info, words) in [(secret, "is encrypted"), (outside, "is outside")] {
        let error = all.file(&info).unwrap_err();
        assert!(matches!(error, PhysicalError::Refused(_)));
        assert!(error.to_string().contains(words), "{error}");
    }
    all.file(&file(Stage::Files, 0, "../b.ibd")).unwrap_err();
}

#[test]
fn what_was_on_its_way_is_asked_for_again() {
    let writer = Counter::default();
    let all = Arrivals::new(&writer, (9, 7, 0));
    all.begin_stage(&begins(Stage::Files, 1));
    assert!(!all.resume().1, "the list of files has not come");
    all.file(&file(Stage::Files, 0, "./a/b.ibd")).unwrap();
    for (number, chunk) in [(0, 1), (1, 2), (0, 3)] {
        all.arrived(number, &piece(Stage::Files, 0, chunk, 0, 0))
            .unwrap();
    }
    all.end_stage(1, Stage::Files);
    let (stage, knows_files, progress) = all.resume();
    assert_eq!((stage, knows_files), (Stage::Files, true));
    assert_eq!(progress.chunks, [0b111]);
    assert_eq!(progress.incomplete, BTreeMap::from([(3, 1)]));
    // Nobody waits for a connection that has failed.
    all.give_up();
    all.reach_stage(Stage::Files).unwrap_err();
}

/// What arrived last of a page decides, and only that.
#[test]
fn pages_that_stay_damaged_end_the_copy() {
    let writer = Counter::default();
    let all = Arrivals::new(&writer, (9, 7, 0));
    all.begin_stage(&begins(Stage::Files, 5));
    for (index, (name, space)) in [
        ("ibdata1", 0),
        ("ibdata2", 0),
        ("a/b.ibd", 7),
        ("a/gone.ibd", 8),
        ("ib_buffer_pool", u32::MAX),
    ]
    .into_iter()
    .enumerate()
    {
        let mut info = file(Stage::Files, index as u32, name);
        info.space = space;
        if space == u32::MAX {
            info.flags = page::NO_SPACE;
        }
        all.file(&info).unwrap();
    }
    let sound = page::first(7, 0x4021, 90_700);
    let mut torn = sound.clone();
    torn[9000] ^= 1;
    let arrives = |stage, file, number: u64, bytes: &[u8]| {
        let info = piece(stage, file, 1, number * 16384, 0);
        let target = all.place(&info).unwrap().unwrap();
        all.look(&info, &target, bytes).unwrap();
    };
    let damage = || all.all_sound(&all.state().files).map_err(|e| e.to_string());
    // Copies of pages in the system tablespace, and what has no pages.
    arrives(Stage::Files, 0, 64, &torn);
    arrives(Stage::Files, 0, 191, &torn);
    arrives(Stage::Files, 4, 1, &torn);
    damage().unwrap();
    arrives(Stage::Files, 2, 5, &[&sound[..], &torn, &torn].concat());
    let found = damage().unwrap_err();
    assert!(
        found.ends_with(" in a/b.ibd (page 6 and 1 more)"),
        "{found}"
    );
    arrives(Stage::Files, 3, 5, &torn);
    arrives(Stage::Files, 1, 64, &torn);
    let mut removed = file(Stage::Pages, 3, "a/gone.ibd");
    removed.is_removed = true;
    all.file(&removed).unwrap();
    all.begin_stage(&begins(Stage::Pages, 5));
    arrives(Stage::Pages, 2, 6, &sound);
    let found = damage().unwrap_err();
    assert!(
        found.ends_with(" in ibdata2 (page 64), a/b.ibd (page 7)"),
        "{found}"
    );
    arrives(Stage::Pages, 2, 7, &sound);
    arrives(Stage::Pages, 1, 64, &sound);
    damage().unwrap();
}

/// So many damaged pages are not mended by what arrives later. Only some of the files are named.
#[test]
fn too_many_damaged_pages_end_the_copy_at_once() {
    let writer = Counter::default();
    let all = Arrivals::new(&writer, (9, 7, 0));
    all.begin_stage(&begins(Stage::Files, 8));
    for index in 0..8 {
        let mut info = file(Stage::Files, index, &format!("a/t{index}.ibd"));
        // Pages of 1 KiB.
        info.flags = 0x4023;
        all.file(&info).unwrap();
    }
    // Packed, by no known algorithm.
    let mut page = [0; 1024];
    page[25] = 14;
    let (piece_of, pages) = (page.repeat(1024), 1024);
    let arrives = |index: u32, at: u64| {
        let info = piece(Stage::Files, index, 1, at << 20, 0);
        let target = all.place(&info).unwrap().unwrap();
        all.look(&info, &target, &piece_of)
    };
    for index in 1..8 {
        arrives(index, 0).unwrap();
    }
    let mut gone = file(Stage::Pages, 7, "a/t7.ibd");
    gone.is_removed = true;
    all.file(&gone).unwrap();
    let most = DAMAGED_MAX / pages;
    for at in 0..most as u64 - 7 {
        arrives(0, at).unwrap();
    }
    let found = arrives(0, most as u64).unwrap_err().to_string();
    assert!(found.contains("in a/t0.ibd (page 0 and "), "{found}");
    let end = "a/t4.ibd (page 0 and 1023 more), and 2 more files";
    assert!(found.ends_with(end), "{found}");
}

#[test]
fn a_damaged_block_of_the_redo_log_ends_the_copy() {
    let writer = Counter::default();
    let all = Arrivals::new(&writer, (9, 7, 0));
    all.begin_stage(&begins(Stage::Redo, 1));
    let mut info = file(Stage::Redo, 1, "");
    info.size = BLOCKS * 512;
    all.file(&info).unwrap();
    let mut bytes = blocks(LSN..LSN + 3 * 512);
    let looked = |bytes: &[u8]| {
        let info = piece(Stage::Redo, 1, 1, 6 * 512, 0);
        let target = all.place(&info).unwrap().unwrap();
        all.look(&info, &target, bytes)
    };
    looked(&bytes).unwrap();
    bytes[512 + 300] ^= 1;
    let words = looked(&bytes).unwrap_err().to_string();
    let damaged = "#innodb_redo/#ib_redo1: the checksum of block 7 is wrong";
    assert!(words.ends_with(damaged), "{words}");
    // Of a later time.
    let words = looked(&blocks(LSN + 512..LSN + 1024)).unwrap_err();
    let other = "#innodb_redo/#ib_redo1: block 6 is not the one that belongs there";
    assert!(words.to_string().ends_with(other), "{words}");
}
