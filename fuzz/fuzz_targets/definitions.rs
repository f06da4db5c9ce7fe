//! See `refloat_schema::fuzzing::definitions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_schema::fuzzing::definitions(data));
