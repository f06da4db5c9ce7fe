//! Measures how fast the client alone streams rows. The other side is a thread that speaks the
//! protocol and discards the bytes, without a server's work. Run with
//! `cargo run --release -p refloat-wire --example stream_speed`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use refloat_wire::{BulkPacket, BulkType, ConnectOptions, Connection, SslMode};

const GIGABYTES: u64 = 4;
const TOTAL: u64 = GIGABYTES * 1_000_000_000;
const BLOCK: usize = 1 << 20;
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

fn main() {
    println!("load data: {:.2} GB/s", load());
    println!("bulk rows, encoded and sent: {:.2} GB/s", bulk());
    println!("rows read: {:.2} GB/s", rows());
}

/// Streams bytes with LOAD DATA.
fn load() -> f64 {
    let mut c = connect();
    let block = vec![b'x'; BLOCK];
    let started = Instant::now();
    c.load_data("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", &mut |out| {
        for _ in 0..TOTAL / BLOCK as u64 {
            out.write(&block)?;
        }
        Ok(())
    })
    .unwrap();
    rate(started)
}

/// Encodes rows shaped like sysbench's into packets of about 1 MiB.
fn bulk() -> f64 {
    let mut c = connect();
    let statement = c.prepare("INSERT INTO t VALUES (?, ?, ?, ?)").unwrap();
    let types = [
        BulkType::LongLong,
        BulkType::LongLong,
        BulkType::Blob,
        BulkType::Blob,
    ];
    let mut packet = BulkPacket::new(&statement, &types);
    let (text, pad) = ([b'c'; 119], [b'p'; 59]);
    let started = Instant::now();
    let mut sent = 0;
    while sent < TOTAL {
        packet.clear();
        while packet.len() < BLOCK {
            packet.put_i64(1);
            packet.put_i64(2);
            packet.put_bytes(&text);
            packet.put_bytes(&pad);
            packet.end_row();
        }
        sent += packet.len() as u64;
        c.bulk_send(&packet).unwrap();
        c.read_result().unwrap();
    }
    rate(started)
}

/// Reads rows of the same shape, as text.
fn rows() -> f64 {
    let mut c = connect();
    let started = Instant::now();
    let mut bytes = 0;
    while bytes < TOTAL {
        c.query_each("SELECT rows", &mut |row| {
            bytes += row.byte_len() as u64;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    }
    rate(started)
}

fn rate(started: Instant) -> f64 {
    GIGABYTES as f64 / started.elapsed().as_secs_f64()
}

fn connect() -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || Sink(listener.accept().unwrap().0, Vec::new()).serve());
    let options = ConnectOptions {
        ssl_mode: SslMode::Disabled,
        ..ConnectOptions::tcp("127.0.0.1", port, "u")
    };
    Connection::connect(&options).unwrap()
}

/// Stands in for the server.
struct Sink(TcpStream, Vec<u8>);

impl Sink {
    fn serve(mut self) {
        self.greet();
        self.read();
        self.send(2, OK);
        loop {
            let Some(command) = self.read() else { return };
            if command[0] == 0x16 {
                self.prepared();
            } else if command.starts_with(b"\x03LOAD") {
                self.send(1, b"\xfbx");
                let mut sequence = 1_u8;
                while !self.read().unwrap().is_empty() {
                    sequence = sequence.wrapping_add(1);
                }
                self.send(sequence.wrapping_add(2), OK);
            } else if command.starts_with(b"\x03SELECT rows") {
                self.table(
                    &[&[b'c'; 119][..], &[b'p'; 59], b"1234567", b"123"],
                    500_000,
                );
            } else if command.starts_with(b"\x03SELECT") {
                let version: &[u8] = b"10.11.0-MariaDB";
                self.table(&[b"h", b"1", b"d", version, b"16777216", b"1"], 1);
            } else if command[0] == 3 {
                self.table(&[b"a", b"b"], 1);
            } else {
                self.send(1, OK);
            }
        }
    }

    fn greet(&mut self) {
        let mut p = b"\x0a5.5.5-10.11.0-MariaDB\0\x01\0\0\0abcdefgh\0".to_vec();
        // PROTOCOL_41, SECURE_CONNECTION and LOCAL_FILES; PLUGIN_AUTH; MariaDB's
        // STMT_BULK_OPERATIONS.
        p.extend_from_slice(&0x8280_u16.to_le_bytes());
        p.extend_from_slice(&[45, 2, 0]);
        p.extend_from_slice(&0x0008_u16.to_le_bytes());
        p.push(21);
        p.extend_from_slice(&[0; 6]);
        p.extend_from_slice(&4_u32.to_le_bytes());
        p.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
        self.send(0, &p);
    }

    fn prepared(&mut self) {
        self.send(1, &[0, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
        for sequence in 2..6 {
            self.send(sequence, &column());
        }
        self.send(6, b"\xfe\0\0\x02\0");
    }

    fn table(&mut self, cells: &[&[u8]], rows: usize) {
        let mut out = Vec::new();
        let mut sequence = 1_u8;
        let mut add = |out: &mut Vec<u8>, payload: &[u8]| {
            out.extend_from_slice(
                &(payload.len() as u32 | u32::from(sequence) << 24).to_le_bytes(),
            );
            out.extend_from_slice(payload);
            sequence = sequence.wrapping_add(1);
        };
        add(&mut out, &[cells.len() as u8]);
        for _ in cells {
            add(&mut out, &column());
        }
        add(&mut out, b"\xfe\0\0\x02\0");
        let row: Vec<u8> = cells
            .iter()
            .flat_map(|c| std::iter::once(c.len() as u8).chain(c.iter().copied()))
            .collect();
        for _ in 0..rows {
            add(&mut out, &row);
            if out.len() > BLOCK {
                self.0.write_all(&out).unwrap();
                out.clear();
            }
        }
        add(&mut out, b"\xfe\0\0\x02\0");
        self.0.write_all(&out).unwrap();
    }

    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let mut packet = (payload.len() as u32 | u32::from(sequence) << 24)
            .to_le_bytes()
            .to_vec();
        packet.extend_from_slice(payload);
        self.0.write_all(&packet).unwrap();
    }

    fn read(&mut self) -> Option<&[u8]> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).ok()?;
        head[3] = 0;
        let length = u32::from_le_bytes(head) as usize;
        if self.1.len() < length {
            self.1.resize(length, 0);
        }
        self.0.read_exact(&mut self.1[..length]).ok()?;
        Some(&self.1[..length])
    }
}

fn column() -> Vec<u8> {
    let mut p = b"\x03def\0\0\0\x01c\x01c\x0c".to_vec();
    p.extend_from_slice(&[63, 0, 0, 1, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
    p
}
