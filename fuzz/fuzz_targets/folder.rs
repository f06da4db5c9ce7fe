//! See `refloat_logical::source::fuzzing::folder`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_logical::source::fuzzing::folder(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    );
});
