//! See `refloat_verify::fuzzing::other`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_verify::fuzzing::other(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    );
});
