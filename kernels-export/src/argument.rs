//! The types of arguments, each as C has it and as TVM-FFI packs it.

use crate::call::{Error, refused};
use crate::tensor::{Tensor, behind};
use kernels_abi::{Any, OBJECT_HEADER, types};
use kernels_simd::keys::{
    Activation, ExpertLayout, Gating, HeadLayout, LossReduction, OutputLayout, Projections,
    RopeStyle, Rounding, TableLayout,
};
use std::ffi::{CStr, c_char, c_void};

/// The type of an argument.
pub(crate) trait Argument: Sized {
    /// The name of the type, for callers that read the list of functions.
    const KIND: &'static str;
    /// The type in C.
    type C;

    /// Reads an argument from C.
    ///
    /// # Safety
    /// Pointers must be null or those of their type, as [`Tensor::new`] wants them, for the call.
    unsafe fn of_c(given: Self::C) -> Result<Self, Error>;

    /// Reads a packed argument.
    ///
    /// # Safety
    /// The requirements are those of [`of_c`](Self::of_c).
    unsafe fn of_any(given: &Any) -> Result<Self, Error>;
}

impl Argument for Option<Tensor> {
    const KIND: &'static str = "tensor?";
    type C = *const c_void;

    unsafe fn of_c(given: *const c_void) -> Result<Self, Error> {
        // SAFETY: the caller's.
        unsafe { behind(given) }
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        match given.type_index {
            types::NONE => Ok(None),
            // SAFETY: the type says that the value is the pointer of a tensor, or of an object with one behind its header.
            types::DL_TENSOR => unsafe { behind(given.value.pointer) },
            // SAFETY: as above.
            types::TENSOR => unsafe { behind(given.value.pointer.byte_add(OBJECT_HEADER)) },
            other => wrong("a tensor", other),
        }
    }
}

impl Argument for Tensor {
    const KIND: &'static str = "tensor";
    type C = *const c_void;

    unsafe fn of_c(given: *const c_void) -> Result<Self, Error> {
        // SAFETY: the caller's.
        present(unsafe { Option::of_c(given) }?)
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        // SAFETY: the caller's.
        present(unsafe { Option::of_any(given) }?)
    }
}

fn present(tensor: Option<Tensor>) -> Result<Tensor, Error> {
    tensor.map_or_else(|| refused("the tensor is missing".into()), Ok)
}

/// Returns the error of a value of another type.
pub(crate) fn wrong<T>(wanted: &str, type_index: i32) -> Result<T, Error> {
    refused(format!(
        "{wanted} is expected, and not a value of TVM-FFI's type {type_index}"
    ))
}

impl Argument for i64 {
    const KIND: &'static str = "int";
    type C = i64;

    unsafe fn of_c(given: i64) -> Result<Self, Error> {
        Ok(given)
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        match given.type_index {
            // SAFETY: the type says that it is an integer.
            types::INT => Ok(unsafe { given.value.integer }),
            other => wrong("an integer", other),
        }
    }
}

/// A number of elements or steps, which is an integer from 0 on.
impl Argument for usize {
    const KIND: &'static str = i64::KIND;
    type C = i64;

    unsafe fn of_c(given: i64) -> Result<Self, Error> {
        let refuse = |_| refused(format!("a number from 0 on is expected, and not {given}"));
        Self::try_from(given).or_else(refuse)
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        // SAFETY: the caller's.
        unsafe { Self::of_c(i64::of_any(given)?) }
    }
}

impl Argument for bool {
    const KIND: &'static str = "bool";
    type C = i64;

    unsafe fn of_c(given: i64) -> Result<Self, Error> {
        Ok(given != 0)
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        match given.type_index {
            // SAFETY: the type says that it is an integer or a bool, which is one in its first byte.
            types::BOOL | types::INT => Ok(unsafe { given.value.integer } != 0),
            other => wrong("a bool", other),
        }
    }
}

/// Calls a function with the text of a string of C.
///
/// # Safety
/// The pointer must be null or that of a string of C.
unsafe fn with_text<R>(
    given: *const c_char,
    read: impl FnOnce(&str) -> Result<R, Error>,
) -> Result<R, Error> {
    if given.is_null() {
        return refused("the name is missing".into());
    }
    // SAFETY: the caller's.
    read(&unsafe { CStr::from_ptr(given) }.to_string_lossy())
}

/// Calls a function with the text of a packed string.
///
/// # Safety
/// The value must be what its type says.
unsafe fn with_packed_text<R>(
    given: &Any,
    read: impl FnOnce(&str) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the type says which value it is. An object of a string has its first byte and its length behind its header.
    let bytes: &[u8] = unsafe {
        match given.type_index {
            types::C_STRING => return with_text(given.value.pointer.cast(), read),
            types::SMALL_STRING => {
                let length = (given.small_length as usize).min(7);
                std::slice::from_raw_parts((&raw const given.value.bytes).cast(), length)
            }
            types::STRING => {
                let words = given.value.pointer.byte_add(OBJECT_HEADER);
                let first = words.cast::<*const u8>().read();
                match words.cast::<usize>().add(1).read() {
                    0 => &[], // whose first byte may be nowhere
                    length => std::slice::from_raw_parts(first, length),
                }
            }
            other => return wrong("a string", other),
        }
    };
    read(&String::from_utf8_lossy(bytes))
}

/// Declares enumerations that are passed by name.
macro_rules! by_name {
    ($($Name:ident, $what:literal: $($text:literal => $value:expr),+;)+) => {
        $(impl Argument for $Name {
            const KIND: &'static str = "name";
            type C = *const c_char;

            unsafe fn of_c(given: *const c_char) -> Result<Self, Error> {
                // SAFETY: the caller's.
                unsafe { with_text(given, |text| <$Name as Named>::named(text)) }
            }

            unsafe fn of_any(given: &Any) -> Result<Self, Error> {
                // SAFETY: the caller's.
                unsafe { with_packed_text(given, |text| <$Name as Named>::named(text)) }
            }
        }

        impl Named for $Name {
            fn named(text: &str) -> Result<Self, Error> {
                match text {
                    $($text => Ok($value),)+
                    other => refused(format!(
                        "unknown {} `{}`; known are {}",
                        $what,
                        other.escape_debug(),
                        [$($text),+].join(", ")
                    )),
                }
            }
        })+
    };
}

trait Named: Sized {
    fn named(text: &str) -> Result<Self, Error>;
}

by_name! {
    Rounding, "rounding": "llama" => Rounding::Llama, "gemma" => Rounding::Gemma;
    Gating, "gating": "none" => Gating::None, "after_norm" => Gating::AfterNorm, "before_norm" => Gating::BeforeNorm;
    Projections, "layout of projections": "separate" => Projections::Separate, "chunked" => Projections::Chunked,
        "interleaved" => Projections::Interleaved;
    Activation, "activation": "silu" => Activation::Silu, "gelu" => Activation::Gelu, "gelu_tanh" => Activation::GeluTanh,
        "quick_gelu" => Activation::QuickGelu, "relu" => Activation::Relu, "relu2" => Activation::Relu2,
        "sigmoid" => Activation::Sigmoid, "identity" => Activation::Identity;
    RopeStyle, "style of rotation": "half" => RopeStyle::Half, "interleaved" => RopeStyle::Interleaved,
        "interleaved_to_half" => RopeStyle::InterleavedToHalf;
    TableLayout, "layout of tables": "halves" => TableLayout::Halves, "neighbours" => TableLayout::Neighbours,
        "pairs" => TableLayout::Pairs;
    HeadLayout, "layout of heads": "bnsd" => HeadLayout::Bnsd, "bsnd" => HeadLayout::Bsnd;
    LossReduction, "reduction": "mean" => LossReduction::Mean, "sum" => LossReduction::Sum, "none" => LossReduction::None;
    OutputLayout, "layout of a weight": "output_major" => OutputLayout::OutputMajor,
        "input_major" => OutputLayout::InputMajor;
    ExpertLayout, "layout of experts": "linear" => ExpertLayout::Linear, "matmul" => ExpertLayout::Matmul;
}
