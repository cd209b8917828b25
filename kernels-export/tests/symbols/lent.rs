//! Arguments of the caller.

use kernels_export::{Any, DlTensor, Value};
use std::ptr::null_mut;

/// A tensor of the caller.
pub struct Lent {
    pub shape: Vec<i64>,
    strides: Vec<i64>,
    pub tensor: DlTensor,
}

impl Lent {
    pub fn of<T>(
        values: &mut [T],
        shape: &[i64],
        strides: &[i64],
        (code, bits): (u8, u8),
    ) -> Box<Self> {
        let mut lent = Box::new(Self {
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            tensor: DlTensor {
                data: values.as_mut_ptr().cast(),
                device: [1, 0],
                ndim: shape.len() as i32,
                code,
                bits,
                lanes: 1,
                shape: null_mut(),
                strides: null_mut(),
                byte_offset: 0,
            },
        });
        lent.tensor.shape = lent.shape.as_mut_ptr();
        lent.tensor.strides = lent.strides.as_mut_ptr();
        lent
    }

    pub fn f32(values: &mut [f32], shape: &[i64], strides: &[i64]) -> Box<Self> {
        Self::of(values, shape, strides, (2, 32))
    }

    /// Returns the tensor as a packed argument.
    pub fn packed(&self) -> Any {
        let pointer = (&raw const self.tensor).cast();
        any(7, Value { pointer })
    }
}

/// Returns a packed value.
pub fn any(type_index: i32, value: Value) -> Any {
    Any {
        type_index,
        small_length: 0,
        value,
    }
}
