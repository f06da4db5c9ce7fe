//! See `refloat_host::fuzzing::sftp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| refloat_host::fuzzing::sftp(data));
