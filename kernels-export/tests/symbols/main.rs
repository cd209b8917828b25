//! The symbols as a program in C, and a host of TVM-FFI, call them.

mod calls;
mod cases;
mod formulas;
mod functions;
mod lent;
