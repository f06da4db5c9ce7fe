//! Refloat: the testkit room.
