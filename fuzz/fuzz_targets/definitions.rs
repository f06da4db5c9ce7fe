//! See `refloat_logical::fuzzing::definitions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_logical::fuzzing::definitions(data));
