//! Active writers: each has an object that names the packs that it may need, so that a sweep spares
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use refloat_store::storage::{Existing, Storage, StorageErrorKind, read_whole, write_whole};

use crate::error::RepositoryError;
use crate::pack::{PREFIX, begun, is_id, new_id};

/// Folder of the objects.
const WRITERS: &str = "writers/";
/// Limit for such an object, which has a line of some 50 bytes for each pack of a gigabyte.
const WRITER_MAX: u64 = 64 << 20;
/// How often a writer renews its object.
const RENEWED: Duration = Duration::from_secs(3600);
/// A writer that has not renewed its object for this long is considered dead.
const SILENT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Announces an active writer, until it is dropped.
pub struct Presence {
    storage: Arc<dyn Storage>,
    name: String,
    /// Names of packs that it did not begin, a line for each.
    needs: String,
    /// Seconds since 1970.
    renewed: AtomicU64,
}

impl Presence {
    /// Announces a writer that may need these packs besides those that it begins.
    pub fn begin(
        storage: &Arc<dyn Storage>,
        needs: impl Iterator<Item = String>,
    ) -> Result<Self, RepositoryError> {
        let new = Self {
            storage: Arc::clone(storage),
            name: format!("{WRITERS}{}", new_id()),
            needs: needs.collect::<Vec<_>>().join("\n"),
            renewed: AtomicU64::new(now()),
        };
        new.announce(now())?;
        Ok(new)
    }

    /// Announces a writer that may need every pack, because it does not know yet which ones.
    pub fn of_all(storage: &Arc<dyn Storage>) -> Result<Self, RepositoryError> {
        Self::begin(storage, std::iter::once(PREFIX.to_owned()))
    }

    /// Renews the announcement from time to time. If that fails, the writer finds out at its end
    /// whether something is missing.
    pub fn renew(&self) {
        let (last, now) = (self.renewed.load(Ordering::Relaxed), now());
        let order = Ordering::Relaxed;
        if now.saturating_sub(last) >= RENEWED.as_secs()
            && (self.renewed.compare_exchange(last, now, order, order)).is_ok()
        {
            let _ = self.announce(now);
        }
    }

    fn announce(&self, now: u64) -> Result<(), RepositoryError> {
        if self.storage.is_alone() {
            return Ok(());
        }
        let text = format!("{now}\n{}", self.needs);
        let written = write_whole(
            &*self.storage,
            &self.name,
            text.as_bytes(),
            Existing::Replace,
        );
        Ok(written?)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if !self.storage.is_alone() {
            let _ = self.storage.delete(&self.name);
        }
    }
}

/// A writer that is at work.
pub struct Present {
    began: SystemTime,
    needs: Vec<String>,
}

impl Present {
    /// Whether it may need a pack: it has begun or named the pack.
    pub fn needs(&self, pack: &str) -> bool {
        begun(pack).is_none_or(|begun| begun >= self.began)
            || self.needs.iter().any(|name| pack.starts_with(name))
    }
}

/// The writers that are at work. Removes what killed ones have left.
pub fn present(storage: &Arc<dyn Storage>) -> Result<Vec<Present>, RepositoryError> {
    let mut found = Vec::new();
    for object in storage.list(WRITERS)? {
        if !object.name.strip_prefix(WRITERS).is_some_and(is_id) {
            continue;
        }
        let text = match read_whole(storage, &object.name, WRITER_MAX) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            // The writer has ended meanwhile.
            Err(error) if error.kind() == StorageErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let mut lines = text.lines();
        let renewed = lines.next().and_then(|line| line.parse::<u64>().ok());
        let (Some(began), Some(renewed)) = (begun(&object.name), renewed) else {
            let detail = "it does not say which writer is at work";
            return Err(RepositoryError::damaged(storage.url(), object.name, detail));
        };
        if now().saturating_sub(renewed) >= SILENT.as_secs() {
            storage.delete(&object.name)?;
            continue;
        }
        found.push(Present {
            began,
            needs: lines.map(str::to_owned).collect(),
        });
    }
    Ok(found)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
