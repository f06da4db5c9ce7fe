//! What the suites share: cases, the sources that they are built from, and the tools that dump them.

#[path = "common/built.rs"]
pub mod built;
#[path = "common/by_hand.rs"]
pub mod by_hand;
#[path = "common/case.rs"]
pub mod case;
#[path = "common/lost.rs"]
pub mod lost;
#[path = "common/spelled.rs"]
pub mod spelled;
#[path = "common/tools.rs"]
pub mod tools;
