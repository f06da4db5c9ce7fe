//! A server whose own disk is damaged, or whose redo log is gone before it was copied: no backup.

use std::fs;
use std::path::PathBuf;

use refloat_physical::backup::backup;
use refloat_sandbox::ServerKind;
use refloat_testkit::random::Rng;
use refloat_testkit::{servers, wait_until};

use crate::common::{KINDS, Place, TABLES, lsn};

/// Files of tables of every shape, with the size of their pages in bytes.
const FILES: [(&str, usize); 4] = [
    ("inno.ibd", 16 << 10),
    ("parts#P#p1.ibd", 16 << 10),
    ("squeezed.ibd", 8 << 10),
    ("holes.ibd", 16 << 10),
];
/// Pages of each server that are damaged, besides a first one.
const PAGES: u64 = 5;
/// Size of the header of a page, in bytes. The server leaves fields of it without a checksum.
const HEADER: usize = 38;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The pages of a file that are in use.
fn used(file: &[u8], size: usize) -> Vec<usize> {
    let is_used = |at: &usize| file[at * size + 4..][..34].iter().any(|byte| *byte != 0);
    (0..file.len() / size).filter(is_used).collect()
}

/// Any byte of a page that its checksum covers.
fn covered(file: &[u8], (page, size): (usize, usize), rng: &mut Rng) -> u64 {
    let begins = page * size;
    // A page that is compressed on the disk only says how long it is, and a hole follows
    // (`buf_page_full_crc32_size`).
    let kind = u16::from_be_bytes([file[begins + 24], file[begins + 25]]);
    let length = match kind & 0x7fff {
        short if short < kind => usize::from(short) << 8,
        _ => size,
    };
    (begins + rng.within(HEADER, length - 1)) as u64
}

/// `REFLOAT_DAMAGED_PAGES` sets how many pages of each server are damaged, `REFLOAT_RANDOM_SEED`
/// the seed by which they are chosen.
// Hazard of files: P-16 one bit of a page of the server, at random (a first page always;
//   `REFLOAT_DAMAGED_PAGES`): of a table, of a partition, of one whose pages are smaller
//   (`ROW_FORMAT=COMPRESSED`), of one with holes (`PAGE_COMPRESSED`)
#[test]
fn a_damaged_page_makes_no_backup() {
    let seed = number("REFLOAT_RANDOM_SEED", 1);
    let rounds = number("REFLOAT_DAMAGED_PAGES", PAGES) as usize;
    eprintln!("REFLOAT_RANDOM_SEED={seed}");
    let mut rng = Rng::new(seed);
    for kind in KINDS {
        let mut place = Place::new(kind);
        place.sql(TABLES);
        place.settle();
        for round in 0..=rounds {
            let (name, size) = FILES[round % FILES.len()];
            let path = format!("shop/{name}");
            let file = fs::read(place.server.datadir().join(&path)).unwrap();
            let used = used(&file, size);
            assert!(used.len() > 3, "{kind}: {name} {used:?}");
            let page = if round == 0 { 0 } else { *rng.pick(&used) };
            let (at, bit) = (covered(&file, (page, size), &mut rng), rng.below(8));
            let words = place.fails_with_a_flipped_bit(&path, at, bit);
            let table = name.trim_end_matches(".ibd");
            assert!(
                words.contains(table),
                "{kind}, seed {seed}: bit {bit} of byte {at} of {name}: {words}"
            );
            place.assert_no_backup();
        }
        place.back_up("one").unwrap();
    }
}

/// Makes a file on drop, and so also when an assertion fails: something waits for it.
struct MakeOnDrop(PathBuf);

impl Drop for MakeOnDrop {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "");
    }
}

// Hazard of files: P-02 the redo log is overwritten, all of it, while the tool is stopped
//   (`SIGSTOP`)
#[test]
fn an_overwritten_redo_log_makes_no_backup() {
    std::thread::scope(|scope| {
        // The tool waits for seconds for what does not come.
        for kind in KINDS {
            scope.spawn(move || redo_is_overwritten(kind));
        }
    });
}

fn redo_is_overwritten(kind: ServerKind) {
    const REDO: u64 = 4 << 20;
    const ROWS: u32 = 24;
    let options = servers::quick(kind).option("innodb_log_file_size", REDO.to_string());
    let place = Place::with(&options);
    place.sql(&format!(
        "CREATE DATABASE shop; CREATE TABLE shop.big (id INT PRIMARY KEY, text LONGTEXT) ENGINE=InnoDB;
        INSERT INTO shop.big SELECT seq, REPEAT(MD5(seq), 30000) FROM shop.seq_1_to_{ROWS}"
    ));
    let path = |name: &str| place.folder.path().join(name);
    let (stopped, goes_on) = (path("stopped"), path("goes-on"));
    let script = format!(
        "mkfifo {output}.pipe; tee {output} <{output}.pipe >&2 & \"$real\" \"$@\" 2>{output}.pipe & tool=$!
        while kill -0 $tool && ! grep -q 'Streaming ' {output}; do sleep 0.01; done
        kill -STOP $tool; touch {stopped}; until [ -e {goes_on} ]; do sleep 0.01; done
        kill -CONT $tool; wait $tool",
        output = path("output").display(),
        stopped = stopped.display(),
        goes_on = goes_on.display()
    );
    let mut options = place.options("one");
    options.donor.tool = Some(place.instead(&script));
    // What it copies before it is stopped is little.
    options.donor.max_rate = Some(refloat_physical::RATE_MIN);
    let run = place.run("backup");
    let (error, _) = std::thread::scope(|scope| {
        let copy = scope.spawn(|| backup(&options, &place.repository, &run));
        let goes_on = MakeOnDrop(goes_on);
        wait_until("the tool is stopped", || stopped.exists());
        let mut conn = servers::connect(&place.server);
        let before = lsn(&mut conn);
        for id in (1..=ROWS).cycle() {
            // Twice: then the log looks like one that was written once, by its sequence bits.
            if lsn(&mut conn) > before + 2 * REDO {
                break;
            }
            let sql = format!("UPDATE shop.big SET text = REVERSE(text) WHERE id = {id}");
            conn.exec(sql).unwrap();
        }
        drop(goes_on);
        copy.join().unwrap().unwrap_err()
    });
    let words = refloat_host::chain(&error);
    assert!(words.contains("only able to copy log"), "{kind}: {words}");
    place.assert_no_backup();
}
