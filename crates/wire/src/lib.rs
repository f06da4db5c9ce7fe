//! Refloat: the wire room.
