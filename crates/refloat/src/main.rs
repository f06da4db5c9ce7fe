//! The refloat program.
fn main() {}
