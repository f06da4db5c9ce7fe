//! Binary logs: keeps them in an archive, and replays them after a restore, up to a point in time.

mod about;
pub mod archive;
pub(crate) mod event;
mod gtid;
pub mod kept;
mod logs;
pub(crate) mod replay;
mod survey;
pub(crate) mod until;

pub use about::ArchiveAbout;
pub use archive::{ArchiveOptions, ArchiveOutcome, archive};
pub use gtid::{Gtid, Seen};
pub use kept::Kept;
pub use logs::{LogFile, Logs, LogsPlace};
pub use replay::{PointInTime, Replayed};
pub use survey::{Stretch, survey};
pub use until::{Until, UntilError};
