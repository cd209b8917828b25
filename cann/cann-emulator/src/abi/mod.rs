//! The exported functions, by the areas of `cann-sys`. CANN's documentation describes them, and the headers of
//! `cann-sys` in short.
//!
//! # Safety
//!
//! The rules are CANN's: pointers to places on the host must be valid for the reads and writes there. Handles and
//! device addresses may have any value; one that is not live is an error.
//!
//! # Panics
//!
//! No panic reaches the program. It becomes the status of an internal error, and its message is on stderr. In a
//! function that returns no status, a panic aborts the process, as Rust does where C would be unwound into.

// The names are CANN's, and the module documents the safety of all functions.
#![allow(
    non_camel_case_types,
    non_snake_case,
    missing_docs,
    clippy::missing_safety_doc
)]

pub mod activation;
pub mod apply_rotary;
pub mod attention;
pub mod binary_cross_entropy;
pub mod callback;
pub(crate) mod checks;
pub mod compile;
pub mod convolution;
pub mod copy;
pub mod copy_batch;
pub mod copy_bytes;
pub mod copy_indirect;
pub mod create;
pub mod cross_entropy;
pub mod data_buffer;
pub mod device_info;
pub mod elementwise;
pub mod equal;
pub mod fill;
pub mod foreach;
pub mod found;
pub mod group_norm;
pub mod grouped_matmul;
pub mod hccl;
pub mod identity;
pub mod index;
pub mod index_fill;
pub mod index_put;
pub mod kernel;
pub mod layer_norm;
pub mod lifecycle;
pub mod losses;
pub mod masked_scatter;
pub mod matmul;
pub mod meta;
pub mod moe;
pub mod mse_loss;
pub mod multinomial;
pub mod norm;
pub mod one_hot;
pub mod op_timeout;
pub mod operator;
pub mod overflow;
pub mod pad;
pub(crate) mod prelude;
pub(crate) mod present;
pub mod profiling;
pub(crate) mod promotion;
pub mod random;
pub mod rearrange;
pub mod reduce;
pub mod regular;
pub mod rotary;
pub mod runtime;
pub mod scatter;
pub mod stream_config;
pub mod training;
pub mod unique;
pub mod views;
pub mod weight_quant;

use crate::error::{Outcome, ensure};

/// Checks that each function has its declared prototype.
macro_rules! exports {
    ($module:ident: $($name:ident),* $(,)?) => {
        $(const _: cann_sys::$module::$name = $name;)*
    };
}
pub(crate) use exports;

/// Exports a function of an area that returns a status, and checks its prototype.
macro_rules! exported {
    ($area:ident, $status:ty, $answer:path; $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $status {
            $answer(stringify!($name), || -> $crate::error::Outcome<()> { $body })
        }
        $crate::abi::exports!($area: $name);
    };
}
pub(crate) use exported;

/// Writes to a place of the caller. `null` is the status for a NULL place.
///
/// # Safety
///
/// `place` must be NULL or valid for a write.
unsafe fn write<T>(place: *mut T, value: T, null: i32) -> Outcome<()> {
    ensure!(!place.is_null(), null; "the place for the result is NULL");
    // SAFETY: the caller guarantees it.
    unsafe { place.write(value) };
    Ok(())
}
