//! The examples of the attribute's documentation.

use crate::acme;
use crate::common::{assert_same, device, linear, vector};
use burn::module::{Module, Param};
use burn::nn::{Linear, RotaryEncodingConfig};
use burn::tensor::activation::{gelu, silu};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::RotaryEncoding;

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
pub struct LlamaMlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

struct MyNorm {
    weight: Param<Tensor<1>>,
    tiny: f64,
}

#[fused_kernel("npu_fused_rmsnorm", eps = tiny)]
impl MyNorm {
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1);
        x / (mean_square + self.tiny).sqrt() * self.weight.val().unsqueeze()
    }
}

#[fused_kernel("npu_fused_rope", style = half)]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<2>,
    sin: Tensor<2>,
) -> (Tensor<4>, Tensor<4>) {
    let half = q.dims()[3] / 2;
    let turn = |x: Tensor<4>| {
        let (a, b) = (
            x.clone().narrow(3, 0, half),
            x.clone().narrow(3, half, half),
        );
        x * cos.clone().unsqueeze() + Tensor::cat(vec![-b, a], 3) * sin.clone().unsqueeze()
    };
    (turn(q), turn(k))
}

#[fused_kernel("npu_fused_attention", part = layer)]
#[derive(Module, Debug)]
pub struct RotatedAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    rotary: RotaryEncoding,
    num_heads: usize,
    num_kv_heads: usize,
}

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
pub struct Qwen3MoeExperts {
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

#[fused_kernel("npu_fused_moe", part = block, renormalise = sum)]
#[derive(Module, Debug)]
pub struct Qwen3MoeBlock {
    gate: Linear,
    experts: Qwen3MoeExperts,
    top_k: usize,
}

struct Head {
    limit: f64,
}

#[fused_kernel(acme::soft_cap, cap = limit)]
impl Head {
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        (x / self.limit).tanh() * self.limit
    }
}

#[derive(PartialEq)]
enum Act {
    Silu,
    Gelu,
}

struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    act: Act,
}

#[fused_kernel("npu_fused_swiglu", when = self.act == Act::Silu)]
impl Mlp {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let gate = self.gate_proj.forward(x.clone());
        let gate = match self.act {
            Act::Silu => silu(gate),
            Act::Gelu => gelu(gate),
        };
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
}

pub fn main() {
    let random = |shape| Tensor::<4>::random(shape, Distribution::Default, &device());
    let x = random([1, 2, 3, 4]);
    let mlp = LlamaMlp {
        gate_proj: linear(4, 8),
        up_proj: linear(4, 8),
        down_proj: linear(8, 4),
    };
    assert_same(mlp.forward(x.clone()), mlp.forward_reference(x.clone()));
    let norm = MyNorm {
        weight: Param::from_tensor(vector(&[1.0, 2.0, 3.0, 4.0])),
        tiny: 1e-6,
    };
    assert_same(norm.forward(x.clone()), norm.forward_reference(x.clone()));
    let attention = RotatedAttention {
        q_proj: linear(4, 8),
        k_proj: linear(4, 4),
        v_proj: linear(4, 4),
        o_proj: linear(8, 4),
        rotary: RotaryEncodingConfig::new(16, 2).init(&device()).into(),
        num_heads: 4,
        num_kv_heads: 2,
    };
    assert_same(
        attention.forward(x.clone()),
        attention.forward_reference(x.clone()),
    );
    let weights =
        |shape| Param::from_tensor(Tensor::<3>::random(shape, Distribution::Default, &device()));
    let block = Qwen3MoeBlock {
        gate: linear(4, 3),
        experts: Qwen3MoeExperts {
            gate_up_proj: weights([3, 10, 4]),
            down_proj: weights([3, 4, 5]),
        },
        top_k: 2,
    };
    let (y, logits) = block.forward(x.clone());
    let (expected, expected_logits) = block.forward_reference(x.clone());
    assert_same(y, expected);
    assert_same(logits, expected_logits);
    let head = Head { limit: 0.5 };
    assert_same(head.forward(x.clone()), head.forward_reference(x.clone()));
    for act in [Act::Silu, Act::Gelu] {
        let mlp = Mlp {
            gate_proj: linear(4, 8),
            up_proj: linear(4, 8),
            down_proj: linear(8, 4),
            act,
        };
        assert_same(mlp.forward(x.clone()), mlp.forward_reference(x.clone()));
    }
    let table = || random([1, 1, 3, 2]).reshape([3, 2]).repeat_dim(1, 2);
    let (cos, sin) = (table(), table());
    let (q, k) = apply_rotary_pos_emb(x.clone(), x.clone(), cos.clone(), sin.clone());
    let (a, b) = apply_rotary_pos_emb_reference(x.clone(), x, cos, sin);
    assert_same(q, a);
    assert_same(k, b);
}
