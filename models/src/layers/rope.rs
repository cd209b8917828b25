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
    /// The frequencies of long sequences, if they have their own.
    long: Option<LongFrequencies>,
    /// The factor of all cosines and sines.
    attention_factor: f64,
}

#[derive(Debug, Clone)]
struct LongFrequencies {
    inv_freq: Vec<f32>,
    /// The longest sequence without these frequencies.
    original: usize,
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
        let rotated = rope.rotary_dim(head_dim);
        let wavelength = |pair: usize| power((2 * pair) as f32 / rotated as f32);
        let divided = |factors: &[f64]| -> Vec<f32> {
            let pairs = factors.iter().enumerate();
            pairs
                .map(|(pair, &factor)| 1.0 / (factor as f32 * wavelength(pair)))
                .collect()
        };
        match &rope.scaling {
            RopeScaling::LongRope {
                short_factor,
                long_factor,
                original_max_position_embeddings,
                attention_factor,
            } => Self {
                inv_freq: divided(short_factor),
                long: Some(LongFrequencies {
                    inv_freq: divided(long_factor),
                    original: *original_max_position_embeddings,
                }),
                attention_factor: *attention_factor,
            },
            RopeScaling::Yarn {
                factor,
                attention_factor,
                ..
            } => {
                let kept = rope.scaling.yarn_kept(rope.theta, rotated);
                let frequency = |(pair, kept): (usize, f32)| {
                    let wavelength = wavelength(pair);
                    1.0 / (*factor as f32 * wavelength) * (1.0 - kept) + 1.0 / wavelength * kept
                };
                Self {
                    inv_freq: kept.into_iter().enumerate().map(frequency).collect(),
                    long: None,
                    attention_factor: *attention_factor,
                }
            }
            scaling => Self {
                inv_freq: (0..rotated / 2)
                    .map(|pair| scaling.apply(1.0 / wavelength(pair)))
                    .collect(),
                long: None,
                attention_factor: 1.0,
            },
        }
    }

    /// Returns the radians per position of each pair, `[rotated elements / 2]`. With `longrope` they are those of short
    /// sequences.
    pub fn inv_freq(&self) -> &[f32] {
        &self.inv_freq
    }

    /// Returns the frequencies of positions up to the given one. As in `transformers`, all tokens of a pass have those of
    /// the longest sequence in it.
    fn frequencies(&self, last: usize) -> &[f32] {
        match &self.long {
            Some(long) if last >= long.original => &long.inv_freq,
            _ => &self.inv_freq,
        }
    }

    /// Returns tables for consecutive positions, of shape `[1, seq, rotated elements]` and the given dtype.
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
        let factor = self.attention_factor;
        let table = |function32: fn(f32) -> f32, function64: fn(f64) -> f64| {
            let data = if dtype == DType::F64 {
                let angle = |position, frequency| f64::from(position) * f64::from(frequency);
                let value = |p, f| function64(angle(p, f)) * factor;
                TensorData::new(self.rows(&positions, value), shape)
            } else {
                let value = |p: f32, f: f32| function32(p * f) * factor as f32;
                TensorData::new(self.rows(&positions, value), shape)
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
        let last = positions.iter().copied().max().unwrap_or(0);
        let frequencies = self.frequencies(last);
        let half = frequencies.len();
        let mut rows = Vec::with_capacity(positions.len() * 2 * half);
        for &position in positions {
            let row = rows.len();
            rows.extend(
                frequencies
                    .iter()
                    .map(|&frequency| value(position as f32, frequency)),
            );
            rows.extend_from_within(row..row + half);
        }
        rows
    }

    /// Returns tables for explicit positions `[batch, seq]`, of shape `[batch, seq, rotated elements]` and the given dtype.
    ///
    /// They are computed on the positions' device, without a copy to the host.
    pub fn tables_at(&self, position_ids: Tensor<2, Int>, dtype: DType) -> RotaryTables {
        let wide = if dtype == DType::F64 {
            FloatDType::F64
        } else {
            FloatDType::F32
        };
        let frequencies = self.frequencies_at(&position_ids, wide);
        let angles = position_ids.cast(wide).unsqueeze_dim::<3>(2) * frequencies;
        let twice = |half: Tensor<3>| {
            let half = match self.attention_factor {
                1.0 => half,
                factor => half * factor,
            };
            let half = half.cast(dtype);
            Tensor::cat(vec![half.clone(), half], 2)
        };
        RotaryTables {
            cos: twice(angles.clone().cos()),
            sin: twice(angles.sin()),
        }
    }
}

impl RotaryEmbedding {
    /// Returns the frequencies of these positions, `[1, 1, pairs]`, without waiting for their values.
    fn frequencies_at(&self, position_ids: &Tensor<2, Int>, dtype: FloatDType) -> Tensor<3> {
        let device = position_ids.device();
        let tensor = |values: &[f32]| {
            let data = TensorData::new(values.to_vec(), [1, 1, values.len()]);
            Tensor::<3>::from_data(data, (&device, DType::from(dtype)))
        };
        let short = tensor(&self.inv_freq);
        let Some(long) = &self.long else {
            return short;
        };
        let last = position_ids.clone().max();
        let is_long = last.greater_equal_elem(long.original as i64);
        let shape = short.shape();
        let is_long = is_long.reshape([1, 1, 1]).expand(shape);
        short.mask_where(is_long, tensor(&long.inv_freq))
    }
}

impl RopeScaling {
    /// Returns the stretched frequency, as `_compute_llama3_parameters` and `_compute_linear_scaling_rope_parameters`
    /// in `transformers` do.
    fn apply(&self, frequency: f32) -> f32 {
        match *self {
            // The frequencies of the last two are not a function of the frequency alone.
            Self::Default | Self::Yarn { .. } | Self::LongRope { .. } => frequency,
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
                let span = (high_freq_factor - low_freq_factor) as f32;
                if wavelength < (original / high_freq_factor) as f32 || span == 0.0 {
                    return frequency;
                }
                let smooth = (original as f32 / wavelength - low_freq_factor as f32) / span;
                (1.0 - smooth) * frequency / factor as f32 + smooth * frequency
            }
        }
    }
}

impl RopeScaling {
    /// Returns the part of each frequency that YaRN keeps, from 0 to 1, for so many rotated elements; nothing for other
    /// kinds. It follows `_compute_yarn_parameters` in `transformers`.
    fn yarn_kept(&self, theta: f64, rotated: usize) -> Vec<f32> {
        let Self::Yarn {
            beta_fast,
            beta_slow,
            truncate,
            original_max_position_embeddings,
            ..
        } = *self
        else {
            return Vec::new();
        };
        // The pair that rotates so many times in the context of the first training.
        let pair = |rotations: f64| {
            let original = original_max_position_embeddings as f64;
            let turns = original / (rotations * 2.0 * std::f64::consts::PI);
            rotated as f64 * turns.ln() / (2.0 * theta.ln())
        };
        let (low, high) = match (pair(beta_fast), pair(beta_slow), truncate) {
            (low, high, true) => (low.floor(), high.ceil()),
            (low, high, false) => (low, high),
        };
        let (low, high) = (low.max(0.0), high.min(rotated as f64 - 1.0));
        let high = if low == high { high + 0.001 } else { high };
        let divided = |pair: usize| (pair as f32 - low as f32) / (high - low) as f32;
        (0..rotated / 2)
            .map(|pair| 1.0 - divided(pair).clamp(0.0, 1.0))
            .collect()
    }
}

/// Maps `(x1, x2)` to `(-x2, x1)`, where `x1` and `x2` are the halves of the last axis.
pub(crate) fn rotate_half(x: Tensor<4>) -> Tensor<4> {
    let [_, _, _, width] = x.dims();
    let first = x.clone().narrow(3, 0, width / 2);
    let second = x.narrow(3, width / 2, width / 2);
    Tensor::cat(vec![second.neg(), first], 3)
}
