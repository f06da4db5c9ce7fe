//! What every storage promises, asked of each kind, and what is particular to each.

mod buckets;
mod folders;
mod proxy;
