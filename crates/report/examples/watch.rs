//! Shows the terminal face with a run that does nothing, to look at the layout:
//!
//!     cargo run -p refloat-report --example watch -- [SECONDS]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_report::live::TerminalFace;
use refloat_report::progress::Style;
use refloat_run::events::Events;
use refloat_run::progress::{Phase, Progress, TableState};

/// Size of the simulated dump in bytes.
const TOTAL: u64 = 576 << 20;

fn main() -> std::io::Result<()> {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(10.0);
    let (progress, events, position) =
        (Progress::new(), Events::new(), Arc::new(AtomicU64::new(0)));
    progress.set_source(Some(TOTAL), position.clone());
    let face = TerminalFace::start(
        &progress,
        Style {
            ascii: false,
            colour: true,
        },
    )?;
    events.add(face.sink());

    progress.set_phase(Phase::Data);
    let tables: Vec<_> = (1..=12)
        .map(|n| progress.table(&format!("shop.sbtest{n}"), TableState::Loading))
        .collect();
    progress.plan_builds(12, TOTAL);
    let began = Instant::now();
    let mut warned = false;
    while began.elapsed().as_secs_f64() < seconds * 0.7 {
        std::thread::sleep(Duration::from_millis(50));
        let done = (TOTAL as f64 * began.elapsed().as_secs_f64() / (seconds * 0.7))
            .min(TOTAL as f64) as u64;
        let step = done - position.swap(done, Ordering::Relaxed);
        for table in &tables {
            table.add(step / 12 / 200, step / 12);
        }
        if !warned && began.elapsed().as_secs_f64() > seconds * 0.3 {
            warned = true;
            events.warn("this is what a warning looks like while the block is drawn");
        }
    }
    progress.set_phase(Phase::Indexes);
    for table in tables {
        table.set_state(TableState::Indexing);
        let build = progress.build(1, TOTAL / 12);
        std::thread::sleep(Duration::from_secs_f64(seconds * 0.3 / 12.0));
        build.finish();
        table.loaded();
    }
    face.stop();
    eprintln!("the end");
    Ok(())
}
