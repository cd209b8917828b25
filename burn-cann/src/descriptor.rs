//! CANN's descriptions of operands, freed with their owners.
//!
//! A list owns its tensors: destroying it destroys them. So a list takes its members by value, and only
//! the list is destroyed. Descriptors copy what they are made of, except the data itself.

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
            /// CANN's pointer, valid as long as this lives.
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
                // SAFETY: made by CANN for this owner, and destroyed here alone.
                let freed = unsafe { call!(self.cann, meta.$destroy(pointer.as_ptr())) };
                if let Err(error) = freed {
                    tracing::error!(%error, "a descriptor could not be destroyed");
                }
            }
        }

        // SAFETY: a plain record on CANN's heap, bound to no thread, and owned like a box.
        unsafe impl Send for $name {}
    };
}

descriptor! {
    /// A tensor: shape, strides, offset, type, and the address of its memory.
    ///
    /// The memory is not held: who runs work on the descriptor holds the [`Tensor`].
    TensorDescriptor of aclTensor, freed by aclDestroyTensor
}
descriptor! {
    /// A list of tensors, which it owns.
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
    /// Truth values on the host.
    BoolArrayDescriptor of aclBoolArray, freed by aclDestroyBoolArray
}

impl TensorDescriptor {
    /// Describes a tensor. The data is that of the memory's start, where alignment is CANN's, and the
    /// view's offset stands apart; the format is ND.
    ///
    /// # Errors
    ///
    /// CANN refused it.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        let layout = tensor.layout();
        let signed = |sizes: &[usize]| -> Vec<i64> {
            // A layout's numbers fit, which its making checked.
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
        // SAFETY: the arrays have the lengths that are said, and CANN copies them; the address is only
        // kept.
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
    /// A list that owns `members`.
    ///
    /// # Errors
    ///
    /// CANN refused it; the members are destroyed.
    pub fn new(cann: &Cann, mut members: Vec<TensorDescriptor>) -> Result<Self> {
        let create = cann.sys().meta.aclCreateTensorList.get()?;
        let pointers: Vec<*const aclTensor> = members
            .iter()
            .map(|member| member.as_raw().cast_const())
            .collect();
        // SAFETY: as many pointers as are said; CANN copies them.
        let pointer = unsafe { create(pointers.as_ptr(), pointers.len() as u64) };
        let list = Self::own(cann, "aclCreateTensorList", pointer)?;
        // Now the list's to destroy.
        members.iter_mut().for_each(|member| member.pointer = None);
        Ok(list)
    }
}

impl ScalarDescriptor {
    /// A value.
    ///
    /// # Errors
    ///
    /// CANN refused it.
    pub fn new<E: Element>(cann: &Cann, mut value: E) -> Result<Self> {
        // SAFETY: a value of the type that is said.
        unsafe { Self::of(cann, (&raw mut value).cast(), E::DTYPE) }
    }

    /// A truth value.
    ///
    /// # Errors
    ///
    /// CANN refused it.
    pub fn from_bool(cann: &Cann, mut value: bool) -> Result<Self> {
        // SAFETY: as above.
        unsafe { Self::of(cann, (&raw mut value).cast(), DType::Bool) }
    }

    /// # Safety
    ///
    /// `value` must point to a value of `dtype`.
    unsafe fn of(cann: &Cann, value: *mut c_void, dtype: DType) -> Result<Self> {
        let create = cann.sys().meta.aclCreateScalar.get()?;
        // SAFETY: the caller vouches for the value, which CANN copies.
        let pointer = unsafe { create(value, dtype.code()) };
        Self::own(cann, "aclCreateScalar", pointer)
    }
}

macro_rules! array {
    ($name:ident, $create:ident: $prototype:ty, $element:ty) => {
        impl $name {
            /// A copy of `values`.
            ///
            /// # Errors
            ///
            /// CANN refused it.
            pub fn new(cann: &Cann, values: &[$element]) -> Result<Self> {
                let create: $prototype = cann.sys().meta.$create.get()?;
                // SAFETY: as many values as are said; CANN copies them.
                let pointer = unsafe { create(values.as_ptr(), values.len() as u64) };
                Self::own(cann, stringify!($create), pointer)
            }
        }
    };
}

array!(IntArrayDescriptor, aclCreateIntArray: meta::aclCreateIntArray, i64);
array!(FloatArrayDescriptor, aclCreateFloatArray: meta::aclCreateFloatArray, f32);
array!(BoolArrayDescriptor, aclCreateBoolArray: meta::aclCreateBoolArray, bool);
