//! The layers of Qwen2.5-VL's vision tower.

use burn::module::{Module, Param};
use burn::nn::Gelu;
use burn::tensor::{DType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::layers::vision::attention::{Places, VisionAttention};
use crate::layers::vision::patches::PatchEmbed;
use crate::layers::vision::{Build, EPS, gelu, join};

/// Root-mean-square normalisation, `y = weight · round(x / sqrt(mean(x²) + eps))`. The mean is over the last axis and
/// in at least `f32`; `round` rounds to the dtype of `x`.
#[fused_kernel("npu_fused_rmsnorm", offset = 0, rounding = llama, layer = "RMSNorm")]
#[derive(Module, Debug)]
pub struct VisionRmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

#[fused_kernel(
    "npu_fused_add_rmsnorm",
    method = forward_sum,
    weight = weight,
    eps = variance_epsilon,
    offset = 0,
    rounding = llama,
    layer = "AddRMSNorm"
)]
impl VisionRmsNorm {
    /// Adds `x` to the residual stream of the same shape and normalises the sum. Returns the normalised sum and the
    /// sum.
    pub fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        let sum = x + residual;
        (self.forward(sum.clone()), sum)
    }
}

impl VisionRmsNorm {
    fn new(build: Build<'_>) -> Self {
        Self {
            weight: build.norm_weight(build.config.hidden_size),
            variance_epsilon: EPS,
        }
    }
}

/// Gated MLP with biases: `down(silu(gate(x)) · up(x))`, from `[.., hidden]` to `[.., hidden]`.
#[fused_kernel("npu_fused_swiglu", activation = silu, layer = "SwiGLUMLP")]
#[derive(Module, Debug)]
pub struct VisionMlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

/// A block: attention and MLP, with a norm before each.
#[derive(Module, Debug)]
pub(crate) struct Qwen2_5Block {
    norm1: VisionRmsNorm,
    norm2: VisionRmsNorm,
    attn: VisionAttention,
    mlp: VisionMlp,
}

impl Qwen2_5Block {
    fn new(build: Build<'_>) -> Self {
        let (hidden, width) = (build.config.hidden_size, build.config.intermediate_size);
        Self {
            norm1: VisionRmsNorm::new(build),
            norm2: VisionRmsNorm::new(build),
            attn: VisionAttention::new(build),
            mlp: VisionMlp {
                gate_proj: build.linear(hidden, width),
                up_proj: build.linear(hidden, width),
                down_proj: build.linear(width, hidden),
            },
        }
    }

    fn forward(&self, x: Tensor<3>, places: &Places, lengths: &[usize]) -> Tensor<3> {
        let attended = self
            .attn
            .forward(self.norm1.forward(x.clone()), places, lengths);
        let (normalised, sum) = self.norm2.forward_sum(attended, x);
        sum + self.mlp.forward(normalised)
    }
}

/// A step of the merger's MLP. Checkpoints number the activation, too.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "three in a tower; a box would save nothing that matters"
)]
enum Step {
    Linear(Linear),
    Gelu(Gelu),
}

/// Makes a token of the patches of a block.
#[derive(Module, Debug)]
struct Qwen2_5Merger {
    ln_q: VisionRmsNorm,
    mlp: Vec<Step>,
    /// The number of patches of a block.
    #[module(skip)]
    patches: usize,
}

impl Qwen2_5Merger {
    fn new(build: Build<'_>) -> Self {
        let joined = build.joined();
        Self {
            ln_q: VisionRmsNorm::new(build),
            mlp: vec![
                Step::Linear(build.linear(joined, joined)),
                Step::Gelu(Gelu::new()),
                Step::Linear(build.linear(joined, build.config.out_hidden_size)),
            ],
            patches: joined / build.config.hidden_size,
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        let x = join(self.ln_q.forward(x), self.patches);
        self.mlp.iter().fold(x, |x, step| match step {
            Step::Linear(layer) => layer.forward(x),
            Step::Gelu(_) => gelu(x),
        })
    }
}

/// The layers of a tower.
#[derive(Module, Debug)]
pub(crate) struct Qwen2_5Tower {
    patch_embed: PatchEmbed,
    blocks: Vec<Qwen2_5Block>,
    merger: Qwen2_5Merger,
}

impl Qwen2_5Tower {
    pub(crate) fn new(build: Build<'_>) -> Self {
        Self {
            patch_embed: PatchEmbed::new(build, false),
            blocks: (0..build.config.depth)
                .map(|_| Qwen2_5Block::new(build))
                .collect(),
            merger: Qwen2_5Merger::new(build),
        }
    }

    /// Returns the dtype of the weights.
    pub(crate) fn dtype(&self) -> DType {
        self.patch_embed.dtype()
    }

    /// Returns the tokens `[n, out]` of patches `[1, n · merge², values]`.
    pub(crate) fn forward(
        &self,
        patches: Tensor<3>,
        places: &Places,
        has_window: impl Fn(usize) -> bool,
    ) -> Tensor<2> {
        let mut x = self.patch_embed.forward(patches);
        for (index, block) in self.blocks.iter().enumerate() {
            let windows = places.windows.as_ref().filter(|_| has_window(index));
            x = block.forward(x, places, windows.unwrap_or(&places.frames));
        }
        self.merger.forward(x)
    }
}
