//! Backs real servers up and restores them.

#[path = "physical/clone.rs"]
mod clone;
#[path = "physical/common.rs"]
mod common;
#[path = "physical/damage.rs"]
mod damage;
#[path = "physical/elsewhere.rs"]
mod elsewhere;
#[path = "physical/faults.rs"]
mod faults;
#[path = "physical/point_in_time.rs"]
mod point_in_time;
#[path = "physical/power_cuts.rs"]
mod power_cuts;
#[path = "physical/whole.rs"]
mod whole;
