//! Operands and results whose type is known at run time only.
//!
//! Live verification and the gradients of references take these. They are compiled once, here, and not again in each
//! user's crate for each operation and rank.

use super::{Operands, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use burn::backend::DispatchTensor;
use std::any::Any;

/// Operands of any type.
pub(crate) type AnyOperands = Box<dyn ErasedOperands>;

/// Operands or results of any type.
pub(crate) type AnyTensors = Box<dyn ErasedTensors>;

/// [`Tensors`] as an object.
pub(crate) trait ErasedTensors: Any {
    /// Passes every tensor to the visitor, which may replace it.
    fn visit(&mut self, visitor: &mut dyn Visitor);

    /// Passes a copy of every tensor to the visitor.
    fn show(&self, visitor: &mut dyn Visitor);
}

impl<T: Tensors + Clone + 'static> ErasedTensors for T {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        Tensors::visit(self, &mut Erased(visitor));
    }

    fn show(&self, visitor: &mut dyn Visitor) {
        ErasedTensors::visit(&mut self.clone(), visitor);
    }
}

/// A visitor of any type, as the type parameter of [`Tensors::visit`].
struct Erased<'a>(&'a mut dyn Visitor);

impl Visitor for Erased<'_> {
    fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
        self.0.visit(name, tensor);
    }
}

/// [`Operands`] as an object. Each function does what the function of the same name there does.
pub(crate) trait ErasedOperands: ErasedTensors + Send + Sync {
    /// Returns handles of the same tensors.
    fn copy(&self) -> AnyOperands;

    fn reference(self: Box<Self>) -> AnyTensors;

    fn launch(self: Box<Self>, implementation: &'static Implementation) -> AnyTensors;

    fn sample(&self, rows: Rows) -> Option<AnyOperands>;

    fn samples_prefix(&self) -> bool;

    fn samples_apart(&self) -> bool;

    fn terms(&self) -> f64;

    fn gradient_terms(&self, operand: &str) -> f64;

    fn with_probes(self: Box<Self>) -> (AnyOperands, usize);

    fn in_other_order(&self) -> Option<(AnyOperands, &'static str)>;

    fn epsilon(&self) -> Option<f64>;

    fn with_epsilon(&self, epsilon: f64) -> Option<AnyOperands>;
}

impl<O: Operands> ErasedOperands for O {
    fn copy(&self) -> AnyOperands {
        Box::new(self.clone())
    }

    fn reference(self: Box<Self>) -> AnyTensors {
        Box::new(O::reference(*self))
    }

    fn launch(self: Box<Self>, implementation: &'static Implementation) -> AnyTensors {
        Box::new(O::launch(*self, implementation))
    }

    fn sample(&self, rows: Rows) -> Option<AnyOperands> {
        Some(Box::new(O::sample(self, rows)?))
    }

    fn samples_prefix(&self) -> bool {
        O::samples_prefix(self)
    }

    fn samples_apart(&self) -> bool {
        O::samples_apart(self)
    }

    fn terms(&self) -> f64 {
        O::terms(self)
    }

    fn gradient_terms(&self, operand: &str) -> f64 {
        O::gradient_terms(self, operand)
    }

    fn with_probes(self: Box<Self>) -> (AnyOperands, usize) {
        let (operands, probes) = O::with_probes(*self);
        (Box::new(operands), probes)
    }

    fn in_other_order(&self) -> Option<(AnyOperands, &'static str)> {
        let (operands, order) = O::in_other_order(self)?;
        Some((Box::new(operands), order))
    }

    fn epsilon(&self) -> Option<f64> {
        O::epsilon(self)
    }

    fn with_epsilon(&self, epsilon: f64) -> Option<AnyOperands> {
        Some(Box::new(O::with_epsilon(self, epsilon)?))
    }
}

/// Returns a value whose type is known again.
pub(crate) fn known<T: Any>(value: Box<dyn Any>) -> T {
    match value.downcast() {
        Ok(value) => *value,
        Err(_) => unreachable!("a value has the type that it was erased from"),
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::kernel::any_rank::{flat, sizes};
    use burn::backend::TensorMetadata;
    use burn::tensor::{Device, Tensor, TensorData};

    #[derive(Default)]
    struct Doubled(Vec<Vec<usize>>);

    impl Visitor for Doubled {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            self.0.push(sizes(tensor));
            *tensor = (flat(tensor) * 2.0).into_dispatch();
        }
    }

    #[test]
    fn a_visit_replaces_tensors_of_any_rank_and_keeps_no_handle() {
        let device = Device::flex();
        let pair = (
            Tensor::<1>::ones([2], &device),
            Tensor::<3>::ones([1, 2, 1], &device),
        );
        let mut erased: AnyTensors = Box::new(pair);
        let mut doubled = Doubled::default();
        erased.show(&mut doubled);
        erased.visit(&mut doubled);
        let shapes = [vec![2], vec![1, 2, 1]];
        assert_eq!(doubled.0, [shapes.clone(), shapes].concat());
        let (one, three): (Tensor<1>, Tensor<3>) = known(erased);
        let (one, three) = (one.into_dispatch(), three.into_dispatch());
        assert!(one.can_mut() && three.can_mut(), "a kernel may reuse both");
        let one = Tensor::<1>::from_dispatch(one).into_data();
        one.assert_eq(&TensorData::from([2.0_f32, 2.0]), true);
        let three = Tensor::<3>::from_dispatch(three).into_data();
        three.assert_eq(&TensorData::from([[[2.0_f32], [2.0]]]), true);
    }
}
