//! The operations by trait, each with its path. Only these tables decide the path.

mod activation;
mod bool;
mod float;
mod int;
mod module;
mod quantised;
mod transaction;

use burn_backend::TensorData;

use super::device::CannDevice;
use super::error::Error;
use super::fallback::fail;
use super::operation::Operation;
use super::tensor::CannTensor;
use super::transfer;

/// Returns all operations.
pub(super) fn all() -> impl Iterator<Item = &'static Operation> {
    let tables = [
        float::TABLE,
        int::TABLE,
        bool::TABLE,
        module::TABLE,
        activation::TABLE,
        quantised::TABLE,
        transaction::TABLE,
    ];
    tables.into_iter().flatten().copied()
}

/// Copies data of the host to a new tensor.
fn upload(operation: &'static Operation, data: TensorData, device: CannDevice) -> CannTensor {
    let tensor = device
        .place()
        .and_then(|place| transfer::write(data, &place));
    tensor.unwrap_or_else(|error| fail(operation, &error))
}

/// Moves the tensor to another device by way of the host, or to this thread's stream of the same device.
fn carry(operation: &'static Operation, tensor: CannTensor, device: CannDevice) -> CannTensor {
    if tensor.place.device == device {
        let place = device
            .place()
            .unwrap_or_else(|error| fail(operation, &error));
        return CannTensor { place, ..tensor };
    }
    match transfer::read(&tensor) {
        Ok(host) => upload(operation, host.into_data(), device),
        Err(error) => fail(operation, &Error::from(error)),
    }
}

/// Names that the tables use.
mod prelude {
    pub(super) use std::ops::Range;

    pub(super) use burn_backend::ops::attention::attention_fallback;
    pub(super) use burn_backend::ops::*;
    pub(super) use burn_backend::quantization::QuantizationParametersPrimitive;
    pub(super) use burn_backend::tensor::IndexingUpdateOp;
    pub(super) use burn_backend::{
        BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
        TensorData,
    };
    pub(super) use burn_flex::Flex;
    pub(super) use burn_std::QuantScheme;

    pub(super) use super::super::device::CannDevice;
    pub(super) use super::super::host::Operand;
    pub(super) use super::super::native::attention::{flash, per_head};
    pub(super) use super::super::native::elementwise::{
        bounded, by, compare, compare_by, one, two,
    };
    pub(super) use super::super::native::*;
    pub(super) use super::super::operation::Operation;
    pub(super) use super::super::tensor::{CannQTensor, CannTensor};
    pub(super) use super::super::{CannBackend, fallback, transfer, view};
    pub(super) use super::{carry, upload};
    pub(super) use crate::ops::compare::{Comparison, ComparisonScalar};
    pub(super) use crate::ops::elementwise::{Binary, BinaryScalar};
    pub(super) use crate::ops::reduce as op;
    pub(super) use crate::ops::unary::Unary;

    // The names of Burn's kinds of tensors keep the signatures readable.
    pub(super) type Float = CannTensor;
    pub(super) type Int = CannTensor;
    pub(super) type Bool = CannTensor;
    pub(super) type Quantised = CannQTensor;
}
