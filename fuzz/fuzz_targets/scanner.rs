//! See `refloat_sqltext::fuzzing::scanner`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_sqltext::fuzzing::scanner(data));
