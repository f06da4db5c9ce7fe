//! Nodes that lie frozen for a while.

use refloat_sandbox::GaleraNode;

/// Has a frozen node go on, also when a test fails: others would wait for it forever.
pub struct Thaw<'a>(pub &'a GaleraNode);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        // It may have been ended as it lies there.
        let _ = self.0.thaw();
    }
}
