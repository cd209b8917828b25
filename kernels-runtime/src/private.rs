//! What expansions of the attribute call. Not a public interface: it changes with the attribute.

pub use crate::__declare_site as declare_site;
pub use crate::registry::{Form, Site, SiteSpec};
pub use crate::semantics::{
    Activation, GluKey, Offset, RmsNormKey, RopeKey, RopeStyle, Rounding, SemanticsKey,
};
pub use burn;
pub use linkme;

pub use crate::ops::rope::RopeTable;

use crate::dispatch::Decision;
use crate::ops;
use burn::module::Param;
use burn::tensor::Tensor;

/// The compositions that struct forms fall back to.
pub mod reference {
    pub use crate::ops::rms_norm::reference as rms_norm;
    pub use crate::ops::rope::reference as rope;
    pub use crate::ops::swiglu::reference as swiglu;
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

impl<T: NormWeight + ?Sized> NormWeight for &T {
    fn norm_weight(&self) -> Tensor<1> {
        T::norm_weight(self)
    }
}

impl<T: Epsilon + ?Sized> Epsilon for &T {
    fn epsilon(&self) -> f64 {
        T::epsilon(self)
    }
}

/// The RMSNorm of a site.
#[track_caller]
pub fn rms_norm<const D: usize>(
    site: &'static Site,
    x: Tensor<D>,
    weight: Tensor<1>,
    eps: f64,
    reference: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    ops::rms_norm::check(&x, &weight);
    let SemanticsKey::RmsNorm(key) = site.spec().key else {
        unreachable!("the attribute gives a norm the key of a norm")
    };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match site.decide(ops::query([&x, &weight])) {
        Decision::Fused(_) => Tensor::from_dispatch(ops::rms_norm::launch(x, weight, eps, key)),
        Decision::Reference(_) => reference(Tensor::from_dispatch(x)),
    }
}

/// The gated linear unit of a site.
#[track_caller]
pub fn swiglu<const D: usize>(
    site: &'static Site,
    gate: Tensor<D>,
    up: Tensor<D>,
    reference: impl FnOnce(Tensor<D>, Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    ops::swiglu::check(&gate, &up);
    let (gate, up) = (gate.into_dispatch(), up.into_dispatch());
    match site.decide(ops::query([&gate, &up])) {
        Decision::Fused(_) => Tensor::from_dispatch(ops::swiglu::launch(gate, up, glu_key(site))),
        Decision::Reference(_) => reference(Tensor::from_dispatch(gate), Tensor::from_dispatch(up)),
    }
}

/// The gated MLP of a site, whose reference is the user's whole `forward`.
///
/// Whether that runs is decided by `x`, before the projections, so that no path runs them twice.
/// If the projections then give tensors that no kernel takes, the plain composition runs.
#[track_caller]
pub fn swiglu_mlp<const D: usize>(
    site: &'static Site,
    x: Tensor<D>,
    project: impl FnOnce(Tensor<D>) -> (Tensor<D>, Tensor<D>),
    down: impl FnOnce(Tensor<D>) -> Tensor<D>,
    reference: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let x = x.into_dispatch();
    let query = ops::query([&x]);
    let x = Tensor::from_dispatch(x);
    if !site.peek(query).is_fused() {
        site.decide(query);
        return reference(x);
    }
    let (gate, up) = project(x);
    let key = glu_key(site);
    down(swiglu(site, gate, up, |gate, up| {
        ops::swiglu::reference(gate, up, key)
    }))
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
    site: &'static Site,
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    reference: impl FnOnce(Tensor<4>, Tensor<4>) -> (Tensor<4>, Tensor<4>),
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (cos.rows(), sin.rows());
    ops::rope::check(&q, &k, &cos, &sin);
    let SemanticsKey::Rope(key) = site.spec().key else {
        unreachable!("the attribute gives a rotary embedding the key of one")
    };
    let [q, k] = [q, k].map(Tensor::into_dispatch);
    let [cos, sin] = [cos, sin].map(Tensor::into_dispatch);
    match site.decide(ops::query([&q, &k, &cos, &sin])) {
        Decision::Fused(_) => {
            let (q, k) = ops::rope::launch(q, k, cos, sin, key);
            (Tensor::from_dispatch(q), Tensor::from_dispatch(k))
        }
        Decision::Reference(_) => reference(Tensor::from_dispatch(q), Tensor::from_dispatch(k)),
    }
}
