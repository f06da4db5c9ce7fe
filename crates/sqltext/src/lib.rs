//! Refloat: the sqltext room.
