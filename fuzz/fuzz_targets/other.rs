//! See `refloat_logical::fuzzing::other`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_logical::fuzzing::other(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    );
});
