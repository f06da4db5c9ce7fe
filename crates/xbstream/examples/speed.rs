//! How fast streams are read and written:
//! `cargo run --release -p refloat-xbstream --example speed`.

use std::io::{self, Read, Write as _};
use std::thread;
use std::time::Instant;

use refloat_xbstream::{Dialect, Operation, Reader, Writer};

/// Length of the stream's file, in bytes.
const LENGTH: usize = 256 << 20;
const ROUNDS: u32 = 8;

fn main() {
    let page: Vec<u8> = (0..1 << 20)
        .map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut stream = Vec::with_capacity(LENGTH + (1 << 20));
    say("written to memory", || {
        stream.clear();
        let mut writer = Writer::new(&mut stream, Dialect::MariaDb);
        writer.create("t.ibd").expect("a good name");
        for _ in 0..LENGTH / page.len() {
            writer.write("t.ibd", &page).expect("memory");
        }
        writer.end("t.ibd").expect("memory");
        writer.finish().expect("it is whole");
    });
    say("read from memory", || read(&stream[..]));
    say("read from a pipe", || {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&stream).expect("a reader");
                drop(writer);
            });
            read(reader);
        });
    });
}

fn read(input: impl Read) {
    let mut reader = Reader::new(input, Dialect::MariaDb);
    let mut length = 0;
    while let Some(operation) = reader.read().expect("it is whole") {
        if let Operation::Data { bytes, .. } = operation {
            length += bytes.len();
        }
    }
    assert_eq!(length, LENGTH);
}

/// Prints the best of some rounds.
fn say(what: &str, mut work: impl FnMut()) {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let best = (0..ROUNDS).map(round).fold(f64::MAX, f64::min);
    println!("{what}: {:.1} GB/s", LENGTH as f64 / best / 1e9);
}
