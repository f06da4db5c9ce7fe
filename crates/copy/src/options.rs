//! What can be asked of a copy.

use refloat_wire::ConnectOptions;

use refloat_dump::DumpOptions;
use refloat_load::LoadOptions;

/// Everything a copy can be told. [`CopyOptions::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CopyOptions {
    /// What is read, and how: what is about files is not looked at.
    pub dump: DumpOptions,
    /// How it is written: what is about the source is not looked at.
    pub load: LoadOptions,
    /// Read both back when the copy is done, and compare every row: the source as of the moment that was copied.
    pub verify: bool,
}

impl CopyOptions {
    /// Options for two servers, all else at its default.
    pub fn new(source: ConnectOptions, target: ConnectOptions) -> Self {
        let load = LoadOptions::new(source.describe(), target);
        Self {
            dump: DumpOptions::new(source, ""),
            load,
            verify: false,
        }
    }

    /// The options without those that mean nothing here: what is copied is chosen on the source alone, under its own names.
    pub(super) fn agreed(&self) -> Self {
        let mut agreed = self.clone();
        agreed.dump.users = false;
        agreed.load.source = agreed.dump.read.source.describe().into();
        agreed.load.source_format = None;
        agreed.load.database = None;
        agreed.load.tables = Vec::new();
        agreed
    }
}
