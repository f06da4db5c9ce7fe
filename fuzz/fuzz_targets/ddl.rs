//! See `refloat_sqltext::fuzzing::ddl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_sqltext::fuzzing::ddl(data));
