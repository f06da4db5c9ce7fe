//! A storage that this machine lends to the program on another one, through the streams of ssh.
//!
//! The borrower asks in lines of JSON, and each answer begins with one; the bytes of an object
//! follow theirs. Every read is short and answered as a whole, so none holds up the others. The
//! borrower can list and read, and nothing else. Between answers, the lender sends empty lines, so
//! that the borrower notices when the network is gone.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use refloat_store::storage::{
    Existing, Object, Patience, Stamp, Storage, StorageError, StorageErrorKind, Upload, reader,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of one read. Each reader has up to two of them in memory, and one on its way.
const PIECE: u64 = 4 << 20;
/// Longest line in bytes: a list of some 100,000 objects, which is far more than the largest
/// repository has.
const LINE: u64 = 64 << 20;
/// How often the lender says that it is there.
const PULSE: Duration = Duration::from_secs(15);
/// How long the borrower hears nothing before it takes the lender for gone: as long as ssh lets the
/// network be away, and some pulses.
const SILENCE: Duration = Duration::from_secs(120);

/// Why there are no more answers.
pub const LENDER_GONE: &str =
    "the refloat that lends it has ended, or the connection to it was lost";

#[derive(Serialize, Deserialize)]
struct Question {
    number: u64,
    wanted: Wanted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Objects {
        prefix: String,
    },
    Stamp {
        name: String,
    },
    Bytes {
        name: String,
        begin: u64,
        end: u64,
    },
    /// Text for the lender's standard output. There is no answer.
    Printed {
        text: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Answer {
    number: u64,
    found: Found,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    /// Names, sizes and marks.
    Objects(Vec<(String, u64, String)>),
    /// A size and a mark.
    Stamp(u64, String),
    /// So many bytes follow the line.
    Bytes(u64),
    Failed(StorageErrorKind, String),
}

fn write_line(mut output: impl Write, line: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.write_all(bytes)?;
    output.flush()
}

/// The next line that is not empty. `None`: the stream has ended. Until `begun`, others may stand
/// there, which a shell's profile prints.
fn read_line<T: DeserializeOwned>(
    input: &mut impl BufRead,
    begun: &mut bool,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    while input.take(LINE).read_until(b'\n', &mut line)? > 0 {
        if line != b"\n" {
            match serde_json::from_slice(&line) {
                Ok(one) => {
                    *begun = true;
                    return Ok(Some(one));
                }
                Err(error) if *begun => return Err(error.into()),
                Err(_) => {}
            }
        }
        line.clear();
    }
    Ok(None)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lends a storage until the borrower closes its stream of questions. Text that it prints goes to
/// `print`. Returns whether there was a borrower.
///
/// # Errors
/// The stream of questions cannot be read. A borrower that takes no more answers is no error.
pub fn lend(
    storage: &Arc<dyn Storage>,
    questions: impl Read,
    answers: impl Write + Send,
    mut print: impl FnMut(&str),
) -> io::Result<bool> {
    let mut questions = BufReader::new(questions);
    let answers = Mutex::new(answers);
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let work = || {
        loop {
            let next = lock(&receiver).recv();
            let Ok(Question { number, wanted }) = next else {
                return;
            };
            let (found, bytes) = find(storage, &wanted);
            // A borrower that is gone closes its questions, too.
            let _ = write_line(&mut *lock(&answers), &Answer { number, found }, &bytes);
        }
    };
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // They end with this scope, and the threads with them.
        let (sender, _over) = (sender, over);
        for _ in 0..storage.transfers().clamp(1, 16) {
            scope.spawn(work);
        }
        let answers = &answers;
        scope.spawn(move || {
            while is_over.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
                let mut answers = lock(answers);
                let _ = answers.write_all(b"\n").and_then(|()| answers.flush());
            }
        });
        let mut begun = false;
        while let Some(question) = read_line::<Question>(&mut questions, &mut begun)? {
            match &question.wanted {
                Wanted::Printed { text } => print(text),
                _ => drop(sender.send(question)),
            }
        }
        Ok(begun)
    })
}

fn find(storage: &Arc<dyn Storage>, wanted: &Wanted) -> (Found, Vec<u8>) {
    let mut bytes = Vec::new();
    let found = match wanted {
        Wanted::Objects { prefix } => storage.list(prefix).map(|objects| {
            let parts = |one: Object| (one.name, one.size, one.mark);
            Found::Objects(objects.into_iter().map(parts).collect())
        }),
        Wanted::Stamp { name } => storage
            .stamp(name)
            .map(|stamp| Found::Stamp(stamp.size, stamp.mark)),
        Wanted::Bytes { name, begin, end } => {
            let range = *begin..(*end).min(begin.saturating_add(PIECE));
            bytes.reserve_exact(range.end.saturating_sub(range.start) as usize);
            reader(storage, name, range, Patience::default())
                .read_to_end(&mut bytes)
                .map(|count| Found::Bytes(count as u64))
                .map_err(|error| StorageError::from_io(storage.url(), name, "reading", error))
        }
        Wanted::Printed { .. } => Ok(Found::Bytes(0)),
    };
    let found = found.unwrap_or_else(|error| {
        bytes.clear();
        Found::Failed(error.kind(), error.reason())
    });
    (found, bytes)
}

/// What answers a question, with the bytes that follow.
type Reply = (Found, Vec<u8>);

/// Who waits for which answer. `None`: there are no more answers.
type Waiting = Mutex<Option<HashMap<u64, SyncSender<Reply>>>>;

struct Link {
    questions: Mutex<Box<dyn Write + Send>>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
}

impl Link {
    /// Asks, and returns where the answer arrives. `None`: nobody answers any more.
    fn ask(&self, wanted: Wanted) -> Option<Receiver<Reply>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::sync_channel(1);
        lock(&self.waiting).as_mut()?.insert(number, sender);
        self.send(&Question { number, wanted }).ok()?;
        Some(receiver)
    }

    fn send(&self, question: &Question) -> io::Result<()> {
        write_line(&mut *lock(&self.questions), question, b"")
    }
}

/// Hands answers to those who wait for them, until there are no more.
fn receive(answers: impl Read, waiting: &Waiting) -> io::Result<()> {
    let mut answers = BufReader::new(answers);
    let mut begun = false;
    while let Some(Answer { number, found }) = read_line::<Answer>(&mut answers, &mut begun)? {
        let count = match &found {
            Found::Bytes(count) => *count,
            _ => 0,
        };
        if count > PIECE {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut bytes = vec![0; count as usize];
        answers.read_exact(&mut bytes)?;
        let waiting = lock(waiting).as_mut().and_then(|all| all.remove(&number));
        if let Some(waiting) = waiting {
            // It may have ended meanwhile.
            let _ = waiting.send((found, bytes));
        }
    }
    Ok(())
}

/// A stream, and when something last came from it.
struct Heard<R> {
    stream: R,
    last: Arc<Mutex<Instant>>,
}

impl<R: Read> Read for Heard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        *lock(&self.last) = Instant::now();
        Ok(count)
    }
}

/// The error of a question that nobody answers.
fn unanswered(url: &str, name: &str, doing: &'static str) -> StorageError {
    let kind = StorageErrorKind::Ended;
    StorageError::saying(url, name, doing, kind, LENDER_GONE.to_owned())
}

/// A storage that another machine lends.
pub struct Borrowed {
    url: String,
    transfers: usize,
    link: Arc<Link>,
}

impl Borrowed {
    /// Borrows the storage with this URL, as messages name it, from the process that [lends](lend)
    /// it. `transfers` is how many it can serve at the same time. `ended` is called when that
    /// process has ended, or nothing was heard from it for two minutes.
    pub fn new(
        (url, transfers): (String, usize),
        answers: impl Read + Send + 'static,
        questions: impl Write + Send + 'static,
        ended: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self::with_patience((url, transfers), answers, questions, (SILENCE, ended))
    }

    fn with_patience(
        (url, transfers): (String, usize),
        answers: impl Read + Send + 'static,
        mut questions: impl Write + Send + 'static,
        (silence, ended): (Duration, impl FnOnce() + Send + 'static),
    ) -> Self {
        // Ends a line that a shell's profile may have begun. If it fails, so does the next.
        let _ = questions.write_all(b"\n");
        let waiting: Arc<Waiting> = Arc::new(Mutex::new(Some(HashMap::new())));
        let last = Arc::new(Mutex::new(Instant::now()));
        let (over, is_over) = mpsc::channel::<()>();
        std::thread::spawn({
            let (waiting, last) = (Arc::clone(&waiting), Arc::clone(&last));
            move || {
                let stream = Heard {
                    stream: answers,
                    last,
                };
                // What cannot be read has ended, for whatever reason.
                let _ = receive(stream, &waiting);
                drop(over);
            }
        });
        std::thread::spawn({
            let waiting = Arc::clone(&waiting);
            move || {
                let wait = || silence.saturating_sub(lock(&last).elapsed());
                while !wait().is_zero()
                    && is_over.recv_timeout(wait()) == Err(RecvTimeoutError::Timeout)
                {
                }
                *lock(&waiting) = None;
                ended();
            }
        });
        Self {
            url,
            transfers,
            link: Arc::new(Link {
                questions: Mutex::new(Box::new(questions)),
                waiting,
                next: AtomicU64::new(0),
            }),
        }
    }

    /// Prints text on the lender's standard output.
    ///
    /// # Errors
    /// It has ended.
    pub fn print(&self, text: String) -> io::Result<()> {
        self.link.send(&Question {
            number: 0,
            wanted: Wanted::Printed { text },
        })
    }

    fn ask(&self, name: &str, doing: &'static str, wanted: Wanted) -> Result<Found, StorageError> {
        let place = (&*self.url, name, doing);
        let asked = self.link.ask(wanted);
        let asked = asked.ok_or_else(|| unanswered(&self.url, name, doing))?;
        Ok(answered(place, &asked)?.0)
    }

    fn refused<T>(&self, name: &str, doing: &'static str) -> Result<T, StorageError> {
        let kind = StorageErrorKind::Denied;
        let reason = "another machine lends it, to be read only".to_owned();
        Err(StorageError::saying(&self.url, name, doing, kind, reason))
    }
}

/// Waits for an answer.
fn answered(
    (url, name, doing): (&str, &str, &'static str),
    asked: &Receiver<Reply>,
) -> Result<Reply, StorageError> {
    match asked.recv() {
        Ok((Found::Failed(kind, reason), _)) => {
            Err(StorageError::saying(url, name, doing, kind, reason))
        }
        Ok(reply) => Ok(reply),
        Err(_) => Err(unanswered(url, name, doing)),
    }
}

fn unexpected<T>(url: &str, name: &str, doing: &'static str) -> Result<T, StorageError> {
    let error = io::Error::other("the refloat that lends it has answered something else");
    Err(StorageError::from_io(url, name, doing, error))
}

impl Storage for Borrowed {
    fn url(&self) -> &str {
        &self.url
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        let wanted = Wanted::Objects {
            prefix: prefix.to_owned(),
        };
        let Found::Objects(objects) = self.ask(prefix, "listing", wanted)? else {
            return unexpected(&self.url, prefix, "listing");
        };
        let object = |(name, size, mark)| Object { name, size, mark };
        Ok(objects.into_iter().map(object).collect())
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        let wanted = Wanted::Stamp {
            name: name.to_owned(),
        };
        match self.ask(name, "looking at", wanted)? {
            Found::Stamp(size, mark) => Ok(Stamp { size, mark }),
            _ => unexpected(&self.url, name, "looking at"),
        }
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        let mut pieces = Pieces {
            url: self.url.clone(),
            name: name.to_owned(),
            link: Arc::clone(&self.link),
            range,
            asked: None,
            piece: io::Cursor::default(),
        };
        pieces.next()?;
        Ok(Box::new(pieces))
    }

    fn create(&self, name: &str, _: Existing) -> Result<Box<dyn Upload>, StorageError> {
        self.refused(name, "writing")
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        self.refused(name, "deleting")
    }

    fn sweep(&self) -> Result<u64, StorageError> {
        self.refused("", "sweeping")
    }

    fn transfers(&self) -> usize {
        self.transfers
    }
}

/// Reads an object piece by piece. The next piece is on its way while one is read.
struct Pieces {
    url: String,
    name: String,
    link: Arc<Link>,
    /// What was not asked for yet.
    range: Range<u64>,
    /// Where the next piece arrives, and how many bytes it has.
    asked: Option<(Receiver<Reply>, u64)>,
    piece: io::Cursor<Vec<u8>>,
}

impl Pieces {
    /// Waits for the next piece, and asks for the one after it. At the end, the piece is empty.
    fn next(&mut self) -> Result<(), StorageError> {
        if self.asked.is_none() {
            self.ask()?;
        }
        self.piece = io::Cursor::default();
        if let Some((asked, wanted)) = self.asked.take() {
            let (found, bytes) = answered((&self.url, &self.name, "reading"), &asked)?;
            if !matches!(found, Found::Bytes(count) if count == wanted) {
                return unexpected(&self.url, &self.name, "reading");
            }
            self.piece = io::Cursor::new(bytes);
            self.ask()?;
        }
        Ok(())
    }

    fn ask(&mut self) -> Result<(), StorageError> {
        if self.range.is_empty() {
            return Ok(());
        }
        let begin = self.range.start;
        let end = self.range.end.min(begin.saturating_add(PIECE));
        let wanted = Wanted::Bytes {
            name: self.name.clone(),
            begin,
            end,
        };
        let asked = self.link.ask(wanted);
        let asked = asked.ok_or_else(|| unanswered(&self.url, &self.name, "reading"))?;
        self.asked = Some((asked, end - begin));
        self.range.start = end;
        Ok(())
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        self.next().map_err(StorageError::into_io)?;
        self.piece.read(buffer)
    }
}

#[cfg(test)]
mod tests;
