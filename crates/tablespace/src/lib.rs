//! Builds InnoDB tablespaces outside the server.
//!
//! The server makes an empty table and exports it: its bytes decide numbers, flags and roots
//! ([`space`]), its description how records are stored ([`description`]). [`value`] makes stored
//! values of those of a dump, [`record`] makes records of rows, [`order`] and [`sort`] bring those
//! of other indexes into their order, [`index`] builds a B-tree of records, page by page, and
//! [`table`] does all of this for the rows of a table, in parts that can be built at the same time.
//! The file is written through a [`sink::Sink`]. `docs/design/tablespace.md` says more.

pub mod description;
mod elsewhere;
pub mod format;
pub mod index;
mod level;
pub mod order;
pub mod record;
pub mod sink;
pub mod sort;
pub mod space;
pub mod table;
pub mod value;
