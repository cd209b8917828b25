//! The arguments of operations, in the form that the backend takes.

use super::Bounded;
use super::account::Account;
use super::session;
use super::tensor::{Held, InMemory, Served};
use super::work::{Operands, Outcome};
use crate::remote::Host;
use burn::backend::ops::*;
use burn::backend::tensor::IndexingUpdateOp;
use burn::backend::{
    BoolDType, DeviceOps, Distribution, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
};
use burn::tensor::quantization::QuantScheme;
use std::ops::Range;
use std::sync::Arc;

/// An argument of an operation of a server over `B`.
pub(super) trait Argument<B: Host> {
    /// The type that the backend's method takes.
    type Inner;
    /// Takes the argument out. The operation begins after its last argument is taken out.
    fn open(self, operands: &mut Operands) -> Self::Inner;
}

macro_rules! plain {
    ($($type:ty),+ $(,)?) => {
        $(impl<B: Host> Argument<B> for $type {
            type Inner = Self;

            fn open(self, _: &mut Operands) -> Self {
                self
            }
        })+
    };
}

plain! {
    bool, usize, f64, [usize; 2], [usize; 3], &[usize], &[Slice], &[(usize, usize)], Range<i64>, Scalar, Shape,
    FloatDType, IntDType, BoolDType, Distribution, IndexingUpdateOp, PadMode, &QuantScheme,
    ConvOptions<1>, ConvOptions<2>, ConvOptions<3>,
    ConvTransposeOptions<1>, ConvTransposeOptions<2>, ConvTransposeOptions<3>,
    DeformConvOptions<2>, UnfoldOptions, InterpolateOptions, GridSampleOptions, AttentionModuleOptions,
}

impl<B: Host<Device = D>, D: DeviceOps> Argument<B> for &Served<D> {
    type Inner = D;

    fn open(self, operands: &mut Operands) -> D {
        let device = session::device::<B>(self);
        operands.of_session();
        device
    }
}

impl<B: Host, T: InMemory> Argument<B> for Held<T> {
    type Inner = T;

    fn open(self, operands: &mut Operands) -> T {
        operands.open(self)
    }
}

impl<B: Host, T: InMemory> Argument<B> for Option<Held<T>> {
    type Inner = Option<T>;

    fn open(self, operands: &mut Operands) -> Option<T> {
        self.map(|tensor| operands.open(tensor))
    }
}

impl<B: Host, T: InMemory> Argument<B> for Vec<Held<T>> {
    type Inner = Vec<T>;

    fn open(self, operands: &mut Operands) -> Vec<T> {
        let tensors = self.into_iter();
        tensors.map(|tensor| operands.open(tensor)).collect()
    }
}

macro_rules! results {
    ($($name:ident { $($field:ident),+ })+) => {
        $(impl<B: Host> Outcome<$name<B>> for $name<Bounded<B>> {
            fn charged(made: $name<B>, account: Option<&Arc<Account>>) -> Self {
                Self { $($field: Outcome::charged(made.$field, account)),+ }
            }
        })+
    };
}

results! {
    MaxPool2dWithIndices { output, indices }
    MaxPool2dBackward { x_grad }
    DeformConv2dBackward { x_grad, offset_grad, weight_grad, mask_grad, bias_grad }
}

/// Checks that data from the network matches its shape, because backends trust the shape.
///
/// # Panics
/// Panics if the data does not match its shape.
pub(super) fn whole(data: &TensorData) {
    let (shape, dtype) = (data.shape(), data.dtype());
    let expected = super::size::made(shape.as_slice(), dtype);
    let found = data.bytes().len();
    assert!(
        expected == found || matches!(dtype, burn::tensor::DType::QFloat(_)),
        "data of shape {shape:?} and type {dtype:?} came with {found} bytes"
    );
}
