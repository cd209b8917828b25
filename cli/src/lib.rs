//! What of the program `kernels` is of use without it: reading the records of a built file.

pub mod object_file;
