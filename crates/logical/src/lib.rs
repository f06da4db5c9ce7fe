//! Refloat: the logical room.
