//! Options of a copy.

use refloat_wire::ConnectOptions;

use refloat_dump::DumpOptions;
use refloat_load::LoadOptions;

/// Options of a copy. [`CopyOptions::new`] sets the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CopyOptions {
    /// What to read, and how. Options about files are ignored.
    pub dump: DumpOptions,
    /// How to write it. Options about the source are ignored.
    pub load: LoadOptions,
    /// After the copy, read both servers and compare every row. The source is read as of the
    /// snapshot that was copied.
    pub verify: bool,
}

impl CopyOptions {
    /// Options for two servers, with defaults for everything else.
    pub fn new(source: ConnectOptions, target: ConnectOptions) -> Self {
        let load = LoadOptions::new(source.describe(), target);
        Self {
            dump: DumpOptions::new(source, ""),
            load,
            verify: false,
        }
    }

    /// Resets options that do not apply: what to copy is chosen on the source side only, and names
    /// do not change.
    pub(super) fn agreed(&self) -> Self {
        let mut agreed = self.clone();
        agreed.dump.read.accounts = false;
        agreed.load.source = agreed.dump.read.source.describe().into();
        agreed.load.source_format = None;
        agreed.load.database = None;
        agreed.load.tables = Vec::new();
        agreed
    }
}
