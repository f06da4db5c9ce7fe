//! Stops what runs beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag on drop, and so also when an assertion fails; otherwise the test would wait
/// forever.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
