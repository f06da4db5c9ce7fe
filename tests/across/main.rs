//! Each case's source on each server, dumped by every tool, loaded into the servers of other vendors and versions: it is the same there, or
//! what is not is refused or told, in words that the case's file `across` has.

mod expect;
mod runner;

#[test]
fn cases_between_servers() {
    runner::all_cases();
}
