//! Nodes that are frozen for a while.

use refloat_sandbox::GaleraNode;

/// Thaws a node on drop, so also when a test fails: others would wait for it forever.
pub struct Thaw<'a>(pub &'a GaleraNode);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        // It may have been killed while frozen.
        let _ = self.0.thaw();
    }
}
