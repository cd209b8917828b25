use super::live::Rotary;
use crate::__private::{RopeTable, SectionTable};
use crate::dispatch::{At, Route};
use crate::live::{self, Captured};
use crate::ops::rope::{self, Pair, check_sections, merge};
use crate::semantics::RopeKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// Runs the rotary position embedding of a site.
#[track_caller]
pub fn rope(
    at: At,
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    reference: &mut dyn FnMut(Rotated) -> Rotated,
) -> (Tensor<4>, Tensor<4>) {
    let _span = at.enter();
    rotate(&at, [q, k], cos.rows(), sin.rows(), reference)
}

/// Queries and keys, before or after the rotation.
type Rotated = (Tensor<4>, Tensor<4>);

#[track_caller]
fn rotate(
    at: &At,
    [q, k]: [Tensor<4>; 2],
    cos: Tensor<3>,
    sin: Tensor<3>,
    reference: &mut dyn FnMut(Rotated) -> Rotated,
) -> Rotated {
    let key = at.key();
    let pair = Pair::of(q, k, cos, sin, key);
    let route = at.decide(pair.all());
    run(at, route, pair, reference)
}

/// Runs the multimodal rotary position embedding of a site. The tables of the three positions are merged
/// only if a kernel runs.
#[track_caller]
pub fn rope_sections(
    at: At,
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl SectionTable,
    sin: impl SectionTable,
    sections: [usize; 3],
    reference: &mut dyn FnMut(Rotated) -> Rotated,
) -> (Tensor<4>, Tensor<4>) {
    let _span = at.enter();
    let tables = [cos.table(), sin.table()];
    rotate_sections(&at, [q, k], tables, sections, reference)
}

#[track_caller]
fn rotate_sections(
    at: &At,
    [q, k]: [Tensor<4>; 2],
    [cos, sin]: [Tensor<4>; 2],
    sections: [usize; 3],
    reference: &mut dyn FnMut(Rotated) -> Rotated,
) -> Rotated {
    let key = at.key();
    check_sections(&cos, &sin, sections, key);
    let [q, k] = [q, k].map(Tensor::into_dispatch);
    let [cos, sin] = [cos, sin].map(Tensor::into_dispatch);
    let route = at.decide([&q, &k, &cos, &sin]);
    let [q, k, cos, sin] = [q, k, cos, sin].map(Tensor::from_dispatch);
    match route.decision().is_fused() {
        true => {
            let (cos, sin) = (merge(cos, sections, key), merge(sin, sections, key));
            run(at, route, Pair::of(q, k, cos, sin, key), reference)
        }
        false => reference((q, k)),
    }
}

#[track_caller]
fn run(
    at: &At,
    route: Route,
    pair: Pair<DispatchTensor>,
    reference: &mut dyn FnMut(Rotated) -> Rotated,
) -> Rotated {
    let captured = Captured::These(&["cos", "sin"]);
    live::decided(at, route, Rotary::from(pair), captured, |rotary| {
        reference((rotary.q, rotary.k))
    })
}

/// Runs [`rope::reference`].
#[track_caller]
pub fn rope_reference(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    rope::reference(q, k, cos, sin, key)
}

/// Runs [`rope::reference_sections`].
#[track_caller]
pub fn rope_sections_reference(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl SectionTable,
    sin: impl SectionTable,
    sections: [usize; 3],
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    rope::reference_sections(q, k, cos.table(), sin.table(), sections, key)
}
