//! Calls of the copies of tokens, version 3.

use super::*;
use cann_emulator::abi::moe::*;

/// The attributes, with those of a call without limits as their default.
#[derive(Clone, Copy)]
pub struct Call {
    pub active: i64,
    pub capacity: i64,
    pub experts: i64,
    pub mode: i64,
    pub counts: i64,
    pub counted: bool,
    pub quantised: i64,
    pub scatters: i64,
    pub range: Option<[i64; 2]>,
}

pub const PLAIN: Call = Call {
    active: -1,
    capacity: -1,
    experts: 4,
    mode: 0,
    counts: 1,
    counted: true,
    quantised: -1,
    scatters: 0,
    range: None,
};

/// Runs a call. The outputs are the copies, the rows, the counts and the scales.
pub fn route(
    call: Call,
    [x, experts]: [&Tensor; 2],
    [scale, offset]: [Option<&Tensor>; 2],
    [y, rows, counts, scales]: [&Tensor; 4],
) -> Status {
    let range = call.range.map(|range| Ints::new(&range));
    let range = range.as_ref();
    call!(
        aclnnMoeInitRoutingV3: x, experts, scale, offset, call.active, call.capacity, call.experts,
        call.mode, call.counts, call.counted, call.quantised, range, call.scatters, y, rows, counts,
        scales
    )
}

/// Three tokens of two choices among four experts.
pub fn experts() -> Tensor {
    Tensor::integers(ACL_INT32, &[3, 2], &[2, 0, 3, 1, 2, 0])
}

pub fn filled(dtype: aclDataType, shape: &[usize], value: i64) -> Tensor {
    Tensor::integers(dtype, shape, &vec![value; shape.iter().product()])
}
