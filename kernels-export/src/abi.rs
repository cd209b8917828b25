//! The types of DLPack and of TVM-FFI, as their headers have them.

use std::ffi::c_void;

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

/// The types of an [`Any`] that functions take.
pub(crate) mod types {
    pub(crate) const NONE: i32 = 0;
    pub(crate) const INT: i32 = 1;
    pub(crate) const BOOL: i32 = 2;
    pub(crate) const FLOAT: i32 = 3;
    pub(crate) const DL_TENSOR: i32 = 7;
    pub(crate) const C_STRING: i32 = 8;
    pub(crate) const SMALL_STRING: i32 = 11;
    pub(crate) const STRING: i32 = 65;
    pub(crate) const TENSOR: i32 = 70;
}

/// The bytes of an object of TVM-FFI before its own fields.
pub(crate) const OBJECT_HEADER: usize = 24;
