//! Refloat: the run room.
