//! Tests of the crate's public API.

mod corpora;
mod ddl;
mod drive;
mod dumps;
mod kinds;
mod scan_hazards;
mod scan_props;
mod values;
