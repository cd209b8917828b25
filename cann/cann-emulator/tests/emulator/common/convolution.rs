//! Calls of convolutions.

use super::*;
use cann_emulator::abi::{convolution::*, meta::*};

/// Makes a tensor with the format of its axes.
pub fn image(dtype: aclDataType, shape: &[usize]) -> Tensor {
    let format = match shape.len() {
        3 => ACL_FORMAT_NCL,
        4 => ACL_FORMAT_NCHW,
        5 => ACL_FORMAT_NCDHW,
        _ => ACL_FORMAT_ND,
    };
    formatted(dtype, shape, format)
}

pub fn formatted(dtype: aclDataType, shape: &[usize], format: aclFormat) -> Tensor {
    let mut tensor = Tensor::empty(dtype, shape);
    let lengths: Vec<i64> = shape.iter().map(|length| *length as i64).collect();
    let (count, rank) = (tensor.storage as i64, shape.len() as u64);
    // SAFETY: handles are checked, the arrays are valid.
    unsafe {
        aclDestroyTensor(tensor.handle);
        let (shape, address) = (lengths.as_ptr(), tensor.address);
        let none = std::ptr::null();
        tensor.handle = aclCreateTensor(shape, rank, dtype, none, 0, format, &count, 1, address);
    }
    tensor
}

pub fn random(dtype: aclDataType, shape: &[usize], seed: u64) -> Tensor {
    let tensor = image(dtype, shape);
    tensor.fill(&noise(shape.iter().product(), seed));
    tensor
}

/// The settings of a call.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub stride: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
    pub transposed: bool,
    pub more: &'a [i64],
    pub groups: i64,
    pub mode: i8,
}

/// A convolution over two axes.
pub const PLAIN: Call<'static> = Call {
    stride: &[1, 1],
    padding: &[0, 0],
    dilation: &[1, 1],
    transposed: false,
    more: &[0, 0],
    groups: 1,
    mode: 1,
};

pub fn convolve(call: Call<'_>, [x, weight, y]: [&Tensor; 3], bias: Option<&Tensor>) -> Status {
    let [stride, padding, dilation, more] =
        [call.stride, call.padding, call.dilation, call.more].map(Ints::new);
    let bias = bias.map_or(std::ptr::null(), |bias| bias.handle.cast_const());
    call!(
        aclnnConvolution: x, weight, bias, stride, padding, dilation, call.transposed, more,
        call.groups, y, call.mode
    )
}
