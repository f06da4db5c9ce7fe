//! Each case's source on each server, dumped by every tool, loaded into the servers of other vendors and versions: it is the same there, or
//! what is not is refused or told, in words that the case's file `across` has.

#[path = "load/case.rs"]
#[expect(dead_code, reason = "what a case says about loads")]
mod case;
#[path = "across/expect.rs"]
mod expect;
#[path = "dump/lost.rs"]
mod lost;
#[path = "across/runner.rs"]
mod runner;
#[path = "across/tools.rs"]
mod tools;

#[test]
fn cases_between_servers() {
    runner::all_cases();
}
