//! Sources of several files, made by the tools themselves from real servers: what a load of them leaves behind is what was dumped.

#[path = "sources/as_it_stands.rs"]
mod as_it_stands;
#[path = "sources/bench.rs"]
mod bench;
#[path = "sources/by_hand.rs"]
mod by_hand;
#[path = "load/case.rs"]
#[expect(dead_code, reason = "what a case says about loads")]
mod case;
#[path = "sources/delimited.rs"]
mod delimited;
#[path = "sources/history.rs"]
mod history;
#[path = "sources/mydumper.rs"]
mod mydumper;
#[path = "sources/mydumper_1x.rs"]
mod mydumper_1x;
#[path = "sources/mydumper_cases.rs"]
mod mydumper_cases;
#[path = "sources/mydumper_writer.rs"]
mod mydumper_writer;
#[path = "sources/shell.rs"]
mod shell;
#[path = "sources/shell_dumps.rs"]
mod shell_dumps;
#[path = "sources/shell_mariadb.rs"]
mod shell_mariadb;
#[path = "dump/spelled.rs"]
mod spelled;
#[path = "sources/tab.rs"]
mod tab;
#[path = "sources/vendors.rs"]
mod vendors;
