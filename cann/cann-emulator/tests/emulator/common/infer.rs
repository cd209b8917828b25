//! Calls of attention of an inference call, of both versions.

use super::*;
use std::ffi::CStr;

use cann_emulator::abi::attention::*;

/// The arguments of a call. All others are as documented.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub query: Option<&'a Tensor>,
    pub key: Option<&'a List>,
    pub value: Option<&'a List>,
    pub mask: Option<&'a Tensor>,
    pub q_lengths: Option<&'a [i64]>,
    pub lengths: Option<&'a [i64]>,
    pub padding: Option<&'a Tensor>,
    pub pages: Option<&'a Tensor>,
    pub sinks: Option<&'a Tensor>,
    pub heads: i64,
    pub groups: i64,
    pub layout: Option<&'static CStr>,
    pub mode: i64,
    pub band: [i64; 2],
    pub precision: i64,
    pub block: i64,
    pub output: Option<&'a Tensor>,
    pub lse: Option<&'a Tensor>,
}

pub fn given<'a>(query: &'a Tensor, [key, value]: [&'a List; 2], output: &'a Tensor) -> Given<'a> {
    Given {
        query: Some(query),
        key: Some(key),
        value: Some(value),
        mask: None,
        q_lengths: None,
        lengths: None,
        padding: None,
        pages: None,
        sinks: None,
        heads: 4,
        groups: 2,
        layout: Some(c"BNSD"),
        mode: 0,
        band: [i32::MAX.into(); 2],
        precision: 0,
        block: 0,
        output: Some(output),
        lse: None,
    }
}

pub const SCALE: f64 = 0.4;

/// Makes a list of a tensor that is said to be at the memory of another one, which may be too small.
pub fn list_at(memory: Tensor, shape: &[usize]) -> List {
    let storage = shape.iter().product();
    let member = descriptor(memory.address, memory.dtype, shape, None, 0, storage);
    let member: *const aclTensor = member;
    // SAFETY: the variable is valid.
    List(unsafe { aclCreateTensorList(&member, 1) }, vec![memory])
}

pub fn third(given: Given<'_>) -> Status {
    let (q_lengths, lengths) = (Ints::some(given.q_lengths), Ints::some(given.lengths));
    call!(
        aclnnFusedInferAttentionScoreV3: given.query, given.key, given.value,
        null(), given.mask, q_lengths, lengths, null(), null(), null(), null(), null(),
        null(), null(), given.pages, null(), given.padding, null(), null(), null(),
        null(), null(), null(), null(), null(), null(), null(), given.heads, SCALE, given.band[0],
        given.band[1], given.layout,
        given.groups, given.mode, given.precision, given.block, 0, given.lse.is_some(), 0, 0,
        given.output, given.lse
    )
}

pub fn fourth(given: Given<'_>) -> Status {
    let (q_lengths, lengths) = (Ints::some(given.q_lengths), Ints::some(given.lengths));
    call!(
        aclnnFusedInferAttentionScoreV4: given.query, given.key, given.value,
        null(), given.mask, q_lengths, lengths, null(), null(), null(), null(), null(),
        null(), null(), given.pages, null(), given.padding, null(), null(), null(),
        null(), null(), null(), null(), null(), null(), null(), null(), given.sinks,
        given.heads, SCALE, given.band[0], given.band[1],
        given.layout, given.groups,
        given.mode, given.precision, given.block, 0, given.lse.is_some(), 0, 0, 0,
        given.output, given.lse
    )
}

/// Returns the mask of the compressed modes.
pub fn square(shape: &[usize]) -> Tensor {
    let bits: Vec<i64> = (0..2048 * 2048)
        .map(|at| i64::from(at % 2048 > at / 2048))
        .collect();
    Tensor::integers(ACL_BOOL, shape, &bits)
}
