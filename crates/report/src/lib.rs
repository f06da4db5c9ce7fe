//! Refloat: the report room.
