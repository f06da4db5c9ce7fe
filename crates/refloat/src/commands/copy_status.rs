//! Records the progress of a copy of files every second, for `refloat cluster status`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use refloat_host::Copying;
use refloat_run::Run;
use refloat_run::progress::{Phase, Snapshot};

/// Interval between two records.
const EVERY: Duration = Duration::from_secs(1);

/// Records the progress until [`CopyStatus::end`].
pub struct CopyStatus {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl CopyStatus {
    /// Starts with the role of the server of this data directory. `more` receives each record too.
    pub fn start(
        datadir: &Path,
        role: &str,
        run: &Run,
        mut more: impl FnMut(&Copying, &Snapshot) + Send + 'static,
    ) -> Self {
        Copying::remove_left(datadir);
        let over = Arc::new(AtomicBool::new(false));
        let (ends, run) = (Arc::clone(&over), run.clone());
        let (datadir, role) = (datadir.to_owned(), role.to_owned());
        let thread = std::thread::spawn(move || {
            let mut written = None;
            while !ends.load(Ordering::Relaxed) {
                let now = run.progress.snapshot();
                if now.source_total.is_some() || now.source_done > 0 {
                    let copying = Copying {
                        process: std::process::id(),
                        role: role.clone(),
                        step: step(now.phase).to_owned(),
                        bytes: now.source_done,
                        total: now.source_total,
                        left: now.eta.map(|eta| eta as u64),
                    };
                    write(&datadir, &copying, &mut written);
                    more(&copying, &now);
                }
                std::thread::park_timeout(EVERY);
            }
            if let Some(path) = written {
                let _ = std::fs::remove_file(path);
            }
        });
        Self { over, thread }
    }

    /// Stops recording.
    pub fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

/// Writes the file to the same place as before, or to the first one that works. A full disk is
/// reported by the copy itself.
fn write(datadir: &Path, copying: &Copying, written: &mut Option<PathBuf>) {
    let text = copying.to_text();
    let places = match written.take() {
        Some(path) => vec![path],
        None => Copying::places(datadir, &copying.role).to_vec(),
    };
    *written = places
        .into_iter()
        .find(|path| replace(path, text.as_bytes()).is_ok());
}

/// Replaces a file with a new one. The new file belongs to this account, whoever owned the old one,
/// and a symbolic link is replaced, not followed.
fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let _ = std::fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    file.write_all(text)?;
    std::fs::rename(&new, path)
}

fn step(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepare => "applies the redo log",
        Phase::CatchUp => "catches up",
        phase if phase > Phase::Data => "ends",
        _ => "copies",
    }
}
