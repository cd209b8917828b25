//! Burn's operations, each with the maximum number of bytes that it allocates. The tables hold the operations that a
//! server runs and that a backend must implement. Burn composes all others from them.

mod activation;
mod bool;
mod float;
mod int;
mod module;
mod quantised;

/// The names that the tables use.
mod prelude {
    pub(super) use super::super::Bounded;
    pub(super) use super::super::argument::{Argument, whole};
    pub(super) use super::super::fit::{self, require};
    pub(super) use super::super::size::*;
    pub(super) use super::super::tensor::Held;
    pub(super) use super::super::work::Operands;
    pub(super) use crate::remote::Host;
    pub(super) use burn::backend::ops::*;
    pub(super) use burn::backend::quantization::QuantizationParametersPrimitive;
    pub(super) use burn::backend::tensor::{
        BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor,
    };
    pub(super) use burn::backend::{
        BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
        TensorData,
    };
    pub(super) use burn::tensor::DType;
    pub(super) use burn::tensor::quantization::QuantScheme;

    // The names of Burn's kinds of tensors, which make the signatures readable.
    pub(super) type Float<B> = Held<FloatTensor<B>>;
    pub(super) type Int<B> = Held<IntTensor<B>>;
    pub(super) type Bool<B> = Held<BoolTensor<B>>;
    pub(super) type Quantised<B> = Held<QuantizedTensor<B>>;
}
