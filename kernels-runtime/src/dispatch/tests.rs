//! Helpers that the tests of several modules share.

use super::{Mode, Query, TensorType};
use crate::device::{DeviceKind, Served};
use crate::registry::{FloatType, Form, SiteSpec};
use crate::semantics::{RopeKey, SemanticsKey};

pub(crate) const ROPE_SITE: SiteSpec = SiteSpec {
    kernel: "npu_fused_rope",
    item: "rope",
    path: None,
    module: "tests",
    krate: "tests",
    crate_version: "0",
    file: "tests.rs",
    line: 1,
    form: Form::Function,
    key: SemanticsKey::Rope(RopeKey::LLAMA),
    layer: Some("rotary_pos_emb"),
    condition: None,
};

/// Makes [`ROPE_SITE`] a site of the program of the unit tests, with the only layer name in it.
#[linkme::distributed_slice(crate::registry::SPECS)]
static ROPE_IN_THE_PROGRAM: &SiteSpec = &ROPE_SITE;

pub(crate) const F32: TensorType = TensorType::Float(FloatType::F32);

/// Returns a training call on the CPU.
pub(crate) fn query(tensors: TensorType) -> Query {
    Query {
        device: DeviceKind::Cpu,
        capability: 3,
        served: Served::HERE,
        tensors,
        mode: Mode::Training,
        condition: true,
        opaque: false,
        adapted: false,
    }
}
