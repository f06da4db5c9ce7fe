//! Why nodes have lost their position, as comments in their `grastate.dat` for whoever finds the
//! file.

/// Why a node has lost its position, as a comment in its `grastate.dat` for whoever finds the file.
pub const LOADED: &str = "# refloat cluster restore: rows came into these tables without write-sets, so this node has no place in the old\n\
    # history any more: with its old seqno it would join by IST, and differ from the others for ever.\n";
/// The same for a node that continued without the others.
pub const ASTRAY: &str = "# refloat cluster rejoin: this node committed transactions without the others, or they without it: with its old seqno it would\n\
    # join by IST, and differ from them for ever.\n";
/// The same for a node whose data was discarded.
pub const DISCARDED: &str = "# refloat cluster rejoin --discard: what this node held was given up, so that it takes a full copy.\n";
