//! See `refloat_wire::fuzzing::packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_wire::fuzzing::packets(data));
