//! Tests of the room's public face.

mod drive;
mod scan_hazards;
mod scan_props;
