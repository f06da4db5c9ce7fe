//! Bodies of fuzz targets for what comes from machines. Not part of the public API.

use crate::control::recovered;
use crate::grastate::GraState;
use crate::host::{last_line, listening};
use crate::position::Position;

pub use crate::storage::fuzzing::sftp;

/// Parses text that a machine may send.
pub fn texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(state) = GraState::parse(&text) {
        state.is_known();
    }
    if let Ok(position) = text.parse::<Position>() {
        position.is_known();
    }
    recovered(&text);
    last_line(bytes);
    listening(&text).for_each(drop);
}
