//! See `refloat_wire::fuzzing::options`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    refloat_wire::fuzzing::options(
        data,
        &std::env::temp_dir().join(format!("refloat-fuzz-{}", std::process::id())),
    )
});
