//! See `refloat_source::delimited::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_source::delimited::fuzz(data));
