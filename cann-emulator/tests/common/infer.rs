//! Calls of attention of an inference call, of both versions.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use cann_emulator::abi::attention::*;
use cann_emulator::abi::meta::*;
use cann_sys::meta::*;

use super::{Tensor, descriptor, run};

pub type Status = Result<(), (i32, String)>;

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

fn handle(tensor: Option<&Tensor>) -> *const aclTensor {
    tensor.map_or(null(), |tensor| tensor.handle)
}

/// An array on the host.
struct Ints(*mut aclIntArray);

impl Ints {
    fn new(values: Option<&[i64]>) -> Self {
        let Some(values) = values else {
            return Self(null_mut());
        };
        // SAFETY: the slice is valid.
        Self(unsafe { aclCreateIntArray(values.as_ptr(), values.len() as u64) })
    }
}

impl Drop for Ints {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it was created.
            unsafe { aclDestroyIntArray(self.0) };
        }
    }
}

/// A list of tensors.
pub struct List {
    list: *mut aclTensorList,
    /// The memory of the members.
    _tensors: Vec<Tensor>,
}

impl List {
    pub fn new(mut tensors: Vec<Tensor>) -> Self {
        let members: Vec<_> = tensors.iter_mut().map(Tensor::give_to_list).collect();
        // SAFETY: the vector is valid.
        let list = unsafe { aclCreateTensorList(members.as_ptr(), members.len() as u64) };
        Self {
            list,
            _tensors: tensors,
        }
    }

    /// Makes a list of a tensor that is said to be at the memory of another one, which may be too small.
    pub fn at(memory: Tensor, shape: &[usize]) -> Self {
        let storage = shape.iter().product();
        let member = descriptor(memory.address, memory.dtype, shape, None, 0, storage);
        let member: *const aclTensor = member;
        // SAFETY: the variable is valid.
        let list = unsafe { aclCreateTensorList(&member, 1) };
        Self {
            list,
            _tensors: vec![memory],
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: it was created, and it owns its members.
        unsafe { aclDestroyTensorList(self.list) };
    }
}

fn list(list: Option<&List>) -> *const aclTensorList {
    list.map_or(null(), |list| list.list)
}

pub fn third(given: Given<'_>) -> Status {
    let (q_lengths, lengths) = (Ints::new(given.q_lengths), Ints::new(given.lengths));
    run(
        // SAFETY: handles are checked, the places are variables, the text ends.
        |size, executor| unsafe {
            aclnnFusedInferAttentionScoreV3GetWorkspaceSize(
                handle(given.query),
                list(given.key),
                list(given.value),
                null(),
                handle(given.mask),
                q_lengths.0,
                lengths.0,
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                handle(given.pages),
                null(),
                handle(given.padding),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                given.heads,
                SCALE,
                given.band[0],
                given.band[1],
                given
                    .layout
                    .map_or(null_mut(), |text| text.as_ptr().cast_mut()),
                given.groups,
                given.mode,
                given.precision,
                given.block,
                0,
                given.lse.is_some(),
                0,
                0,
                handle(given.output),
                handle(given.lse),
                size,
                executor,
            )
        },
        aclnnFusedInferAttentionScoreV3,
    )
}

pub fn fourth(given: Given<'_>) -> Status {
    let (q_lengths, lengths) = (Ints::new(given.q_lengths), Ints::new(given.lengths));
    run(
        // SAFETY: as above.
        |size, executor| unsafe {
            aclnnFusedInferAttentionScoreV4GetWorkspaceSize(
                handle(given.query),
                list(given.key),
                list(given.value),
                null(),
                handle(given.mask),
                q_lengths.0,
                lengths.0,
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                handle(given.pages),
                null(),
                handle(given.padding),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                null(),
                handle(given.sinks),
                given.heads,
                SCALE,
                given.band[0],
                given.band[1],
                given
                    .layout
                    .map_or(null_mut(), |text| text.as_ptr().cast_mut()),
                given.groups,
                given.mode,
                given.precision,
                given.block,
                0,
                given.lse.is_some(),
                0,
                0,
                0,
                handle(given.output),
                handle(given.lse),
                size,
                executor,
            )
        },
        aclnnFusedInferAttentionScoreV4,
    )
}

/// Returns the mask of the compressed modes.
pub fn square(shape: &[usize]) -> Tensor {
    let bits: Vec<i64> = (0..2048 * 2048)
        .map(|at| i64::from(at % 2048 > at / 2048))
        .collect();
    Tensor::integers(ACL_BOOL, shape, &bits)
}
