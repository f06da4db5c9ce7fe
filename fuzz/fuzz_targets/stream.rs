//! See `refloat_repository::fuzzing::stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = refloat_repository::fuzzing::stream(data);
});
