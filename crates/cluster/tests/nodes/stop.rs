//! Tells what runs beside a test to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells it to stop, also when an assertion ends the test, which would wait for it forever.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
