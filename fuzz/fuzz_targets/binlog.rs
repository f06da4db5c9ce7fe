//! See `refloat_physical::fuzzing::binlog`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_physical::fuzzing::binlog(data));
