//! Dump directories and delimited files, made from real servers by the tools themselves or after
//! their source code: a load restores what was dumped.

mod as_it_stands;
mod bench;
mod by_hand;
mod delimited;
mod history;
mod mydumper;
mod mydumper_1x;
mod mydumper_cases;
mod mydumper_writer;
mod shell;
mod shell_dumps;
mod shell_mariadb;
mod tab;
mod vendors;
