//! See `refloat_xbstream::fuzzing::stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_xbstream::fuzzing::stream(data));
