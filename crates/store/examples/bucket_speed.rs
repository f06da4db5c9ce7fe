//! How fast a gibibyte goes into a bucket and comes back, and what memory that takes.
//!
//!     cargo run --release -p refloat-store --example bucket_speed -- serve     (says its port)
//!     AWS_ENDPOINT_URL=http://127.0.0.1:PORT AWS_ACCESS_KEY_ID=the-key \
//!         AWS_SECRET_ACCESS_KEY=hush-hush \
//!         cargo run --release -p refloat-store --example bucket_speed -- s3://bucket/speed
//!
//! Two programs, so that the memory is the client's own.

use std::io::{Read as _, Write as _};
use std::time::Instant;

use refloat_store::storage::{BucketOptions, Existing, Patience, open, reader};
use refloat_testkit::s3::{Kind, Server};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 1024 * MIB;

fn main() {
    let url = std::env::args().nth(1).expect("a URL, or serve");
    if url == "serve" {
        let server = Server::start(Kind::default());
        println!("{}", server.port);
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let options = BucketOptions::from_variables(std::env::vars());
    let storage = open(&url, &options).unwrap();
    let mut block = vec![0; MIB as usize];
    for (place, byte) in block.iter_mut().enumerate() {
        *byte = (place * place) as u8;
    }
    for transfers in [1, storage.transfers() as u64] {
        let names: Vec<String> = (0..transfers).map(|number| format!("{number}")).collect();
        let each = |work: &(dyn Fn(&str) + Sync)| {
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for name in &names {
                    scope.spawn(move || work(name));
                }
            });
            (SIZE / MIB) as f64 / begun.elapsed().as_secs_f64()
        };
        let size = SIZE / transfers;
        let up = each(&|name| {
            let mut upload = storage.create(name, Existing::Replace).unwrap();
            for _ in 0..size / MIB {
                upload.write_all(&block).unwrap();
            }
            upload.finish().unwrap();
        });
        println!("{transfers} objects: up {up:.0} MiB/s, peak {}", peak());
        let down = each(&|name| {
            let mut object = reader(&storage, name, 0..size, Patience::default());
            let mut found = vec![0; MIB as usize];
            for _ in 0..size / MIB {
                object.read_exact(&mut found).unwrap();
                assert!(found == block);
            }
        });
        println!("{transfers} objects: down {down:.0} MiB/s, peak {}", peak());
        for name in &names {
            storage.delete(name).unwrap();
        }
    }
}

fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.unwrap_or_default().to_owned()
}
