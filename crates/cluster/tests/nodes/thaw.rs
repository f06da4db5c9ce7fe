//! Nodes that lie frozen for a while.

use refloat_sandbox::GaleraNode;

/// Has a node go on that lies frozen, also when a test fails: whoever waits for it would do so for ever.
pub struct Thaw<'a>(pub &'a GaleraNode);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        // It may have been ended as it lies there.
        let _ = self.0.thaw();
    }
}
