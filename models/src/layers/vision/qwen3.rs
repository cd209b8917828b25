//! The layers of Qwen3-VL's and Qwen3.5's vision tower.

use burn::module::{Module, Param};
use burn::nn::Embedding;
use burn::tensor::{DType, FloatDType, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::layers::vision::attention::{Places, VisionAttention};
use crate::layers::vision::patches::PatchEmbed;
use crate::layers::vision::{Build, EPS, gelu, gelu_tanh, join};

/// Layer normalisation over the last axis, `y = (x − mean(x)) / sqrt(var(x) + eps) · weight + bias`, in at least `f32` and
/// rounded once.
#[fused_kernel("npu_fused_layernorm", layer = "LayerNorm")]
#[derive(Module, Debug)]
pub struct VisionLayerNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) bias: Param<Tensor<1>>,
    pub(crate) eps: f64,
}

impl VisionLayerNorm {
    fn new(build: Build<'_>, width: usize) -> Self {
        Self {
            weight: build.norm_weight(width),
            bias: build.bias(width),
            eps: EPS,
        }
    }
}

/// An MLP without gates: `fc2(gelu_tanh(fc1(x)))`.
#[derive(Module, Debug)]
struct PlainMlp {
    linear_fc1: Linear,
    linear_fc2: Linear,
}

/// A block: attention and MLP, with a norm before each.
#[derive(Module, Debug)]
pub(crate) struct Qwen3Block {
    norm1: VisionLayerNorm,
    norm2: VisionLayerNorm,
    attn: VisionAttention,
    mlp: PlainMlp,
}

impl Qwen3Block {
    fn new(build: Build<'_>) -> Self {
        let (hidden, width) = (build.config.hidden_size, build.config.intermediate_size);
        Self {
            norm1: VisionLayerNorm::new(build, hidden),
            norm2: VisionLayerNorm::new(build, hidden),
            attn: VisionAttention::new(build),
            mlp: PlainMlp {
                linear_fc1: build.linear(hidden, width),
                linear_fc2: build.linear(width, hidden),
            },
        }
    }

    fn forward(&self, x: Tensor<3>, places: &Places) -> Tensor<3> {
        let normalised = self.norm1.forward(x.clone());
        let x = x + self.attn.forward(normalised, places, &places.frames);
        let inner = gelu_tanh(self.mlp.linear_fc1.forward(self.norm2.forward(x.clone())));
        x + self.mlp.linear_fc2.forward(inner)
    }
}

/// Makes a token of the patches of a block.
#[derive(Module, Debug)]
struct Qwen3Merger {
    norm: VisionLayerNorm,
    linear_fc1: Linear,
    linear_fc2: Linear,
    /// The number of patches of a block.
    #[module(skip)]
    patches: usize,
    /// True if the norm is that of joined patches.
    #[module(skip)]
    norm_of_joined: bool,
}

impl Qwen3Merger {
    fn new(build: Build<'_>, norm_of_joined: bool) -> Self {
        let (joined, hidden) = (build.joined(), build.config.hidden_size);
        let width = if norm_of_joined { joined } else { hidden };
        Self {
            norm: VisionLayerNorm::new(build, width),
            linear_fc1: build.linear(joined, joined),
            linear_fc2: build.linear(joined, build.config.out_hidden_size),
            patches: joined / hidden,
            norm_of_joined,
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        let x = match self.norm_of_joined {
            true => self.norm.forward(join(x, self.patches)),
            false => join(self.norm.forward(x), self.patches),
        };
        self.linear_fc2.forward(gelu(self.linear_fc1.forward(x)))
    }
}

/// The entries of the table of positions around each patch.
pub(crate) struct Around {
    /// `[n]` for each of the four.
    pub(crate) entries: [Tensor<1, Int>; 4],
    /// `[n, 1]` for each, in at least `f32`.
    pub(crate) weights: [Tensor<2>; 4],
}

/// The layers of a tower.
#[derive(Module, Debug)]
pub(crate) struct Qwen3Tower {
    patch_embed: PatchEmbed,
    pos_embed: Embedding,
    blocks: Vec<Qwen3Block>,
    merger: Qwen3Merger,
    deepstack_merger_list: Vec<Qwen3Merger>,
    /// The blocks whose features are kept, counted from 0.
    #[module(skip)]
    kept: Vec<usize>,
}

impl Qwen3Tower {
    pub(crate) fn new(build: Build<'_>) -> Self {
        let config = build.config;
        let side = config.table_side.unwrap_or_default();
        let kept = config.deepstack_visual_indexes.clone();
        Self {
            patch_embed: PatchEmbed::new(build, true),
            pos_embed: Embedding {
                weight: build.weight([side * side, config.hidden_size]),
            },
            blocks: (0..config.depth).map(|_| Qwen3Block::new(build)).collect(),
            merger: Qwen3Merger::new(build, false),
            deepstack_merger_list: kept.iter().map(|_| Qwen3Merger::new(build, true)).collect(),
            kept,
        }
    }

    /// Returns the dtype of the weights.
    pub(crate) fn dtype(&self) -> DType {
        self.patch_embed.dtype()
    }

    /// Returns the tokens `[n, out]` of patches `[1, n · merge², values]`, and features of the same shape for each block that
    /// has some.
    pub(crate) fn forward(
        &self,
        patches: Tensor<3>,
        places: &Places,
        around: Around,
    ) -> (Tensor<2>, Vec<Tensor<2>>) {
        let x = self.patch_embed.forward(patches);
        let mut x = x + self.interpolated(around);
        let mut features = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(x, places);
            let merger = self.kept.iter().position(|kept| *kept == index);
            features.extend(merger.map(|at| self.deepstack_merger_list[at].forward(x.clone())));
        }
        (self.merger.forward(x), features)
    }

    /// Returns the positions of patches `[1, n, hidden]`, interpolated in at least `f32`.
    fn interpolated(&self, Around { entries, weights }: Around) -> Tensor<3> {
        let table = self.pos_embed.weight.val();
        let dtype = table.dtype();
        let table = match dtype {
            DType::F16 | DType::BF16 => table.cast(FloatDType::F32),
            _ => table,
        };
        let parts = entries.into_iter().zip(weights);
        let parts = parts.map(|(entries, weight)| table.clone().select(0, entries) * weight);
        let sum = parts.reduce(|sum, part| sum + part);
        sum.expect("there are four").cast(dtype).unsqueeze_dim(0)
    }
}
