//! What expansions of the attribute call. Not a public interface: it changes with the attribute.

pub use crate::__declare_site as declare_site;
pub use crate::dispatch::At;
pub use crate::registry::{Form, Site, SiteSpec};
pub use crate::semantics::{
    Activation, Clamp, CustomKey, Gating, GluKey, Groups, HeadLayout, Offset, Projections,
    RmsNormKey, RopeKey, RopeStyle, RotaryWidth, Rounding, Scale, Sections, SemanticsKey,
    TableLayout, TopK,
};
pub use burn;
pub use linkme;

pub use crate::ops::rope::RopeTable;

use crate::kernel::Operands;

use crate::dispatch::Decision;
use crate::ops;
use crate::registry::{Implementation, Launch};
use burn::module::Param;
use burn::tensor::Tensor;

/// The compositions that struct forms fall back to.
pub mod reference {
    use super::{GluKey, RmsNormKey, RopeKey, RopeTable};
    use burn::tensor::Tensor;

    pub fn rms_norm<const D: usize>(
        x: Tensor<D>,
        weight: Option<Tensor<1>>,
        eps: f64,
        group_size: Option<usize>,
        key: RmsNormKey,
    ) -> Tensor<D> {
        let _ = group_size;
        crate::ops::rms_norm::reference(x, weight.expect("todo"), eps, key)
    }

    pub fn rms_norm_gated<const D: usize>(
        x: Tensor<D>,
        gate: Tensor<D>,
        weight: Option<Tensor<1>>,
        eps: f64,
        group_size: Option<usize>,
        key: RmsNormKey,
    ) -> Tensor<D> {
        let _ = (x, gate, weight, eps, group_size, key);
        todo!()
    }

    pub fn glu<const D: usize>(
        gate: Tensor<D>,
        up: Tensor<D>,
        limit: Option<f64>,
        sparsity: Option<f64>,
        key: GluKey,
    ) -> Tensor<D> {
        let _ = (limit, sparsity);
        crate::ops::swiglu::reference(gate, up, key)
    }

    pub fn glu_packed<const D: usize>(
        gate_up: Tensor<D>,
        limit: Option<f64>,
        key: GluKey,
    ) -> Tensor<D> {
        let _ = (gate_up, limit, key);
        todo!()
    }

    pub fn rope(
        q: Tensor<4>,
        k: Tensor<4>,
        cos: impl RopeTable,
        sin: impl RopeTable,
        key: RopeKey,
    ) -> (Tensor<4>, Tensor<4>) {
        crate::ops::rope::reference(q, k, cos, sin, key)
    }

    pub fn rope_sections(
        q: Tensor<4>,
        k: Tensor<4>,
        cos: impl super::SectionTable,
        sin: impl super::SectionTable,
        sections: [usize; 3],
        key: RopeKey,
    ) -> (Tensor<4>, Tensor<4>) {
        let _ = (q, k, cos.table(), sin.table(), sections, key);
        todo!()
    }
}

/// A name that Cargo gives, if it is Cargo that builds.
pub const fn or_unknown(name: Option<&'static str>) -> &'static str {
    match name {
        Some(name) => name,
        None => "unknown",
    }
}

/// The weight of a norm, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the weight of an RMSNorm",
    label = "expected `Param<Tensor<1>>` or `Tensor<1>`"
)]
pub trait NormWeight {
    /// The weight, `[n]`.
    fn norm_weight(&self) -> Tensor<1>;
}

impl NormWeight for Param<Tensor<1>> {
    fn norm_weight(&self) -> Tensor<1> {
        self.val()
    }
}

impl NormWeight for Tensor<1> {
    fn norm_weight(&self) -> Tensor<1> {
        self.clone()
    }
}

impl<T: NormWeight + ?Sized> NormWeight for &T {
    fn norm_weight(&self) -> Tensor<1> {
        T::norm_weight(self)
    }
}

/// The epsilon of a norm, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the epsilon of an RMSNorm",
    label = "expected `f64` or `f32`"
)]
pub trait Epsilon {
    /// The value.
    fn epsilon(&self) -> f64;
}

impl Epsilon for f64 {
    fn epsilon(&self) -> f64 {
        *self
    }
}

impl Epsilon for f32 {
    fn epsilon(&self) -> f64 {
        f64::from(*self)
    }
}

impl<T: Epsilon + ?Sized> Epsilon for &T {
    fn epsilon(&self) -> f64 {
        T::epsilon(self)
    }
}

/// A run-time number of a kernel that is not an epsilon: a clamp's limit, a sparsity.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of a kernel",
    label = "expected `f64` or `f32`"
)]
pub trait Number {
    /// The value.
    fn number(&self) -> f64;
}

impl Number for f64 {
    fn number(&self) -> f64 {
        *self
    }
}

impl Number for f32 {
    fn number(&self) -> f64 {
        f64::from(*self)
    }
}

impl<T: Number + ?Sized> Number for &T {
    fn number(&self) -> f64 {
        T::number(self)
    }
}

/// A number of elements, as a field of the user's struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of elements",
    label = "expected `usize`"
)]
pub trait Count {
    /// The value.
    fn count(&self) -> usize;
}

impl Count for usize {
    fn count(&self) -> usize {
        *self
    }
}

impl<T: Count + ?Sized> Count for &T {
    fn count(&self) -> usize {
        T::count(self)
    }
}

/// The lengths of the three sections of a multimodal rotary embedding, in pairs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the sections of a rotary position embedding",
    label = "expected `[usize; 3]` or `Vec<usize>`: pairs for time, height and width"
)]
pub trait SectionLengths {
    /// Time, height, width.
    fn lengths(&self) -> [usize; 3];
}

impl SectionLengths for [usize; 3] {
    fn lengths(&self) -> [usize; 3] {
        *self
    }
}

impl SectionLengths for [usize] {
    fn lengths(&self) -> [usize; 3] {
        self.try_into().unwrap_or_else(|_| {
            panic!("RoPE: there are three sections (time, height, width), not {self:?}")
        })
    }
}

impl SectionLengths for Vec<usize> {
    fn lengths(&self) -> [usize; 3] {
        self.as_slice().lengths()
    }
}

impl<T: SectionLengths + ?Sized> SectionLengths for &T {
    fn lengths(&self) -> [usize; 3] {
        T::lengths(self)
    }
}

/// A table of cosines or sines of three positions, `[3, b, s, w]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of a multimodal rotary position embedding",
    label = "expected `Tensor<4>`, [3, b, s, w], or a `Param` of one"
)]
pub trait SectionTable {
    /// The table.
    fn table(self) -> Tensor<4>;
}

impl SectionTable for Tensor<4> {
    fn table(self) -> Tensor<4> {
        self
    }
}

impl SectionTable for &Tensor<4> {
    fn table(self) -> Tensor<4> {
        self.clone()
    }
}

impl SectionTable for Param<Tensor<4>> {
    fn table(self) -> Tensor<4> {
        self.val()
    }
}

impl SectionTable for &Param<Tensor<4>> {
    fn table(self) -> Tensor<4> {
        self.val()
    }
}

/// A site of another crate's kernel.
#[track_caller]
pub fn custom<O: Operands>(
    at: At,
    operands: O,
    reference: impl FnOnce(O) -> O::Output,
) -> O::Output {
    crate::kernel::custom(at, operands, reference)
}

/// The RMSNorm of a site without a gate.
#[track_caller]
pub fn rms_norm<const D: usize>(
    at: At,
    x: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    reference: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _ = group_size;
    let weight = weight.expect("todo");
    ops::rms_norm::check(&x, &weight);
    let SemanticsKey::RmsNorm(key) = at.site().spec().key else {
        unreachable!("the attribute gives a norm the key of a norm")
    };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match at.decide([&x, &weight]) {
        Decision::Fused(Implementation {
            launch: Launch::RmsNorm(launch),
            ..
        }) => Tensor::from_dispatch(launch(ops::rms_norm::Call {
            x,
            weight: Some(weight),
            gate: None,
            eps,
            group_size: None,
            key,
        })),
        Decision::Fused(_) => unreachable!("the registry checks that a launch is of its op"),
        Decision::Reference(_) => reference(Tensor::from_dispatch(x)),
    }
}

/// The gated RMSNorm of a site.
#[track_caller]
pub fn rms_norm_gated<const D: usize>(
    at: At,
    x: Tensor<D>,
    gate: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    reference: impl FnOnce(Tensor<D>, Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _ = (at, weight, eps, group_size);
    reference(x, gate)
}

/// The gated linear unit of a site with separate projections.
#[track_caller]
pub fn glu<const D: usize>(
    at: At,
    gate: Tensor<D>,
    up: Tensor<D>,
    limit: Option<f64>,
    sparsity: Option<f64>,
    reference: impl FnOnce(Tensor<D>, Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _ = (limit, sparsity);
    ops::swiglu::check(&gate, &up);
    let (gate, up) = (gate.into_dispatch(), up.into_dispatch());
    match at.decide([&gate, &up]) {
        Decision::Fused(_) => {
            Tensor::from_dispatch(ops::swiglu::launch(gate, up, glu_key(at.site())))
        }
        Decision::Reference(_) => reference(Tensor::from_dispatch(gate), Tensor::from_dispatch(up)),
    }
}

/// The gated linear unit of a site with a packed projection, `[.., 2n]` to `[.., n]`.
#[track_caller]
pub fn glu_packed<const D: usize>(
    at: At,
    gate_up: Tensor<D>,
    limit: Option<f64>,
    reference: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _ = (at, limit);
    reference(gate_up)
}

/// The gated MLP of a site, whose reference is the user's whole `forward`.
///
/// Whether that runs is decided by `x`, before the projections, so that no path runs them twice.
/// If the projections then give tensors that no kernel takes, the plain composition runs.
#[track_caller]
pub fn glu_mlp<const D: usize>(
    at: At,
    x: Tensor<D>,
    project: impl Fn(Tensor<D>) -> (Tensor<D>, Tensor<D>),
    down: impl Fn(Tensor<D>) -> Tensor<D>,
    limit: Option<f64>,
    sparsity: Option<f64>,
    reference: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let x = x.into_dispatch();
    if !at.peek([&x]).is_fused() {
        at.decide([&x]);
        return reference(Tensor::from_dispatch(x));
    }
    let (gate, up) = project(Tensor::from_dispatch(x));
    let key = glu_key(at.site());
    down(glu(at, gate, up, limit, sparsity, |gate, up| {
        reference::glu(gate, up, limit, sparsity, key)
    }))
}

/// As [`glu_mlp`], with a packed projection.
#[track_caller]
pub fn glu_packed_mlp<const D: usize>(
    at: At,
    x: Tensor<D>,
    project: impl Fn(Tensor<D>) -> Tensor<D>,
    down: impl Fn(Tensor<D>) -> Tensor<D>,
    limit: Option<f64>,
    reference: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _ = (at, project, down, limit);
    reference(x)
}

fn glu_key(site: &Site) -> GluKey {
    let SemanticsKey::Glu(key) = site.spec().key else {
        unreachable!("the attribute gives a gated unit the key of one")
    };
    key
}

/// The rotary position embedding of a site.
#[track_caller]
pub fn rope(
    at: At,
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    reference: impl FnOnce(Tensor<4>, Tensor<4>) -> (Tensor<4>, Tensor<4>),
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (cos.rows(), sin.rows());
    ops::rope::check(&q, &k, &cos, &sin);
    let SemanticsKey::Rope(key) = at.site().spec().key else {
        unreachable!("the attribute gives a rotary embedding the key of one")
    };
    let [q, k] = [q, k].map(Tensor::into_dispatch);
    let [cos, sin] = [cos, sin].map(Tensor::into_dispatch);
    match at.decide([&q, &k, &cos, &sin]) {
        Decision::Fused(_) => {
            let (q, k) = ops::rope::launch(q, k, cos, sin, key);
            (Tensor::from_dispatch(q), Tensor::from_dispatch(k))
        }
        Decision::Reference(_) => reference(Tensor::from_dispatch(q), Tensor::from_dispatch(k)),
    }
}

/// The multimodal rotary position embedding of a site.
#[track_caller]
pub fn rope_sections(
    at: At,
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl SectionTable,
    sin: impl SectionTable,
    sections: [usize; 3],
    reference: impl FnOnce(Tensor<4>, Tensor<4>) -> (Tensor<4>, Tensor<4>),
) -> (Tensor<4>, Tensor<4>) {
    let _ = (at, cos.table(), sin.table(), sections);
    reference(q, k)
}
