//! The copies on which live verification runs the user's code. See `live/detached.rs`.

use crate::live::detached;
use burn::module::Module;
use burn::tensor::Tensor;

/// A captured value. [`detached!`](crate::__detached) selects a method by its type: a tensor, a module, or any other.
pub struct Lent<'a, T: ?Sized>(pub &'a T);

/// The way of a tensor.
pub trait DetachTensor<const D: usize> {
    /// Returns a copy, if a check asks for one.
    fn detached(&self) -> Detached<Tensor<D>>;
}

impl<const D: usize> DetachTensor<D> for &&Lent<'_, Tensor<D>> {
    fn detached(&self) -> Detached<Tensor<D>> {
        Detached(detached::tensor(self.0))
    }
}

/// The way of a module.
pub trait DetachModule<T> {
    /// Returns a copy, if a check asks for one.
    fn detached(&self) -> Detached<T>;
}

impl<T: Module> DetachModule<T> for &Lent<'_, T> {
    fn detached(&self) -> Detached<T> {
        Detached(detached::module(self.0))
    }
}

/// The way of every other type, and of a type parameter that is not known to be a module.
pub trait DetachNothing {
    /// Returns that no copy was made.
    fn detached(&self) -> Undetached;
}

impl<T: ?Sized> DetachNothing for Lent<'_, T> {
    fn detached(&self) -> Undetached {
        detached::cannot_copy();
        Undetached
    }
}

/// A copy, if a check asked for one.
#[must_use]
pub struct Detached<T>(Option<T>);

impl<T> Detached<T> {
    /// Returns the copy, or else the original.
    pub fn get<'a>(&'a self, original: &'a T) -> &'a T {
        self.0.as_ref().unwrap_or(original)
    }

    /// Returns the copy, or else the original, by value.
    pub fn own(self, original: T) -> T {
        self.0.unwrap_or(original)
    }
}

/// No copy.
#[must_use]
pub struct Undetached;

impl Undetached {
    /// Returns the original.
    pub fn get<'a, T: ?Sized>(&self, original: &'a T) -> &'a T {
        original
    }

    /// Returns the original.
    pub fn own<T>(self, original: T) -> T {
        original
    }
}

/// Marks the end of the copies that a closure makes. What it computes from here on is not copied.
pub fn begin() {
    detached::begin();
}

/// Returns the copy of a referenced value, if live verification asks for one.
#[doc(hidden)]
#[macro_export]
macro_rules! __detached {
    ($value:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::{DetachModule as _, DetachNothing as _, DetachTensor as _};
        (&&&$crate::__private::Lent($value)).detached()
    }};
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::module::Param;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    fn linear() -> Linear {
        let layer = LinearConfig::new(2, 2).init(&Device::flex().autodiff());
        layer.weight.val();
        layer
    }

    /// Returns true if the copy has another leaf than the original.
    fn is_other(copy: &Param<Tensor<2>>, original: &Param<Tensor<2>>) -> bool {
        let grads = original.val().sum().backward();
        copy.val().is_require_grad() && copy.val().grad(&grads).is_none()
    }

    #[test]
    fn copies_are_leaves_of_their_own_and_are_made_for_checks_alone() {
        let layer = linear();
        let copy = __detached!(&layer);
        assert!(std::ptr::eq(copy.get(&layer), &raw const layer));
        detached::call(|| {
            let copy = __detached!(&layer);
            assert!(is_other(&copy.get(&layer).weight, &layer.weight));
            // Nobody has used the bias, so it stays uninitialised.
            assert!(!copy.get(&layer).bias.as_ref().unwrap().is_initialized());
            begin();
            let none = __detached!(&layer);
            assert!(std::ptr::eq(none.get(&layer), &raw const layer));
        });
    }

    #[test]
    fn tensors_are_copied_and_other_values_are_not() {
        let leaf = Tensor::<1>::ones([2], &Device::flex().autodiff()).require_grad();
        let numbers: &[usize] = &[1, 2];
        detached::call(|| {
            let copy = __detached!(&leaf).own(leaf.clone());
            assert!(copy.is_require_grad());
            assert!(leaf.grad(&copy.sum().backward()).is_none());
            assert_eq!(__detached!(numbers).get(numbers), numbers);
        });
    }
}
