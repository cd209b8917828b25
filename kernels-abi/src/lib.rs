//! The types of DLPack and of TVM-FFI, as their headers (`dlpack.h`, `tvm/ffi/c_api.h`) have them.
//!
//! A function `f` of TVM-FFI is the symbol `__tvm_ffi_f` of the type [`SafeCall`]. `kernels-export` has such
//! functions, and `kernels-packages` calls them.

use std::ffi::{c_int, c_void};

/// `DLTensor`: a tensor in memory of somebody else.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlTensor {
    /// The first byte of the memory.
    pub data: *mut c_void,
    /// The kind and the number of the device; 1 is the CPU.
    pub device: [i32; 2],
    /// The number of axes.
    pub ndim: i32,
    /// The kind of the elements: 0 signed integer, 1 unsigned integer, 2 float, 4 bfloat, 6 bool.
    pub code: u8,
    /// The bits of an element.
    pub bits: u8,
    /// The number of lanes of an element, 1.
    pub lanes: u16,
    /// The sizes of the axes.
    pub shape: *mut i64,
    /// The distances of neighbours along each axis in elements, or null if the tensor is contiguous.
    pub strides: *mut i64,
    /// The place of the first element behind `data`, in bytes.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor that its receiver frees by the deleter.
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensor {
    /// The tensor.
    pub tensor: DlTensor,
    /// Data of the maker.
    pub context: *mut c_void,
    /// Frees the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// `TVMFFIAny`: a value with its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Any {
    /// The type.
    pub type_index: i32,
    /// The length of a small string.
    pub small_length: u32,
    /// The value.
    pub value: Value,
}

/// The value of an [`Any`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union Value {
    /// An integer or a bool.
    pub integer: i64,
    /// A float.
    pub float: f64,
    /// A tensor, a string or an object.
    pub pointer: *const c_void,
    /// A small string.
    pub bytes: [u8; 8],
}

/// `TVMFFISafeCallType`: a function of packed arguments. Its parameters are a handle, the arguments, their number,
/// and the place of the result, whose type the caller sets to [`types::NONE`]. It returns 0, or another number after
/// an error.
pub type SafeCall = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> c_int;

/// The prefix of the symbols of functions.
pub const PREFIX: &str = "__tvm_ffi_";

/// The types of an [`Any`].
pub mod types {
    /// Nothing.
    pub const NONE: i32 = 0;
    /// An integer.
    pub const INT: i32 = 1;
    /// A bool.
    pub const BOOL: i32 = 2;
    /// A float, an `f64`.
    pub const FLOAT: i32 = 3;
    /// A pointer to something that only caller and function know.
    pub const POINTER: i32 = 4;
    /// A pointer to a [`DlTensor`](crate::DlTensor).
    pub const DL_TENSOR: i32 = 7;
    /// A string of C.
    pub const C_STRING: i32 = 8;
    /// A string of at most 7 bytes in the value itself.
    pub const SMALL_STRING: i32 = 11;
    /// The first type of objects, whose references are counted.
    pub const OBJECT: i32 = 64;
    /// A string with its length.
    pub const STRING: i32 = 65;
    /// A tensor, a [`DlTensor`](crate::DlTensor) behind the header.
    pub const TENSOR: i32 = 70;
}

/// The bytes of an object of TVM-FFI before its own fields.
pub const OBJECT_HEADER: usize = 24;
