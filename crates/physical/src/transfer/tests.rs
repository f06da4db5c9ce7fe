//! Both ends, with a network between them that loses connections.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use refloat_repository::BLOCK;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_wire::PeerTls;

use super::*;
use crate::about::{About, Lsn, ServerFacts};
use crate::error::PhysicalError;
use crate::stream::Blocks as _;
use crate::tool::{Tool, ToolKind};

/// What a network does to a connection, after so many bytes towards the receiver.
#[derive(Clone, Copy)]
enum Harm {
    Cut(u64),
    /// A bit of this byte arrives changed, in so many connections.
    Flip(u64, u64),
}

/// Forwards connections to a receiver, and harms each one. Counts how often.
fn harming(to: String, harm: Harm) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let harmed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&harmed);
    std::thread::spawn(move || {
        for from in listener.incoming().map_while(Result::ok) {
            let Ok(onward) = TcpStream::connect(&to) else {
                return;
            };
            let back = (onward.try_clone().unwrap(), from.try_clone().unwrap());
            let unharmed = AtomicU64::new(0);
            std::thread::spawn(move || forward(back.0, back.1, Harm::Cut(u64::MAX), &unharmed));
            let harmed = Arc::clone(&counted);
            std::thread::spawn(move || forward(from, onward, harm, &harmed));
        }
    });
    (address, harmed)
}

fn forward(mut from: TcpStream, mut to: TcpStream, harm: Harm, harmed: &AtomicU64) {
    let (mut bytes, mut sum) = (vec![0; 64 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let before = sum;
        sum += count as u64;
        match harm {
            Harm::Cut(after) if sum > after => {
                harmed.fetch_add(1, Ordering::Relaxed);
                break;
            }
            Harm::Flip(at, most)
                if (before..sum).contains(&at) && harmed.fetch_add(1, Ordering::Relaxed) < most =>
            {
                bytes[(at - before) as usize] ^= 4;
            }
            Harm::Cut(_) | Harm::Flip(..) => {}
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn noise(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn run(folder: &Path) -> Run {
    Run {
        dir: RunDir::create(folder, "test").unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

fn about() -> About {
    About {
        kind: "physical".to_owned(),
        format: 1,
        server: ServerFacts::default(),
        tool: Tool {
            kind: ToolKind::MariadbBackup,
            program: PathBuf::from("mariadb-backup"),
            version: (10, 11, 19),
        },
        lsn: Lsn::default(),
        binlog: None,
        binlog_began: None,
        galera: None,
        replica: None,
        room: None,
    }
}

type Files = BTreeMap<&'static str, Vec<u8>>;

fn files() -> Files {
    let mut holes = vec![0; 5 * BLOCK + 77];
    holes[2 * BLOCK..3 * BLOCK].copy_from_slice(&noise(BLOCK, 5));
    BTreeMap::from([
        ("empty", Vec::new()),
        ("db/small", b"small".to_vec()),
        ("db/many", noise(20 * BLOCK + 12_345, 3)),
        ("holes", holes),
        ("only a hole", vec![0; 2 * BLOCK + 5]),
    ])
}

/// Sends files, and returns what was sent.
fn send(address: &str, secret: &Secret, files: &Files) -> Result<Sent, PhysicalError> {
    let sender = Sender::connect(address, secret, 3, &Cancel::new())?;
    let mut list = Vec::new();
    for (path, content) in files {
        let file = sender.begin(Path::new(path));
        for (number, block) in content.chunks(BLOCK).enumerate() {
            let mut bytes = sender.buffer();
            bytes.extend_from_slice(block);
            sender.put(file, (number * BLOCK) as u64, bytes)?;
        }
        list.push((file, (*path).to_owned(), content.len() as u64));
    }
    // A file that no longer exists at the end.
    let gone = sender.begin(Path::new("gone"));
    sender.put(gone, 0, b"gone".to_vec())?;
    let list = Received {
        files: list,
        about: Some(about()),
        words: String::new(),
    };
    sender.finish(&serde_json::to_vec(&list).unwrap())
}

fn assert_are(folder: &Path, files: &Files) {
    for (path, content) in files {
        let found = fs::read(folder.join(path)).unwrap();
        assert!(found == *content, "{path}");
    }
    assert!(!folder.join("gone").exists());
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        4,
        "nothing else is left"
    );
}

#[test]
fn files_arrive_whole_however_often_connections_are_lost() {
    let files = files();
    for after in [u64::MAX, 5_000_000, 1_300_000] {
        let folder = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
        let address = receiver.address().unwrap().to_string();
        let (address, cuts) = harming(address, Harm::Cut(after));
        let got = std::thread::scope(|scope| {
            let sender = scope.spawn(|| send(&address, receiver.secret(), &files));
            let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
            let sent = sender.join().unwrap().unwrap();
            assert!(sent.same == 0 && sent.bytes > 20 << 20, "{sent:?}");
            got.unwrap()
        });
        assert_eq!(got.about, Some(about()));
        assert_are(folder.path(), &files);
        let cuts = cuts.load(Ordering::Relaxed);
        assert_eq!(cuts >= 2, after != u64::MAX, "{cuts} cuts");
    }
}

// Hazard of streams: a byte that arrives changed
#[test]
fn a_byte_that_changes_on_its_way_is_never_written() {
    let files = files();
    // In the random number and the first frame of a greeting, in a frame's length, and in blocks.
    for at in [20, 40, 60, 1_500_000, 5_000_000] {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
        let address = receiver.address().unwrap().to_string();
        let (address, flips) = harming(address, Harm::Flip(at, 4));
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| send(&address, receiver.secret(), &files));
            let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
            let failed = got.err().or(sender.join().unwrap().err());
            let failed = failed.map(|error| refloat_host::chain(&error));
            assert_eq!(failed, None, "byte {at}");
        });
        assert_are(folder.path(), &files);
        let flips = flips.load(Ordering::Relaxed);
        assert!(flips >= 3, "byte {at}: changed {flips} times");
    }
}

// Hazard of streams: P-26 a list of files that points out of the directory
#[test]
fn a_list_that_leads_out_of_the_directory_is_refused() {
    for path in ["../out", "/refloat-out", "db/../../out"] {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
        let address = receiver.address().unwrap().to_string();
        let files = BTreeMap::from([(path, b"out".to_vec())]);
        let (here, there) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| send(&address, receiver.secret(), &files));
            let inside = folder.path().join("data");
            fs::create_dir(&inside).unwrap();
            let got = receiver.receive(&inside, None, &run(state.path()), || Ok(()));
            (got, sender.join().unwrap())
        });
        for error in [here.unwrap_err(), there.unwrap_err()] {
            let error = refloat_host::chain(&error);
            assert!(error.contains(path), "{error}");
        }
        assert!(!folder.path().join("out").exists() && !Path::new("/refloat-out").exists());
    }
}

/// Nothing is sent of holes, for longer than the receiver would wait.
#[test]
fn a_sender_of_nothing_but_holes_says_that_it_lives() {
    const PIECES: u64 = 32;
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random())
        .unwrap()
        .patience(Some(3 * PULSE));
    let address = receiver.address().unwrap().to_string();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let sender = Sender::connect(&address, receiver.secret(), 1, &Cancel::new()).unwrap();
            let file = sender.begin(Path::new("holes"));
            for number in 0..PIECES {
                std::thread::sleep(PULSE / 4);
                sender
                    .put(file, number * BLOCK as u64, vec![0; BLOCK])
                    .unwrap();
            }
            let list = Received {
                files: vec![(file, "holes".to_owned(), PIECES * BLOCK as u64)],
                about: Some(about()),
                words: String::new(),
            };
            sender.finish(&serde_json::to_vec(&list).unwrap())
        });
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        got.unwrap_or_else(|error| panic!("{}", refloat_host::chain(&error)));
        sender.join().unwrap().unwrap();
    });
    let size = fs::metadata(folder.path().join("holes")).unwrap().len();
    assert_eq!(size, PIECES * BLOCK as u64);
}

#[test]
fn what_the_receiver_has_is_not_sent() {
    let mut files = files();
    let old = tempfile::tempdir().unwrap();
    for (path, content) in &files {
        let path = old.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    files.get_mut("db/many").unwrap()[7 * BLOCK + 5] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
    let address = receiver.address().unwrap().to_string();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&address, receiver.secret(), &files));
        let old = Some(old.path());
        let got = receiver.receive(folder.path(), old, &run(state.path()), || Ok(()));
        got.unwrap();
        let sent = sender.join().unwrap().unwrap();
        assert!(sent.framed < 2 * BLOCK as u64, "{sent:?}");
    });
    assert_are(folder.path(), &files);
}

// Hazard of streams: a transfer that was killed before everything had arrived
#[test]
fn what_an_earlier_transfer_has_brought_is_not_sent_again() {
    let files = files();
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Without its name, at another place, and without its last block and a half.
    let earlier = folder.path().join(".refloat-earlier/3/.refloat-incoming");
    fs::create_dir_all(&earlier).unwrap();
    let many = &files["db/many"];
    let mut arrived = noise(BLOCK, 77);
    arrived.extend_from_slice(&many[..19 * BLOCK + BLOCK / 2]);
    fs::write(earlier.join("7"), arrived).unwrap();
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
    let address = receiver.address().unwrap().to_string();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&address, receiver.secret(), &files));
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        got.unwrap();
        let sent = sender.join().unwrap().unwrap();
        assert_eq!(sent.same, 19 * BLOCK as u64, "{sent:?}");
        assert!(sent.framed < 3 * BLOCK as u64, "{sent:?}");
    });
    assert_are(folder.path(), &files);
}

#[test]
fn a_stranger_sends_nothing_and_holds_up_nobody() {
    let files = files();
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
    let address = receiver.address().unwrap().to_string();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut stranger = TcpStream::connect(&address).unwrap();
            stranger
                .write_all(b"GET / HTTP/1.0\r\n\r\n and more")
                .unwrap();
            let error = send(&address, &Secret::random(), &files).unwrap_err();
            send(&address, receiver.secret(), &files).unwrap();
            refloat_host::chain(&error)
        });
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        got.unwrap();
        let error = sender.join().unwrap();
        assert!(
            error.contains("the other end is not that of this transfer"),
            "{error}"
        );
    });
    assert_are(folder.path(), &files);
}

#[test]
fn both_ends_say_why_it_ended() {
    let state = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
    let address = receiver.address().unwrap().to_string();
    // The sender fails.
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Sender::connect(&address, receiver.secret(), 2, &Cancel::new()).unwrap();
            sender.give_up("its disk is on fire");
        });
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        refloat_host::chain(&got.unwrap_err())
    });
    assert!(error.contains("its disk is on fire"), "{error}");
    // The receiver fails: a file stands where a folder has to be.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("db"), "in the way").unwrap();
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
    let address = receiver.address().unwrap().to_string();
    let (there, here) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&address, receiver.secret(), &files()));
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        (
            refloat_host::chain(&sender.join().unwrap().unwrap_err()),
            refloat_host::chain(&got.unwrap_err()),
        )
    });
    assert!(here.contains("putting the file in its place"), "{here}");
    assert!(there.contains("putting the file in its place"), "{there}");
}

/// An authority and a certificate of it.
fn certificates(folder: &Path) -> PeerTls {
    for arguments in [
        "req -x509 -newkey rsa:2048 -nodes -days 10 -subj /CN=A -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=node -keyout key.pem -out request.pem",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -set_serial 2 -days 10 -out node.pem",
    ] {
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(arguments.split(' ')).current_dir(folder);
        assert!(openssl.output().unwrap().status.success(), "{arguments}");
    }
    let at = |name: &str| folder.join(name);
    PeerTls::load(&at("ca.pem"), &at("node.pem"), &at("key.pem")).unwrap()
}

#[test]
fn one_without_a_certificate_says_why_and_no_more() {
    let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let certificates = certificates(state.path());
    let secret = Secret::random();
    let receiver = Receiver::bind("127.0.0.1:0", secret.clone().with(Some(certificates))).unwrap();
    let address = receiver.address().unwrap().to_string();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            // Neither files, nor words without the secret.
            let files = send(&address, &secret, &files()).unwrap_err();
            let stranger = Sender::greet(&address, &Secret::random(), &Cancel::new()).err();
            let greeting = Sender::greet(&address, &secret, &Cancel::new()).unwrap();
            greeting.give_up("there is no certificate here");
            (refloat_host::chain(&files), stranger.is_some())
        });
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        let here = refloat_host::chain(&got.unwrap_err());
        assert!(here.contains("there is no certificate here"), "{here}");
        let (files, is_refused) = sender.join().unwrap();
        assert!(files.contains("certificates are asked for here"), "{files}");
        assert!(is_refused);
    });
    for entry in fs::read_dir(folder.path()).unwrap() {
        let found = fs::read_dir(entry.unwrap().path()).unwrap();
        assert_eq!(found.count(), 0, "nothing was taken");
    }
}

/// Receives two heartbeats of the other end.
fn hears_that_it_lives(channel: &mut channel::Channel) {
    let mut frame = Vec::new();
    for _ in 0..2 {
        channel.receive(&mut frame).unwrap();
        assert_eq!(frame::Frame::read(&frame), Some(frame::Frame::Alive));
    }
}

#[test]
fn a_busy_receiver_says_that_it_lives() {
    let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let receiver = Receiver::bind("127.0.0.1:0", Secret::random()).unwrap();
    let address = receiver.address().unwrap().to_string();
    let files = files();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&address, receiver.secret(), &files));
        // A connection that says nothing does not hold it up.
        let silent = TcpStream::connect(&address).unwrap();
        receiver.busy_while(|| {
            let mut channel = channel::Channel::connect(&address, receiver.secret()).unwrap();
            let mut hello = Vec::new();
            let (stream, streams, asks) = (0, 3, true);
            frame::Frame::Hello {
                stream,
                streams,
                asks,
            }
            .write(&mut hello);
            channel.send(&hello).unwrap();
            hears_that_it_lives(&mut channel);
        });
        drop(silent);
        let got = receiver.receive(folder.path(), None, &run(state.path()), || Ok(()));
        got.unwrap();
        sender.join().unwrap().unwrap();
    });
    assert_are(folder.path(), &files);

    // The same at the end of a transfer.
    let secret = Secret::random();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| channel::Channel::connect(&address, &secret).unwrap());
        let mut here = channel::Channel::accept(listener.accept().unwrap().0, &secret).unwrap();
        let mut there = other.join().unwrap();
        receive::alive_while(&mut here, || hears_that_it_lives(&mut there));
    });
}
