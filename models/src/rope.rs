//! Tables of rotary positions.

use std::f32::consts::PI;
use std::ops::Range;

use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};

use crate::config::{RopeConfig, RopeScaling};

/// The frequencies of a model's rotary positions.
///
/// Frequencies are `f32` for every dtype of the model and are rounded where `transformers` rounds them, so that they
/// agree to the last bit. At position 100 000 a relative error of 1e-7 would rotate a pair by 0.01 radians.
#[derive(Debug, Clone)]
pub struct RotaryEmbedding {
    inv_freq: Vec<f32>,
}

/// Cosines and sines for one forward pass, shared by all layers.
#[derive(Debug, Clone)]
pub struct RotaryTables {
    /// The cosines, `[batch or 1, seq, head_dim]`. Both halves of the last axis are equal.
    pub cos: Tensor<3>,
    /// The sines, of the same shape.
    pub sin: Tensor<3>,
}

impl RotaryEmbedding {
    /// Computes the frequencies for heads of width `head_dim`.
    pub fn new(rope: &RopeConfig, head_dim: usize) -> Self {
        // A power in f64 is correct after rounding to f32; powers in f32 differ between systems.
        let power = |exponent: f32| rope.theta.powf(f64::from(exponent)) as f32;
        let inv_freq = (0..head_dim / 2)
            .map(|pair| 1.0 / power((2 * pair) as f32 / head_dim as f32))
            .map(|frequency| rope.scaling.apply(frequency))
            .collect();
        Self { inv_freq }
    }

    /// Returns the radians per position of each pair, `[head_dim / 2]`.
    pub fn inv_freq(&self) -> &[f32] {
        &self.inv_freq
    }

    /// Returns tables for consecutive positions, of shape `[1, seq, head_dim]` and the given dtype.
    ///
    /// Angles are computed in `f32` (`f64` for `f64`) and the results rounded to `dtype`. This happens on the host,
    /// because a GPU's cosine of a large angle is not accurate enough.
    pub fn tables(&self, positions: Range<usize>, device: &Device, dtype: DType) -> RotaryTables {
        self.padded_tables(positions, &[0], device, dtype)
    }

    /// Returns the tables of [`tables`](Self::tables) for each sequence, `[batch, seq, head_dim]`. Positions are counted
    /// from the first token of a sequence, before which there are as many positions as `padding` holds. Those have the
    /// tables of the first token.
    pub(crate) fn padded_tables(
        &self,
        positions: Range<usize>,
        padding: &[usize],
        device: &Device,
        dtype: DType,
    ) -> RotaryTables {
        let shape = [padding.len(), positions.len(), 2 * self.inv_freq.len()];
        let counted = |before: &usize| {
            let before = *before;
            positions
                .clone()
                .map(move |position| position.saturating_sub(before))
        };
        let positions: Vec<usize> = padding.iter().flat_map(counted).collect();
        let table = |function32: fn(f32) -> f32, function64: fn(f64) -> f64| {
            let data = if dtype == DType::F64 {
                let angle = |position, frequency| f64::from(position) * f64::from(frequency);
                TensorData::new(self.rows(&positions, |p, f| function64(angle(p, f))), shape)
            } else {
                TensorData::new(self.rows(&positions, |p, f| function32(p * f)), shape)
            };
            Tensor::from_data(data, (device, dtype))
        };
        RotaryTables {
            cos: table(f32::cos, f64::cos),
            sin: table(f32::sin, f64::sin),
        }
    }

    /// Computes `value(position, frequency)` for every position. Each row holds its values twice.
    fn rows<T: Copy>(&self, positions: &[usize], value: impl Fn(f32, f32) -> T) -> Vec<T> {
        let half = self.inv_freq.len();
        let mut rows = Vec::with_capacity(positions.len() * 2 * half);
        for &position in positions {
            let row = rows.len();
            rows.extend(
                self.inv_freq
                    .iter()
                    .map(|&frequency| value(position as f32, frequency)),
            );
            rows.extend_from_within(row..row + half);
        }
        rows
    }

    /// Returns tables for explicit positions `[batch, seq]`, of shape `[batch, seq, head_dim]` and the given dtype.
    ///
    /// They are computed on the positions' device, without a copy to the host.
    pub fn tables_at(&self, position_ids: Tensor<2, Int>, dtype: DType) -> RotaryTables {
        let wide = if dtype == DType::F64 {
            FloatDType::F64
        } else {
            FloatDType::F32
        };
        let frequencies = TensorData::new(self.inv_freq.clone(), [1, 1, self.inv_freq.len()]);
        let frequencies =
            Tensor::<3>::from_data(frequencies, (&position_ids.device(), DType::from(wide)));
        let angles = position_ids.cast(wide).unsqueeze_dim::<3>(2) * frequencies;
        let twice = |half: Tensor<3>| {
            let half = half.cast(dtype);
            Tensor::cat(vec![half.clone(), half], 2)
        };
        RotaryTables {
            cos: twice(angles.clone().cos()),
            sin: twice(angles.sin()),
        }
    }
}

impl RopeScaling {
    /// Returns the stretched frequency, as `_compute_llama3_parameters` and `_compute_linear_scaling_rope_parameters`
    /// in `transformers` do.
    fn apply(&self, frequency: f32) -> f32 {
        match *self {
            Self::Default => frequency,
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => {
                let original = original_max_position_embeddings as f64;
                let wavelength = 2.0 * PI / frequency;
                if wavelength > (original / low_freq_factor) as f32 {
                    return frequency / factor as f32;
                }
                if wavelength < (original / high_freq_factor) as f32 {
                    return frequency;
                }
                let span = (high_freq_factor - low_freq_factor) as f32;
                let smooth = (original as f32 / wavelength - low_freq_factor as f32) / span;
                (1.0 - smooth) * frequency / factor as f32 + smooth * frequency
            }
        }
    }
}

/// Maps `(x1, x2)` to `(-x2, x1)`, where `x1` and `x2` are the halves of the last axis.
pub(crate) fn rotate_half(x: Tensor<4>) -> Tensor<4> {
    let [_, _, _, width] = x.dims();
    let first = x.clone().narrow(3, 0, width / 2);
    let second = x.narrow(3, width / 2, width / 2);
    Tensor::cat(vec![second.neg(), first], 3)
}
