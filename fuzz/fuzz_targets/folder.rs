//! See `refloat_source::fuzzing::folder`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_source::fuzzing::folder(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    );
});
