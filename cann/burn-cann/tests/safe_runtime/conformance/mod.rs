//! Burn's operations as generic functions, each run on two backends with the same inputs.
//!
//! A case is the name of an operation and a function that calls it and returns its results. The results of Flex are
//! right, up to rounding.

pub mod cases_bool;
pub mod cases_float;
pub mod cases_int;
pub mod cases_module;
pub mod cases_quantised;
pub mod compare;
pub mod inputs;
mod training;

use burn_backend::{Backend, TensorData, TensorMetadata, read_sync};
use inputs::Inputs;

/// The name of an operation and a call of it.
pub type Case<B> = (&'static str, fn(&Inputs<B>) -> Vec<TensorData>);

/// Adds cases to a list. Each name is written once, since it is also that of the function.
#[macro_export]
macro_rules! cases {
    ($list:ident: $B:ident; $($name:ident: |$inputs:ident| $body:expr;)*) => {
        $($list.push((stringify!($name), |$inputs: &Inputs<$B>| $body));)*
    };
}

pub fn f<B: Backend>(tensor: B::FloatTensorPrimitive) -> TensorData {
    let (shape, dtype) = (tensor.shape(), tensor.dtype());
    let data = read_sync(B::float_into_data(tensor)).expect("a read");
    assert_eq!((data.shape(), data.dtype()), (&shape, dtype));
    data
}

pub fn i<B: Backend>(tensor: B::IntTensorPrimitive) -> TensorData {
    let (shape, dtype) = (tensor.shape(), tensor.dtype());
    let data = read_sync(B::int_into_data(tensor)).expect("a read");
    assert_eq!((data.shape(), data.dtype()), (&shape, dtype));
    data
}

pub fn b<B: Backend>(tensor: B::BoolTensorPrimitive) -> TensorData {
    let (shape, dtype) = (tensor.shape(), tensor.dtype());
    let data = read_sync(B::bool_into_data(tensor)).expect("a read");
    assert_eq!((data.shape(), data.dtype()), (&shape, dtype));
    data
}

/// Returns the contents of a quantised tensor as floats, because packed bytes may be padded.
pub fn q<B: Backend>(tensor: B::QuantizedTensorPrimitive) -> TensorData {
    f::<B>(B::dequantize(tensor, burn_backend::FloatDType::F32))
}

/// Returns the shape and dtype of a tensor whose numbers mean nothing.
pub fn outline<T: TensorMetadata>(tensor: &T) -> TensorData {
    let shape: Vec<i64> = tensor.shape().iter().map(|&size| size as i64).collect();
    let rank = shape.len();
    let named = tensor.dtype().name().bytes().map(i64::from);
    let all: Vec<i64> = shape.into_iter().chain(named).collect();
    let length = all.len();
    assert!(length >= rank);
    TensorData::new(all, [length])
}
