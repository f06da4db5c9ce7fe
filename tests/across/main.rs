//! The source of each case on each server is dumped with every tool and loaded into servers of
//! other vendors and versions. It is the same there, or the differences are refused or reported, as
//! listed in the case's file `across`.

mod expect;
mod runner;

#[test]
fn cases_between_servers() {
    runner::all_cases();
}
