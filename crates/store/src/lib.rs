//! Refloat: the store room.
