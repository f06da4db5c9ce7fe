use super::*;

/// Where the files of these logs begin, near the end of the numbers of blocks.
pub const LSN: u64 = (3 * NUMBERS - 9) * BLOCK as u64;
/// Blocks of a file with its head.
pub const BLOCKS: u64 = 16;

fn with_sum(mut block: Vec<u8>) -> Vec<u8> {
    block.resize(BLOCK, 0);
    let sum = crc32c(&block[..SUM_AT]);
    block[SUM_AT..].copy_from_slice(&sum.to_be_bytes());
    block
}

/// The head of a file, as a donor sends it (`Arch_Log_Sys::update_header`).
pub fn head(lsn: u64, checkpoint: u64) -> Vec<u8> {
    let field = |number: u64| [vec![0; LSN_AT], number.to_be_bytes().to_vec()].concat();
    let checkpoint = with_sum(field(checkpoint));
    [
        with_sum(field(lsn)),
        checkpoint.clone(),
        vec![0; BLOCK],
        checkpoint,
    ]
    .concat()
}

/// The blocks from one LSN to another.
pub fn blocks(lsns: Range<u64>) -> Vec<u8> {
    let one = |block: u64| {
        let number = 1 + (block % NUMBERS) as u32;
        with_sum([number.to_be_bytes().to_vec(), vec![7; 200]].concat())
    };
    let size = BLOCK as u64;
    (lsns.start / size..lsns.end / size).flat_map(one).collect()
}

/// A file of a log, from its head on.
fn file(lsn: u64) -> Vec<u8> {
    let end = lsn + (BLOCKS - HEAD) * BLOCK as u64;
    [head(lsn, 0), blocks(lsn..end)].concat()
}

/// Every change of a byte is seen, but of what no server reads.
#[test]
fn a_changed_block_is_not_sound() {
    let whole = file(LSN);
    let mut bytes = whole.clone();
    for at in 0..bytes.len() {
        let block = (at / BLOCK) as u64;
        bytes[at] ^= 4;
        let looked = look(0, &bytes);
        if block == KEYS {
            looked.unwrap();
        } else {
            let words = format!("the checksum of block {block} is wrong");
            assert_eq!(looked, Err(words), "byte {at}");
        }
        bytes[at] = whole[at];
    }
    // What was never written, where the log should go on.
    bytes[7 * BLOCK..8 * BLOCK].fill(0);
    look(0, &bytes).unwrap_err();
    // Under innodb_log_checksums=OFF.
    bytes[8 * BLOCK - 4..8 * BLOCK].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
    assert_eq!(look(0, &bytes), Err(misplaced(7)));
    bytes.copy_from_slice(&whole);
    bytes[8 * BLOCK - 4..8 * BLOCK].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
    look(0, &bytes).unwrap();
    for (begins, length) in [(0, 513), (1, 512)] {
        look(begins, &whole[..length]).unwrap_err();
    }
}

#[test]
fn a_block_of_another_place_is_seen() {
    let size = BLOCK as u64;
    // An older block with its checksum, in the middle of a piece.
    let mut bytes = blocks(LSN..LSN + 4 * size);
    let old = blocks(LSN - 100 * size..LSN - 99 * size);
    bytes[2 * BLOCK..3 * BLOCK].copy_from_slice(&old);
    assert_eq!(look(HEAD * size, &bytes), Err(misplaced(6)));
    // All of a piece.
    let mut log = LogFile::default();
    log.add(look(0, &head(LSN, 0)).unwrap()).unwrap();
    let piece = |at: u64, bytes: &[u8]| look(at * size, bytes).unwrap();
    assert_eq!(log.add(piece(5, &old)), Err(misplaced(5)));
    log.add(piece(5, &blocks(LSN + size..LSN + 3 * size)))
        .unwrap();
}

/// Files, each by its pieces: the first block, and the bytes.
fn arrived(files: &[Vec<(u64, Vec<u8>)>], checkpoint: u64) -> Result<(), String> {
    let logs: Vec<LogFile> = files
        .iter()
        .map(|pieces| {
            let mut log = LogFile::default();
            for (at, bytes) in pieces {
                log.add(look(at * BLOCK as u64, bytes).unwrap()).unwrap();
            }
            log
        })
        .collect();
    let named: Vec<Named<'_>> = ["a", "b"]
        .into_iter()
        .zip(&logs)
        .map(|(name, log)| (name, BLOCKS * BLOCK as u64, log))
        .collect();
    whole(&named, checkpoint)
}

#[test]
fn a_log_is_whole_from_its_checkpoint_to_its_end() {
    let size = BLOCK as u64;
    let second = LSN + (BLOCKS - HEAD) * size;
    let checkpoint = LSN + 2 * size + 99;
    let of = |first: u64, blocks_of: Range<u64>| {
        let lsns = first + blocks_of.start * size..first + blocks_of.end * size;
        (HEAD + blocks_of.start, blocks(lsns))
    };
    let begin = |lsn| (0, head(lsn, checkpoint));
    // Pieces come in any order, and some of them twice.
    let one = vec![
        of(LSN, 6..12),
        of(LSN, 2..4),
        begin(LSN),
        of(LSN, 4..6),
        of(LSN, 3..6),
    ];
    let two = vec![begin(second), of(second, 0..3), of(second, 3..4)];
    arrived(&[one.clone(), two.clone()], checkpoint).unwrap();
    // What the log holds may be less than a block.
    arrived(&[vec![begin(LSN), of(LSN, 2..3)]], checkpoint).unwrap();

    let without = |pieces: &[(u64, Vec<u8>)], one: usize| {
        let mut pieces = pieces.to_vec();
        pieces.remove(one);
        pieces
    };
    let other = vec![begin(second + size), of(second + size, 0..3)];
    for (files, words) in [
        (
            vec![without(&one, 0), two.clone()],
            "a: block 10 is missing",
        ),
        (vec![without(&one, 1), two.clone()], "a: block 6 is missing"),
        (
            vec![without(&one, 2), two.clone()],
            "a: its head is missing",
        ),
        (
            vec![one.clone(), without(&two, 0)],
            "b: its head is missing",
        ),
        (vec![one.clone(), without(&two, 1)], "b: block 4 is missing"),
        (vec![one.clone(), vec![]], "b: its head is missing"),
        (
            vec![one.clone(), vec![begin(second)]],
            "b: block 4 is missing",
        ),
        (
            vec![one.clone(), other],
            "b: it does not continue the file before it",
        ),
        (vec![vec![begin(LSN)]], "a: block 6 is missing"),
    ] {
        assert_eq!(arrived(&files, checkpoint), Err(words.to_owned()));
    }
    // The last block that came is taken for the end.
    arrived(&[one, without(&two, 2)], checkpoint).unwrap();
}
