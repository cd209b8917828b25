//! Classes of calls. A body may compute one kind of call rightly and another one wrongly: a grouping of heads shows only
//! where there are fewer key heads than query heads. The first call of each class is therefore checked.
//!
//! Calls are of one class if they have the same mode, operands, dtypes and ranks, if the same sizes are 1, and if the
//! same sizes are equal to each other. Other lengths are not distinguished.

use crate::kernel::{Operands, Visitor};
use crate::registry::FloatType;
use burn::module::Param;
use burn::tensor::Tensor;

/// The number of sizes that are compared with each other.
const SIZES: usize = 24;

/// The class of a call, as a hash that is made without an allocation.
pub(crate) struct Class {
    hash: u64,
    sizes: [usize; SIZES],
    count: usize,
    is_empty: bool,
}

impl Class {
    pub(super) fn new(is_training: bool) -> Self {
        Self {
            hash: u64::from(is_training) + 1,
            sizes: [0; SIZES],
            count: 0,
            is_empty: false,
        }
    }

    /// Returns the class of a call with these operands.
    pub(super) fn of(operands: &mut impl Operands, is_training: bool) -> Self {
        let mut class = Self::new(is_training).and(operands.variant());
        operands.visit(&mut class);
        class
    }

    /// Adds a property of the call.
    #[must_use]
    pub(super) fn and(mut self, property: u64) -> Self {
        self.mix(property);
        self
    }

    /// Adds an operand.
    pub(super) fn operand<const D: usize>(&mut self, name: &str, tensor: &Tensor<D>) {
        name.bytes().for_each(|byte| self.mix(u64::from(byte)));
        self.mix(FloatType::from_dtype(tensor.dtype()).map_or(0, |float| 1 + float as u64));
        self.shape(tensor.dims());
    }

    /// Returns the hash.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns `true` if an operand has no elements, so that there is nothing to compare.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn shape<const D: usize>(&mut self, shape: [usize; D]) {
        self.mix(D as u64);
        for size in shape {
            self.is_empty |= size == 0;
            let seen = &self.sizes[..self.count];
            let first = seen.iter().position(|&other| other == size);
            if first.is_none() && self.count < SIZES {
                self.sizes[self.count] = size;
                self.count += 1;
            }
            self.mix(match size {
                1 => 0,
                _ => 1 + first.unwrap_or(SIZES) as u64,
            });
        }
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}

impl Visitor for Class {
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        self.operand(name, tensor);
    }

    fn param<const D: usize>(&mut self, _: &'static str, param: &mut Param<Tensor<D>>) {
        if let Ok(shape) = <[usize; D]>::try_from(param.lazy_shape().as_slice()) {
            self.shape(shape);
        }
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn class<const D: usize>(shapes: &[[usize; D]]) -> u64 {
        let mut class = Class::new(false);
        for shape in shapes {
            class.operand("x", &Tensor::<D>::zeros(*shape, &Device::flex()));
        }
        class.hash()
    }

    #[test]
    fn lengths_make_no_class_and_equal_sizes_do() {
        assert_eq!(class(&[[2, 8, 5, 4]]), class(&[[3, 9, 7, 6]]));
        // As many key heads as query heads, or fewer.
        assert_ne!(
            class(&[[2, 8, 5, 4], [2, 8, 5, 4]]),
            class(&[[2, 8, 5, 4], [2, 6, 5, 4]])
        );
        assert_ne!(class(&[[2, 8, 5]]), class(&[[1, 8, 5]]));
        assert_ne!(class(&[[2, 3]]), class(&[[2, 3], [2, 3]]));
        assert_ne!(class(&[[5]]), class(&[[5, 3]]));
    }

    #[test]
    fn modes_and_empty_operands_are_known() {
        assert_ne!(Class::new(false).hash(), Class::new(true).hash());
        let mut class = Class::new(false);
        class.shape([0, 3]);
        assert!(class.is_empty());
    }
}
