//! The tests of the package: of things that are not regular files, and of unfinished files.

#[cfg(unix)]
mod plain;
mod unfinished;
