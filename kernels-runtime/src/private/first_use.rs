//! Parameters that Burn has not initialised yet. Burn initialises a parameter when it is first used, with numbers from
//! the device's random generator. The order of first uses therefore decides the result of a seed, so the kernel has to
//! use parameters in the same order as the body.
//!
//! The attribute reads that order from the body. If it can't, the body runs before the kernel while a parameter is not
//! initialised, and its result is dropped.

use crate::context;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};

/// A wrapper by which [`is_lazy!`](crate::__is_lazy) selects a method by the operand's type.
pub struct Operand<'a, T: ?Sized>(pub &'a T);

impl<T: Module> Operand<'_, T> {
    /// Returns `true` if one of its parameters is not initialised.
    pub fn is_lazy(&self) -> bool {
        let mut find = FindLazy(false);
        self.0.visit(&mut find);
        find.0
    }
}

/// The fallback for every type that is not a module, or is not known to be one. An inherent method takes precedence
/// over it.
pub trait NoModule {
    /// Returns `false`, because it is not known whether the operand has parameters.
    fn is_lazy(&self) -> bool {
        false
    }
}

impl<T: ?Sized> NoModule for Operand<'_, T> {}

/// Returns `true` if a parameter of the referenced operand is not initialised.
#[doc(hidden)]
#[macro_export]
macro_rules! __is_lazy {
    ($operand:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::NoModule as _;
        $crate::__private::Operand($operand).is_lazy()
    }};
}

/// A visitor that inspects parameters without using them.
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

/// Runs a body in order to initialise its parameters. Annotated sites inside it take their references and are not
/// counted, as in live verification.
pub(crate) fn run<I, O>(body: &mut dyn FnMut(I) -> O, inputs: I) {
    let _uncounted = context::uncounted();
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

    /// Checks an operand whose type is a type parameter here.
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
