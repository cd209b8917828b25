use crate::ops::Described;
use burn::backend::Shape;
use burn::tensor::DType;
use burn_cann::backend::{CannTensor, burn_dtype};
use burn_cann::{Spec, Tensor};
use std::ops::Deref;

/// A tensor or the spec of one. Both have a type, a shape and a layout.
pub trait Specified {
    /// Returns the type, the shape and the layout.
    fn spec(&self) -> &Spec;
}

impl Specified for Spec {
    fn spec(&self) -> &Spec {
        self
    }
}

impl Specified for Tensor {
    fn spec(&self) -> &Spec {
        Tensor::spec(self)
    }
}

/// A tensor of CANN's, or the spec of one, in the form that the checks of operands take.
#[derive(Clone, Debug)]
pub struct Seen<T>(pub T);

impl<T> Deref for Seen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl From<CannTensor> for Seen<Tensor> {
    fn from(tensor: CannTensor) -> Self {
        Self(tensor.into_tensor())
    }
}

impl<T: Specified> Described for Seen<T> {
    fn shape(&self) -> Shape {
        self.spec().shape().iter().copied().collect()
    }

    fn dtype(&self) -> DType {
        burn_dtype(self.spec().dtype)
    }
}
