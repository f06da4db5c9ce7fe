//! See `refloat_run::fuzzing::files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_run::fuzzing::files(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    );
});
