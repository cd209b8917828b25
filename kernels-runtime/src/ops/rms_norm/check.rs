use super::{Inputs, Settings};
use crate::semantics::{Gating, Groups, RmsNormKey, Scale};

/// Refuses operands that the key does not have and shapes that have no RMSNorm.
#[track_caller]
pub(crate) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: RmsNormKey) {
    let shape = inputs.x.dims();
    let n = shape.last().copied().unwrap_or(0);
    agree(
        "a weight",
        inputs.weight.is_some(),
        key.scale == Scale::Weight,
        key,
    );
    agree(
        "a gate",
        inputs.gate.is_some(),
        key.gating != Gating::None,
        key,
    );
    agree(
        "a group size",
        settings.group_size.is_some(),
        key.groups == Groups::Many,
        key,
    );
    if let Some(weight) = &inputs.weight {
        let [elements] = weight.dims();
        assert!(
            elements == n,
            "RMSNorm: the weight has {elements} elements, but the last axis of x, {shape:?}, has {n}"
        );
    }
    if let Some(gate) = &inputs.gate {
        assert!(
            gate.dims() == shape,
            "RMSNorm: the gate is {:?}, but x is {shape:?}",
            gate.dims()
        );
    }
    if let Some(size) = settings.group_size {
        assert!(
            size > 0 && n.is_multiple_of(size),
            "RMSNorm: the group size {size} does not divide the last axis of x, {shape:?}"
        );
    }
}

#[track_caller]
fn agree(what: &str, given: bool, expected: bool, key: RmsNormKey) {
    assert!(
        given == expected,
        "RMSNorm: {what} is {}, but the semantics are {key}",
        if given { "given" } else { "missing" }
    );
}
