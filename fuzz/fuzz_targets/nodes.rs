//! See `refloat_cluster::fuzzing::texts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_cluster::fuzzing::texts(data));
