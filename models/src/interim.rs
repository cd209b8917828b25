//! The sparse block by direct calls of the operations.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};
use burn_kernels::ops::moe::experts::{self, Projection, Weights};
use burn_kernels::ops::moe::{Routing, route};
use burn_kernels::semantics::{MoeKey, RouterKey};

pub(crate) fn experts(
    gate_up_proj: &Param<Tensor<3>>,
    down_proj: &Param<Tensor<3>>,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
) -> Tensor<2> {
    let weights = Weights::packed(
        Projection::new(gate_up_proj.val()),
        Projection::new(down_proj.val()),
    );
    experts::fused(x, indices, routing, weights, None, MoeKey::QWEN3).unwrap()
}

pub(crate) fn block<const D: usize>(
    hidden_states: Tensor<D>,
    gate: &Linear,
    top_k: usize,
    key: RouterKey,
    experts: impl FnOnce(Tensor<2>, Tensor<2, Int>, Tensor<2>) -> Tensor<2>,
    shared: impl FnOnce(Tensor<2>) -> Option<Tensor<2>>,
) -> (Tensor<D>, Tensor<2>) {
    let dims = hidden_states.dims();
    let x = hidden_states.reshape([-1, dims[D - 1] as i32]);
    let logits = gate.forward(x.clone());
    let routing = Routing::new(key, logits.dims()[1], top_k).unwrap();
    let routed = route(logits.clone(), None, &routing);
    let out = experts(x.clone(), routed.indices, routed.weights);
    let out = match shared(x) {
        Some(shared) => out + shared,
        None => out,
    };
    (out.reshape(dims), logits)
}

use std::fmt;

/// The block's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoeBlockKey {
    pub router: RouterKey,
    pub shared: SharedExpert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedExpert {
    None,
    Plain,
    Gated,
}

impl MoeBlockKey {
    pub const fn new(router: RouterKey, shared: SharedExpert) -> Self {
        Self { router, shared }
    }
    pub const QWEN2_MOE: Self = Self::new(RouterKey::QWEN2_MOE, SharedExpert::Gated);
    pub const QWEN3_MOE: Self = Self::new(RouterKey::QWEN3_MOE, SharedExpert::None);
    pub const MIXTRAL: Self = Self::new(RouterKey::MIXTRAL, SharedExpert::None);
    pub const DEEPSEEK_V3: Self = Self::new(RouterKey::DEEPSEEK_V3, SharedExpert::Plain);
}

impl fmt::Display for MoeBlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let router = self.router.to_string();
        let settings = router.trim_start_matches("router(").trim_end_matches(')');
        write!(f, "moe(part=block, {settings}")?;
        f.write_str(match self.shared {
            SharedExpert::None => "",
            SharedExpert::Plain => ", shared=plain",
            SharedExpert::Gated => ", shared=gated",
        })?;
        f.write_str(")")
    }
}
