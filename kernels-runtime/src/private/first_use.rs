//! Parameters that Burn has not initialised yet. It does so when they are first used, and draws from
//! the device's random generator then, so whoever is first decides what a seed gives: the kernel has
//! to use them in the order in which the body does.
//!
//! The attribute reads that order off the body. Where it can't, the body runs before the kernel for as
//! long as a parameter is not initialised, and its result is dropped.

use crate::active;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};

/// An operand whose type is asked for, by [`is_lazy!`](crate::__is_lazy).
pub struct Operand<'a, T: ?Sized>(pub &'a T);

impl<T: Module> Operand<'_, T> {
    /// Whether a parameter of it is not initialised.
    pub fn is_lazy(&self) -> bool {
        let mut find = FindLazy(false);
        self.0.visit(&mut find);
        find.0
    }
}

/// The answer of every type that is no module, or is not known to be one. A method of the type itself
/// comes first.
pub trait NoModule {
    /// It is not known what the operand holds.
    fn is_lazy(&self) -> bool {
        false
    }
}

impl<T: ?Sized> NoModule for Operand<'_, T> {}

/// Whether a parameter of the operand that a reference leads to is not initialised.
#[doc(hidden)]
#[macro_export]
macro_rules! __is_lazy {
    ($operand:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::NoModule as _;
        $crate::__private::Operand($operand).is_lazy()
    }};
}

/// Looks at parameters without using them.
struct FindLazy(bool);

impl ModuleVisitor for FindLazy {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0 |= !param.is_initialized();
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.0 |= !param.is_initialized();
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.0 |= !param.is_initialized();
    }
}

/// Runs a body for the parameters that it uses. Annotated sites inside it take their references and
/// are not counted, as in live verification.
pub(crate) fn run<I, O>(body: &mut dyn FnMut(I) -> O, inputs: I) {
    let _uncounted = active::uncounted();
    drop(body(inputs));
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    fn linear() -> Linear {
        LinearConfig::new(2, 2).init(&Device::flex())
    }

    /// Sees a type parameter, not the type.
    fn is_lazy<T>(operand: &T) -> bool {
        __is_lazy!(operand)
    }

    #[test]
    fn a_module_is_lazy_until_all_of_it_was_used() {
        let layers = vec![linear(), linear()];
        assert!(__is_lazy!(&layers));
        let used = |layer: &Linear| layer.forward(Tensor::<1>::zeros([2], &Device::flex()));
        used(&layers[0]);
        assert!(__is_lazy!(&layers) && !__is_lazy!(&layers[0]));
        used(&layers[1]);
        assert!(!__is_lazy!(&layers));
    }

    #[test]
    fn what_may_be_anything_is_not_lazy() {
        assert!(!is_lazy(&linear()));
        let boxed: Box<dyn Fn()> = Box::new(|| {});
        assert!(!__is_lazy!(&boxed));
    }
}
