//! The library part of the program `kernels`: it reads the records of a built file, and the results of benchmarks.

pub mod object_file;
pub mod results;
