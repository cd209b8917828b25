//! Descriptors: CANN's descriptions of operands, freed with their owners.
//!
//! A list takes its members by value and owns them: destroying the list destroys them. Descriptors copy what they are
//! made of, except the data itself.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use cann_sys::meta;
use cann_sys::types::{
    ACL_FORMAT_ND, aclBoolArray, aclFloatArray, aclIntArray, aclScalar, aclTensor, aclTensorList,
};

use crate::cann::{Cann, call};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::tensor::Tensor;

macro_rules! descriptor {
    ($(#[$doc:meta])* $name:ident of $raw:ident, freed by $destroy:ident) => {
        $(#[$doc])*
        pub struct $name {
            cann: Cann,
            /// None once something else owns it.
            pointer: Option<NonNull<$raw>>,
        }

        impl $name {
            /// Returns CANN's pointer, which is valid as long as this descriptor.
            pub fn as_raw(&self) -> *mut $raw {
                self.pointer.map_or(std::ptr::null_mut(), NonNull::as_ptr)
            }

            fn own(cann: &Cann, function: &'static str, pointer: *mut $raw) -> Result<Self> {
                let pointer = NonNull::new(pointer);
                if pointer.is_none() {
                    return Err(cann.unusable(function, "returned NULL"));
                }
                Ok(Self { cann: cann.clone(), pointer })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{}({:p})", stringify!($name), self.as_raw())
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                let Some(pointer) = self.pointer else { return };
                // SAFETY: CANN made the pointer for this owner, and it is destroyed only here.
                let freed = unsafe { call!(self.cann, meta.$destroy(pointer.as_ptr())) };
                if let Err(error) = freed {
                    tracing::error!(%error, "a descriptor could not be destroyed");
                }
            }
        }

        // SAFETY: a descriptor is a plain record on CANN's heap, bound to no thread and owned like a box.
        unsafe impl Send for $name {}
    };
}

descriptor! {
    /// A tensor: shape, strides, offset, dtype, and the address of its memory.
    ///
    /// It does not hold the memory. Whoever runs work on the descriptor holds the [`Tensor`].
    TensorDescriptor of aclTensor, freed by aclDestroyTensor
}
descriptor! {
    /// A list of tensors that it owns.
    TensorListDescriptor of aclTensorList, freed by aclDestroyTensorList
}
descriptor! {
    /// A value on the host.
    ScalarDescriptor of aclScalar, freed by aclDestroyScalar
}
descriptor! {
    /// Integers on the host.
    IntArrayDescriptor of aclIntArray, freed by aclDestroyIntArray
}
descriptor! {
    /// Floating-point numbers on the host.
    FloatArrayDescriptor of aclFloatArray, freed by aclDestroyFloatArray
}
descriptor! {
    /// Booleans on the host.
    BoolArrayDescriptor of aclBoolArray, freed by aclDestroyBoolArray
}

impl TensorDescriptor {
    /// Describes a tensor in format ND. The address is the start of the memory, which has CANN's alignment; the view's
    /// offset is passed apart.
    ///
    /// # Errors
    ///
    /// Returns an error if CANN refuses it.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        let layout = tensor.layout();
        let signed = |sizes: &[usize]| -> Vec<i64> {
            // The numbers fit, because making the layout checked them.
            sizes
                .iter()
                .map(|&size| size.cast_signed() as i64)
                .collect()
        };
        let (shape, strides) = (signed(layout.shape()), signed(layout.strides()));
        let storage = signed(&[layout.reach()]);
        let cann = tensor.device().cann();
        let create = cann.sys().meta.aclCreateTensor.get()?;
        let data = tensor
            .memory()
            .map_or(std::ptr::null_mut(), |memory| memory.address().pointer());
        // SAFETY: the arrays have the lengths that are passed, and CANN copies them. CANN only keeps the address.
        let pointer = unsafe {
            create(
                shape.as_ptr(),
                shape.len() as u64,
                tensor.dtype().code(),
                strides.as_ptr(),
                layout.offset().cast_signed() as i64,
                ACL_FORMAT_ND,
                storage.as_ptr(),
                1,
                data,
            )
        };
        Self::own(cann, "aclCreateTensor", pointer)
    }
}

impl TensorListDescriptor {
    /// Makes a list that owns `members`.
    ///
    /// # Errors
    ///
    /// Returns an error if CANN refuses it. The members are destroyed then.
    pub fn new(cann: &Cann, mut members: Vec<TensorDescriptor>) -> Result<Self> {
        let create = cann.sys().meta.aclCreateTensorList.get()?;
        let pointers: Vec<*const aclTensor> = members
            .iter()
            .map(|member| member.as_raw().cast_const())
            .collect();
        // SAFETY: there are as many pointers as the length says, and CANN copies them.
        let pointer = unsafe { create(pointers.as_ptr(), pointers.len() as u64) };
        let list = Self::own(cann, "aclCreateTensorList", pointer)?;
        // From here on the list destroys the members.
        members.iter_mut().for_each(|member| member.pointer = None);
        Ok(list)
    }
}

impl ScalarDescriptor {
    /// Makes a scalar of `value`.
    ///
    /// # Errors
    ///
    /// Returns an error if CANN refuses it.
    pub fn new<E: Element>(cann: &Cann, mut value: E) -> Result<Self> {
        // SAFETY: the pointer is to a value of the given dtype.
        unsafe { Self::of(cann, (&raw mut value).cast(), E::DTYPE) }
    }

    /// Makes a scalar of a boolean.
    ///
    /// # Errors
    ///
    /// Returns an error if CANN refuses it.
    pub fn from_bool(cann: &Cann, mut value: bool) -> Result<Self> {
        // SAFETY: as above.
        unsafe { Self::of(cann, (&raw mut value).cast(), DType::Bool) }
    }

    /// # Safety
    ///
    /// `value` must point to a value of `dtype`.
    unsafe fn of(cann: &Cann, value: *mut c_void, dtype: DType) -> Result<Self> {
        let create = cann.sys().meta.aclCreateScalar.get()?;
        // SAFETY: the caller guarantees the value, which CANN copies.
        let pointer = unsafe { create(value, dtype.code()) };
        Self::own(cann, "aclCreateScalar", pointer)
    }
}

macro_rules! array {
    ($name:ident, $create:ident: $prototype:ty, $element:ty) => {
        impl $name {
            /// Makes a copy of `values`.
            ///
            /// # Errors
            ///
            /// Returns an error if CANN refuses it.
            pub fn new(cann: &Cann, values: &[$element]) -> Result<Self> {
                let create: $prototype = cann.sys().meta.$create.get()?;
                // SAFETY: there are as many values as the length says, and CANN copies them.
                let pointer = unsafe { create(values.as_ptr(), values.len() as u64) };
                Self::own(cann, stringify!($create), pointer)
            }
        }
    };
}

array!(IntArrayDescriptor, aclCreateIntArray: meta::aclCreateIntArray, i64);
array!(FloatArrayDescriptor, aclCreateFloatArray: meta::aclCreateFloatArray, f32);
array!(BoolArrayDescriptor, aclCreateBoolArray: meta::aclCreateBoolArray, bool);
