//! Refloat: the sandbox room.
