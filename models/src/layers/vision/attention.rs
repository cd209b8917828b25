//! The attention of vision towers: patches see those of their frame or window, before and after them.

use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::config::VisionConfig;
use crate::config::family::Tower;
use crate::layers::rope::rotate_half;
use crate::layers::vision::{Build, wide};

/// The projections of queries, keys and values. [`crate::parameters`] leaves the field of this type out of the paths of
/// parameters, as no checkpoint has a name for it.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a block; a box would save nothing that matters"
)]
enum VisionProjections {
    Packed(PackedProjections),
    Separate(SeparateProjections),
}

#[derive(Module, Debug)]
struct PackedProjections {
    /// The columns of queries come first, then those of keys, then those of values.
    qkv: Linear,
}

#[derive(Module, Debug)]
struct SeparateProjections {
    q: Linear,
    k: Linear,
    v: Linear,
}

/// Self-attention of patches within their frame or window.
#[derive(Module, Debug)]
pub struct VisionAttention {
    projections: VisionProjections,
    proj: Linear,
    #[module(skip)]
    heads: usize,
}

/// The places of the patches of one pass.
pub(crate) struct Places {
    /// The tables that rotate queries and keys.
    tables: Tables,
    /// The numbers of patches of all frames.
    pub(crate) frames: Vec<usize>,
    /// The numbers of patches of all windows, if there are any.
    pub(crate) windows: Option<Vec<usize>>,
}

/// Cosines and sines of rows and columns.
struct Tables {
    /// `[1, patches, head]`.
    cos: Tensor<3>,
    /// `[1, patches, head]`.
    sin: Tensor<3>,
}

impl VisionAttention {
    pub(crate) fn new(build: Build<'_>) -> Self {
        let VisionConfig {
            hidden_size,
            num_heads,
            tower,
            ..
        } = *build.config;
        let one = || build.linear(hidden_size, hidden_size);
        let projections = match tower {
            Tower::Qwen2_5 { separate: true } => VisionProjections::Separate(SeparateProjections {
                q: one(),
                k: one(),
                v: one(),
            }),
            _ => VisionProjections::Packed(PackedProjections {
                qkv: build.linear(hidden_size, 3 * hidden_size),
            }),
        };
        Self {
            projections,
            proj: one(),
            heads: num_heads,
        }
    }

    /// Returns the attention of patches `[1, n, hidden]`, which lie one after the other in parts of these lengths.
    pub(crate) fn forward(&self, x: Tensor<3>, places: &Places, lengths: &[usize]) -> Tensor<3> {
        let [_, patches, hidden] = x.dims();
        let split = |projected: Tensor<3>| -> Tensor<4> {
            projected.reshape([1, patches, self.heads, hidden / self.heads])
        };
        let [q, k, v] = match &self.projections {
            VisionProjections::Separate(own) => {
                [&own.q, &own.k, &own.v].map(|layer| split(layer.forward(x.clone())))
            }
            VisionProjections::Packed(own) => {
                let all = own.qkv.forward(x);
                [0, 1, 2].map(|part| split(all.clone().narrow(2, part * hidden, hidden)))
            }
        };
        let Tables { cos, sin } = &places.tables;
        let (q, k) = apply_rotary_pos_emb_vision(q, k, cos.clone(), sin.clone());
        let scale = ((hidden / self.heads) as f64).powf(-0.5);
        let mixed = packed_attention(q, k, v, scale, lengths);
        self.proj.forward(mixed.reshape([1, patches, hidden]))
    }
}

impl Places {
    /// Returns the places of patches, for the row and column of each, in the order of the pass.
    pub(crate) fn new(
        config: &VisionConfig,
        positions: &[[usize; 2]],
        frames: Vec<usize>,
        windows: Option<Vec<usize>>,
        (device, dtype): (&Device, DType),
    ) -> Self {
        Self {
            tables: Tables::new(
                config.hidden_size / config.num_heads,
                positions,
                device,
                dtype,
            ),
            frames,
            windows,
        }
    }
}

impl Tables {
    /// Computes tables for heads of a width, which is a multiple of four. The frequencies are `f32` for every dtype, as in
    /// `transformers`. The tables of half types stay in `f32`.
    fn new(head: usize, positions: &[[usize; 2]], device: &Device, dtype: DType) -> Self {
        const THETA: f64 = 10_000.0;
        let wavelength = |pair: usize| THETA.powf(f64::from((2 * pair) as f32 / (head / 2) as f32));
        let pairs = 0..head / 4;
        let frequencies: Vec<f32> = pairs.map(|pair| 1.0 / wavelength(pair) as f32).collect();
        let shape = [1, positions.len(), head];
        let mut angles = Vec::with_capacity(positions.len() * head);
        for &[row, column] in positions {
            // Rows, then columns, and both again.
            for place in [row, column, row, column] {
                angles.extend(frequencies.iter().map(|own| (place as f32, *own)));
            }
        }
        let table = |function32: fn(f32) -> f32, function64: fn(f64) -> f64| match dtype {
            DType::F64 => {
                let angle = |&(place, own): &(f32, f32)| f64::from(place) * f64::from(own);
                let values: Vec<f64> = angles.iter().map(|pair| function64(angle(pair))).collect();
                Tensor::from_data(TensorData::new(values, shape), (device, DType::F64))
            }
            _ => {
                let values = angles.iter().map(|(place, own)| function32(place * own));
                let values: Vec<f32> = values.collect();
                Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
            }
        };
        Self {
            cos: table(f32::cos, f64::cos),
            sin: table(f32::sin, f64::sin),
        }
    }
}

/// Rotates queries and keys `[1, n, heads, d]` by the rows and columns of patches. Element `i` of the first half of each
/// head pairs with element `i` of the second half. `cos` and `sin` are `[1, n, d]`, in the dtype that the rotation is computed
/// in: at least `f32`.
#[fused_kernel("npu_fused_rope", style = half, layout = bsnd, layer = "apply_rotary_pos_emb_vision")]
pub fn apply_rotary_pos_emb_vision(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let computed = FloatDType::from(cos.dtype());
    let (cos, sin) = (cos.unsqueeze_dim::<4>(2), sin.unsqueeze_dim::<4>(2));
    let rotate = |x: Tensor<4>| {
        let dtype = x.dtype();
        let x = x.cast(computed);
        let rotated = x.clone() * cos.clone() + rotate_half(x) * sin.clone();
        rotated.cast(dtype)
    };
    (rotate(q), rotate(k))
}

/// Returns the attention of each query to all keys of its part. `q`, `k` and `v` are `[1, n, heads, d]`, and `lengths` are
/// those of the parts, one after the other.
#[fused_kernel("npu_fused_attention", mask = none, lengths = packed, layout = bsnd, layer = "packed_attention")]
pub fn packed_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    lengths: &[usize],
) -> Tensor<4> {
    let mut first = 0;
    let parts = lengths.chunk_by(PartialEq::eq).map(|equal| {
        let (count, length) = (equal.len(), equal[0]);
        let of = |x: &Tensor<4>| {
            let [_, _, heads, width] = x.dims();
            let own = x.clone().narrow(1, first, count * length);
            own.reshape([count, length, heads, width]).swap_dims(1, 2)
        };
        let (q, k, v) = (of(&q), of(&k), of(&v));
        first += count * length;
        let [_, heads, _, width] = v.dims();
        let scores = (q * scale).matmul(k.swap_dims(2, 3));
        let weights = wide(scores, |scores| softmax(scores, 3));
        let mixed = weights.matmul(v).swap_dims(1, 2);
        mixed.reshape([1, count * length, heads, width])
    });
    Tensor::cat(parts.collect(), 1)
}
