//! The part of the program `kernels` that is of use without it: reading the records of a built file.

pub mod object_file;
