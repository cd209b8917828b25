use burn::backend::Shape;
use burn::tensor::{BoolStore, DType as Burn};
use burn_cann::backend::CannTensor;
use burn_cann::{DType, Spec, Tensor};
use std::ops::Deref;

use crate::ops::Described;

/// A tensor or the spec of one, which both have a type, a shape and a layout.
pub trait Specified {
    /// Returns them.
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

/// A tensor of CANN's, or the spec of one, as the checks of operands see it.
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

    fn dtype(&self) -> Burn {
        match self.spec().dtype {
            DType::F64 => Burn::F64,
            DType::F32 => Burn::F32,
            DType::F16 => Burn::F16,
            DType::BF16 => Burn::BF16,
            DType::I64 => Burn::I64,
            DType::I32 => Burn::I32,
            DType::I16 => Burn::I16,
            DType::I8 => Burn::I8,
            DType::U64 => Burn::U64,
            DType::U32 => Burn::U32,
            DType::U16 => Burn::U16,
            DType::U8 => Burn::U8,
            DType::Bool => Burn::Bool(BoolStore::Native),
        }
    }
}
