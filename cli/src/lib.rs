//! The library part of the program `kernels`: it reads the records of a built file.

pub mod object_file;
