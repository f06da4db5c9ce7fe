//! Shared by the suites: the cases, the sources built from them, and the tools that dump those.

#[path = "common/built.rs"]
pub mod built;
#[path = "common/by_hand.rs"]
pub mod by_hand;
#[path = "common/case.rs"]
pub mod case;
#[path = "common/chosen.rs"]
pub mod chosen;
#[path = "common/lost.rs"]
pub mod lost;
#[path = "common/planned.rs"]
pub mod planned;
#[path = "common/spelled.rs"]
pub mod spelled;
#[path = "common/tools.rs"]
pub mod tools;

/// Whether the slow tests run (`REFLOAT_KINDS=all`), which take more rounds.
pub fn slow() -> bool {
    std::env::var_os("REFLOAT_KINDS").is_some()
}
