//! See `refloat_logical::source::delimited::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_logical::source::delimited::fuzz(data));
