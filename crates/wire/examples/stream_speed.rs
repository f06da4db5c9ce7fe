//! How fast the client side alone streams rows: to a peer that only reads (first argument: `load` or `bulk`), 4 GiB each.
fn main() {}
