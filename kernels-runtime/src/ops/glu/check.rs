use super::{Inputs, Settings, sparsity};
use crate::semantics::{Clamp, GluKey, Projections, TopK};

/// Refuses operands that the key does not have, and shapes and numbers that have no gated linear
/// unit.
#[track_caller]
pub(crate) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: GluKey) {
    let packed = matches!(inputs, Inputs::Packed(_));
    assert!(
        packed == (key.projections != Projections::Separate),
        "GLU: gate and up are {}, but the semantics are {key}",
        if packed {
            "packed in one tensor"
        } else {
            "two tensors"
        }
    );
    match inputs {
        Inputs::Separate { gate, up } => assert!(
            gate.dims() == up.dims(),
            "GLU: the gate projection is {:?}, but the up projection is {:?}",
            gate.dims(),
            up.dims()
        ),
        Inputs::Packed(gate_up) => assert!(
            gate_up.dims().last().is_some_and(|n| n.is_multiple_of(2)),
            "GLU: the packed projection is {:?}; its last axis holds gate and up and must be even",
            gate_up.dims()
        ),
    }
    agree("limit", settings.limit, key.clamp == Clamp::Limit, key);
    agree(
        "sparsity",
        settings.sparsity,
        key.topk == TopK::Gaussian,
        key,
    );
    if let Some(limit) = settings.limit {
        assert!(
            limit >= 0.0,
            "GLU: the limit of the clamp is {limit}; it must be a number that is not negative"
        );
    }
    if let Some(value) = settings.sparsity {
        sparsity::check(value);
    }
}

#[track_caller]
fn agree(what: &str, given: Option<f64>, expected: bool, key: GluKey) {
    assert!(
        given.is_some() == expected,
        "GLU: a {what} is {}, but the semantics are {key}",
        if expected { "missing" } else { "given" }
    );
}
