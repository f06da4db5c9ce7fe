use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use refloat_store::storage::{Existing, LocalFolder, Storage, StorageErrorKind};
use refloat_testkit::storages::{bytes, read_range};

use super::{Borrowed, PIECE, lend};

/// A folder that one thread lends, and what another has borrowed.
struct Lent {
    folder: tempfile::TempDir,
    borrowed: Arc<dyn Storage>,
    /// The lender's end of the answers.
    answers: UnixStream,
    ended: mpsc::Receiver<()>,
}

fn lent() -> Lent {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalFolder::new(folder.path()));
    let (asks, asked) = UnixStream::pair().unwrap();
    let (answers, answered) = UnixStream::pair().unwrap();
    let writes = answers.try_clone().unwrap();
    std::thread::spawn(move || lend(&storage, asked, writes, |_| {}));
    let (sender, ended) = mpsc::channel();
    let borrowed = Borrowed::new(("there".to_owned(), 2), answered, asks, move || {
        let _ = sender.send(());
    });
    Lent {
        folder,
        borrowed: Arc::new(borrowed),
        answers,
        ended,
    }
}

#[test]
fn what_is_lent_is_listed_and_read() {
    let lent = lent();
    let large = bytes(2 * PIECE as usize + 1000, 7);
    fs::create_dir(lent.folder.path().join("a")).unwrap();
    fs::write(lent.folder.path().join("a/large"), &large).unwrap();
    fs::write(lent.folder.path().join("b"), b"small").unwrap();
    let storage = &lent.borrowed;
    let listed = storage.list("a/").unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, "a/large");
    assert_eq!(listed[0].size, large.len() as u64);
    assert_eq!(listed[0].mark, storage.stamp("a/large").unwrap().mark);
    std::thread::scope(|scope| {
        for begin in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 999] {
            let large = &large;
            scope.spawn(move || {
                let found = read_range(storage, "a/large", begin..large.len() as u64);
                assert!(found == large[begin as usize..], "from byte {begin}");
            });
        }
    });
    assert_eq!(read_range(storage, "b", 1..4), b"mal");
    assert_eq!(read_range(storage, "b", 2..2), b"");
}

#[test]
fn errors_are_those_of_the_lender() {
    let lent = lent();
    let storage = &lent.borrowed;
    let error = storage.stamp("none").unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotFound);
    assert!(
        error
            .to_string()
            .starts_with("there: looking at \"none\": No such file")
    );
    let Err(error) = storage.read("../none", 0..1) else {
        panic!("it leads out of the folder");
    };
    assert_eq!(error.kind(), StorageErrorKind::Name);
    fs::write(lent.folder.path().join("b"), b"small").unwrap();
    let Err(error) = storage.read("b", 0..6) else {
        panic!("it is shorter");
    };
    assert_eq!(error.kind(), StorageErrorKind::Short);
    let refused = [
        storage.create("c", Existing::Replace).map(drop),
        storage.delete("b"),
        storage.sweep().map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), StorageErrorKind::Denied);
    }
    assert!(lent.folder.path().join("b").exists());
}

#[test]
fn who_waits_learns_that_the_lender_has_ended() {
    let lent = lent();
    fs::write(lent.folder.path().join("a"), bytes(3 * PIECE as usize, 3)).unwrap();
    let mut reading = lent.borrowed.read("a", 0..3 * PIECE).unwrap();
    let mut piece = vec![0; PIECE as usize];
    reading.read_exact(&mut piece).unwrap();
    lent.answers.shutdown(std::net::Shutdown::Both).unwrap();
    lent.ended.recv().unwrap();
    let mut rest = Vec::new();
    let error = reading.read_to_end(&mut rest).unwrap_err().to_string();
    assert!(error.contains("has ended, or the connection"), "{error}");
    let error = lent.borrowed.list("").unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Ended);
    assert!(!error.may_pass(), "{error}");
}

#[test]
fn a_lender_that_says_nothing_for_long_has_ended() {
    let (asks, _asked) = UnixStream::pair().unwrap();
    let (mut answers, answered) = UnixStream::pair().unwrap();
    let (sender, ended) = mpsc::channel::<()>();
    // Far more than a busy machine lets a thread wait.
    let silence = Duration::from_secs(3);
    let patience = (silence, move || drop(sender));
    let borrowed = Borrowed::with_patience(("there".to_owned(), 1), answered, asks, patience);
    let begun = Instant::now();
    while begun.elapsed() < silence * 4 / 3 {
        answers.write_all(b"\n").unwrap();
        assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(ended.recv(), Err(mpsc::RecvError));
    assert_eq!(
        borrowed.list("").unwrap_err().kind(),
        StorageErrorKind::Ended
    );
}

#[test]
fn text_is_printed_in_its_order_and_noise_is_passed_over() {
    let storage: Arc<dyn Storage> = Arc::new(LocalFolder::new(Path::new("/nowhere")));
    let (mut asks, asked) = UnixStream::pair().unwrap();
    let (answers, answered) = UnixStream::pair().unwrap();
    // The last line has no end.
    asks.write_all(b"Last login: today\n{\"number\":true}\n\xff\n\x1b]0;")
        .unwrap();
    let (sender, ended) = mpsc::channel::<()>();
    let lender = std::thread::spawn(move || {
        let mut printed = String::new();
        let lent = lend(&storage, asked, answers, |text| printed.push_str(text));
        (lent.unwrap(), printed)
    });
    let borrowed = Borrowed::new(("there".to_owned(), 1), answered, asks, || drop(sender));
    borrowed.print("one\n".to_owned()).unwrap();
    borrowed.print("two\n".to_owned()).unwrap();
    assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
    drop(borrowed);
    assert_eq!(lender.join().unwrap(), (true, "one\ntwo\n".to_owned()));
    assert_eq!(ended.recv(), Err(mpsc::RecvError));
}

#[test]
fn what_makes_no_sense_ends_both() {
    let storage: Arc<dyn Storage> = Arc::new(LocalFolder::new(Path::new("/nowhere")));
    let question = br#"{"number":1,"wanted":{"objects":{"prefix":""}}}"#;
    let mut questions = question.to_vec();
    questions.extend(b"\nnonsense\n");
    lend(&storage, &*questions, std::io::sink(), |_| {}).unwrap_err();
    assert!(!lend(&storage, &b"nonsense\n"[..], std::io::sink(), |_| {}).unwrap());

    // Fewer bytes than were asked for.
    let answers = b"{\"number\":0,\"found\":{\"bytes\":1}}\nx";
    let (asks, asked) = UnixStream::pair().unwrap();
    let (mut lender, answered) = UnixStream::pair().unwrap();
    let borrowed = Borrowed::new(("there".to_owned(), 1), answered, asks, || {});
    let reading = std::thread::spawn(move || borrowed.read("a", 0..2).map(drop));
    let mut lines = BufReader::new(asked).lines();
    lines.find(|line| !line.as_ref().unwrap().is_empty());
    lender.write_all(answers).unwrap();
    let error = reading.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("something else"), "{error}");
}
