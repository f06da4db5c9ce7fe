//! See `refloat_source::fuzzing::file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_source::fuzzing::file(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    );
});
