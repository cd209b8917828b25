//! The values of weights.

use cann_sys::meta::*;

use super::{Kind, Roles};
use crate::abi::weight_quant::{PACKED, unpacked};
use crate::error::{Outcome, ensure};
use crate::memory::Memory;
use crate::tensor::{Tensor, rounded};

impl Roles<'_> {
    /// Returns the values of a weight, row by row. Those of few bits are scaled and rounded to the dtype of x.
    pub(super) fn weight_values(&self, memory: &Memory, position: usize) -> Outcome<Vec<f32>> {
        let weight = &self.weight[position];
        match self.kind {
            Kind::Float => weight.floats(memory),
            Kind::Integers | Kind::Mixed => unscaled(memory, weight),
            Kind::Weights => self.scaled(memory, weight, position),
        }
    }

    /// Returns the values of all weights, one after the other.
    pub(super) fn all_weights(&self, memory: &Memory) -> Outcome<Vec<f32>> {
        let mut values = Vec::new();
        for position in 0..self.weight.len() {
            values.extend(self.weight_values(memory, position)?);
        }
        Ok(values)
    }

    fn scaled(&self, memory: &Memory, weight: &Tensor, position: usize) -> Outcome<Vec<f32>> {
        let [scale, offset] = self.few_bits;
        let scale = scale[position].floats(memory)?;
        let offset = offset[position].floats(memory)?;
        let in_parts = self.few_bits[0][position].rank() == weight.rank();
        ensure!(!in_parts || offset.iter().all(|offset| *offset == 0.0);
            "antiquantOffset is not zero; weights with scales for parts of the inputs have no \
             offset");
        let mut values = unscaled(memory, weight)?;
        if values.is_empty() {
            return Ok(values);
        }
        let (columns, dtype) = (weight.shape[weight.rank() - 1], self.x[0].dtype);
        // The rows of all matrices are in a column of as many equal parts as there are rows of scales.
        let part = values.len() / scale.len();
        for (place, value) in values.iter_mut().enumerate() {
            let at = place / columns / part * columns + place % columns;
            *value = rounded(dtype, (*value + offset[at]) * scale[at]);
        }
        Ok(values)
    }
}

/// Returns whole numbers, row by row.
fn unscaled(memory: &Memory, weight: &Tensor) -> Outcome<Vec<f32>> {
    if weight.dtype != ACL_INT32 {
        return weight.values(memory);
    }
    let rank = weight.rank();
    let turned = !weight.is_contiguous();
    let packed = rank - if turned { 2 } else { 1 };
    let mut stored = weight.clone();
    for axis in 0..rank {
        if axis == packed {
            stored.shape[axis] /= PACKED;
        } else {
            stored.strides[axis] /= PACKED as i64;
        }
    }
    if !turned {
        return Ok(unpacked(&stored.values::<i64>(memory)?));
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    let values = unpacked(&stored.permuted(&order).values::<i64>(memory)?);
    let (depth, columns) = (weight.shape[rank - 2], weight.shape[rank - 1]);
    let turn = |place: usize| {
        let (matrix, place) = (place / (depth * columns), place % (depth * columns));
        values[matrix * depth * columns + place % columns * depth + place / columns]
    };
    Ok((0..values.len()).map(turn).collect())
}
