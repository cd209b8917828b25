//! Classes of calls. A body may compute one kind of call rightly and another one wrongly: a grouping of heads shows only
//! where there are fewer key heads than query heads. The first call of each class is therefore checked.
//!
//! Calls are of one class if they have the same mode, operands, dtypes and ranks, if the same sizes are 1, and if the
//! same sizes are equal to each other. Other lengths are not distinguished.

use crate::kernel::{Operands, Visitor};
use crate::mode::Mode;
use crate::registry::FloatType;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::module::Param;
use burn::tensor::{DType, Tensor};

/// The number of sizes that are compared with each other.
const SIZES: usize = 24;

/// The class of a call, as a hash that is made without an allocation.
pub(crate) struct Class {
    hash: u64,
    sizes: [usize; SIZES],
    count: usize,
    is_empty: bool,
    /// True if the call has autodiff enabled. If the mode was not known, a visited tensor tells it.
    is_training: bool,
    is_mode_known: bool,
}

impl Class {
    /// Starts the class of a call. `is_training` is `None` if it is not known.
    fn start(is_training: Option<bool>) -> Self {
        Self {
            hash: 1,
            sizes: [0; SIZES],
            count: 0,
            is_empty: false,
            is_training: is_training.unwrap_or(false),
            is_mode_known: is_training.is_some(),
        }
    }

    /// Returns the class of a call with these operands. `is_training` is `None` if it is not known.
    pub(super) fn of(operands: &mut impl Operands, is_training: Option<bool>) -> Self {
        let mut class = Self::start(is_training).and(operands.variant());
        operands.visit(&mut class);
        class.with_mode()
    }

    /// Returns the class of a call with one operand.
    pub(super) fn of_one(
        is_training: bool,
        variant: u64,
        name: &str,
        dtype: DType,
        shape: &[usize],
    ) -> Self {
        let mut class = Self::start(Some(is_training)).and(variant);
        class.operand(name, dtype, shape);
        class.with_mode()
    }

    fn with_mode(self) -> Self {
        let is_training = self.is_training;
        self.and(u64::from(is_training) + 1)
    }

    /// Adds a property of the call.
    #[must_use]
    pub(super) fn and(mut self, property: u64) -> Self {
        self.mix(property);
        self
    }

    fn operand(&mut self, name: &str, dtype: DType, shape: &[usize]) {
        name.bytes().for_each(|byte| self.mix(u64::from(byte)));
        self.mix(FloatType::from_dtype(dtype).map_or(0, |float| 1 + float as u64));
        self.shape(shape);
    }

    fn mode(&mut self, is_autodiff: impl FnOnce() -> bool) {
        if !self.is_mode_known {
            self.is_training |= is_autodiff();
        }
    }

    /// Returns the hash.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns `true` if an operand has no elements, so that there is nothing to compare.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn shape(&mut self, shape: &[usize]) {
        self.mix(shape.len() as u64);
        for &size in shape {
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
    fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
        self.operand(name, tensor.dtype(), tensor.shape().as_slice());
        self.mode(|| Mode::of(tensor) == Mode::Training);
    }

    // Most calls are only looked at: they copy and replace no tensor.
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        self.operand(name, tensor.dtype(), &tensor.dims());
        self.mode(|| tensor.is_autodiff());
    }

    fn param<const D: usize>(&mut self, _: &'static str, param: &mut Param<Tensor<D>>) {
        self.shape(param.lazy_shape().as_slice());
        self.mode(|| param.val().is_autodiff());
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn class<const D: usize>(shapes: &[[usize; D]]) -> u64 {
        let mut class = Class::start(Some(false));
        for shape in shapes {
            let mut tensor = Tensor::<D>::zeros(*shape, &Device::flex());
            class.tensor("x", &mut tensor);
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
    fn the_class_of_a_tensor_is_that_of_its_erased_one() {
        let mut tensor = Tensor::<2>::zeros([2, 3], &Device::flex().autodiff());
        let hash = |visit: &mut dyn FnMut(&mut Class)| {
            let mut class = Class::start(None);
            visit(&mut class);
            class.with_mode().hash()
        };
        let typed = hash(&mut |class| class.tensor("x", &mut tensor));
        let mut erased = tensor.clone().into_dispatch();
        assert_eq!(typed, hash(&mut |class| class.visit("x", &mut erased)));
    }

    #[test]
    fn modes_and_empty_operands_are_known() {
        let hash = |mode, device: &Device| {
            let mut class = Class::start(mode);
            class.tensor("x", &mut Tensor::<1>::zeros([5], device));
            class.with_mode().hash()
        };
        let (inference, training) = (Device::flex(), Device::flex().autodiff());
        let known = [Some(false), Some(true)].map(|mode| hash(mode, &inference));
        assert_ne!(known[0], known[1]);
        assert_eq!(
            known,
            [&inference, &training].map(|device| hash(None, device))
        );
        let mut class = Class::start(Some(false));
        class.shape(&[0, 3]);
        assert!(class.is_empty());
    }
}
