//! Products of i8: `act((x · weight + bias) · scale · perTokenScale)`, or with weights of four bits
//! `((x − 8) · weight · scale + bias) · perTokenScale`.
//!
//! Sums of products are exact: over all inputs, or with weights of four bits over each part of them. What follows is in
//! f32, but for a bias of i32, which wraps. Results of i8 are rounded to nearest, with ties to even, and saturate; CANN does
//! not say how it rounds. The low half of a scale of 64 bits is an f32. An offset in the high half is not emulated, and
//! breaks the stream.

use std::ops::Range;

use cann_sys::meta::*;

use super::kind::SHARING;
use super::product::group_ends;
use super::{Groups, Kind, Roles, Split};
use crate::error::{Outcome, ensure, fail};
use crate::memory::Memory;
use crate::ops::arithmetic::{Arithmetic, Float};
use crate::tensor::Tensor;

/// The bits of a scale's offset.
const OFFSET: u64 = 0x1ff << 37;

/// The rows of an x that belong to a group.
struct Part {
    x: usize,
    from: usize,
    rows: usize,
    group: usize,
    output: usize,
    /// The first row in the output.
    to: usize,
}

/// A weight with its factors: of one group, or of all groups one after the other.
struct Weight {
    values: Vec<i32>,
    depth: usize,
    columns: usize,
    bias: Vec<f64>,
    scale: Vec<f32>,
}

/// The factors and settings that all groups share.
struct Finish {
    kind: Kind,
    token_scale: Vec<f32>,
    activation: i64,
    dtype: aclDataType,
}

pub(super) fn run(
    memory: &mut Memory,
    roles: &Roles<'_>,
    split: Split,
    list_type: i64,
    activation: i64,
) -> Outcome<()> {
    let parts = parts(memory, roles, split, list_type)?;
    let inputs = roles.x.iter().map(|x| x.values::<i64>(memory));
    let inputs: Vec<Vec<i64>> = inputs.collect::<Outcome<_>>()?;
    let weights = 0..roles.weight.len();
    let weights = weights.map(|position| Weight::of(memory, roles, position));
    let weights: Vec<Weight> = weights.collect::<Outcome<_>>()?;
    let token_scale = roles.token_scale.first();
    let finish = Finish {
        kind: roles.kind,
        token_scale: token_scale.map_or(Ok(Vec::new()), |scale| scale.floats(memory))?,
        activation,
        dtype: roles.output[0].dtype,
    };
    for part in parts {
        let (weight, matrix) = match &weights[..] {
            [only] => (only, part.group),
            several => (&several[part.group], 0),
        };
        let depth = weight.depth;
        let x = &inputs[part.x][part.from * depth..][..part.rows * depth];
        let x: Vec<i32> = x.iter().map(|x| *x as i32).collect();
        let to = rows_of(
            &roles.output[part.output],
            part.to,
            part.rows,
            weight.columns,
        );
        if finish.dtype == ACL_INT32 {
            let sums = weight.sums(&x, part.rows, matrix);
            let sums: Vec<i64> = sums.into_iter().map(i64::from).collect();
            to.store_values(memory, &sums)?;
        } else {
            to.store_values(memory, &finish.values(weight, &x, &part, matrix))?;
        }
    }
    Ok(())
}

/// Returns rows of a contiguous output.
fn rows_of(output: &Tensor, from: usize, rows: usize, columns: usize) -> Tensor {
    Tensor {
        shape: vec![rows, columns],
        strides: vec![columns as i64, 1],
        offset: output.offset + (from * columns) as i64,
        ..output.clone()
    }
}

/// Returns the groups of rows.
fn parts(memory: &Memory, roles: &Roles<'_>, split: Split, list_type: i64) -> Outcome<Vec<Part>> {
    let rows = |tensor: &Tensor| tensor.shape[..tensor.rank() - 1].iter().product::<usize>();
    let is_split = roles.x.len() == 1 && roles.list.count().is_some();
    if split == Split::Rows && is_split {
        return of_one(memory, roles, list_type);
    }
    let (mut parts, mut before) = (Vec::new(), 0);
    for group in 0..roles.weight.len() {
        let one_x = split == Split::Apart;
        let own = if one_x {
            rows(&roles.output[group])
        } else {
            rows(&roles.x[group])
        };
        let one_output = split == Split::Rows;
        parts.push(Part {
            x: if one_x { 0 } else { group },
            from: if one_x { before } else { 0 },
            rows: own,
            group,
            output: if one_output { 0 } else { group },
            to: if one_output { before } else { 0 },
        });
        before += own;
    }
    Ok(parts)
}

/// Returns the groups of one x with one result, as its list names them.
fn of_one(memory: &Memory, roles: &Roles<'_>, list_type: i64) -> Outcome<Vec<Part>> {
    let rows = roles.x[0].shape[0];
    let part = |group, from, rows| Part {
        x: 0,
        from,
        rows,
        group,
        output: 0,
        to: from,
    };
    let (Groups::Device(list), 2) = (roles.list, list_type) else {
        let mut from = 0;
        let ends = group_ends(memory, roles.list, list_type == 1, rows)?;
        let parts = ends.into_iter().enumerate().map(|(group, end)| {
            let part = part(group, from, end - from);
            from = end;
            part
        });
        return Ok(parts.collect());
    };
    let (pairs, mut from) = (list.integers(memory)?, 0);
    let mut parts: Vec<Part> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (group, count) = (usize::try_from(pair[0]), usize::try_from(pair[1]));
        let (Ok(group), Ok(count)) = (group, count) else {
            return no_list(pair);
        };
        let is_new = parts.iter().all(|part| part.group != group);
        // A device stops at the first empty group.
        let follows = count == 0 || parts.iter().all(|part| part.rows > 0);
        if group >= list.shape[0] || count > rows - from || !is_new || !follows {
            return no_list(pair);
        }
        parts.push(part(group, from, count));
        from += count;
    }
    Ok(parts)
}

fn no_list<T>(pair: &[i64]) -> Outcome<T> {
    fail!(
        "groupList is invalid at {pair:?}: pairs have each group once with a part of \
         the rows, and empty groups come last"
    )
}

/// Returns scales in f32.
fn scales(memory: &Memory, scale: &Tensor) -> Outcome<Vec<f32>> {
    if scale.dtype != ACL_UINT64 {
        return scale.floats(memory);
    }
    let bits = scale.values::<i64>(memory)?;
    ensure!(bits.iter().all(|bits| bits.cast_unsigned() & OFFSET == 0);
        "a scale has an offset in its bits 37 to 45, which is not emulated");
    let low = bits.into_iter().map(|bits| f32::from_bits(bits as u32));
    Ok(low.collect())
}

impl Weight {
    fn of(memory: &Memory, roles: &Roles<'_>, position: usize) -> Outcome<Self> {
        let weight = &roles.weight[position];
        let (bias, scale) = (roles.bias.get(position), roles.scale.get(position));
        let values = roles.weight_values(memory, position)?;
        Ok(Self {
            values: values.into_iter().map(|value| value as i32).collect(),
            depth: weight.shape[weight.rank() - 2],
            columns: weight.shape[weight.rank() - 1],
            bias: bias.map_or(Ok(Vec::new()), |bias| bias.values(memory))?,
            scale: scale.map_or(Ok(Vec::new()), |scale| scales(memory, scale))?,
        })
    }

    /// Returns the exact sums of products of rows of x with a range of the inputs of a matrix.
    fn products(&self, x: &[i32], rows: usize, matrix: usize, inputs: Range<usize>) -> Vec<i32> {
        let (depth, columns) = (self.depth, self.columns);
        let weights = &self.values[matrix * depth * columns..][..depth * columns];
        let mut sums = vec![0; rows * columns];
        for (row, sums) in sums.chunks_exact_mut(columns.max(1)).enumerate() {
            for input in inputs.clone() {
                let x = x[row * depth + input];
                let weights = &weights[input * columns..][..columns];
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += x * weight;
                }
            }
        }
        sums
    }

    /// Returns the sums with their bias, which wrap at the ends of i32.
    fn sums(&self, x: &[i32], rows: usize, matrix: usize) -> Vec<i32> {
        let mut sums = self.products(x, rows, matrix, 0..self.depth);
        if !self.bias.is_empty() {
            let bias = &self.bias[matrix * self.columns..][..self.columns];
            for (sum, bias) in sums.iter_mut().zip(bias.iter().cycle()) {
                *sum = sum.wrapping_add(*bias as i32);
            }
        }
        sums
    }

    /// Returns the scaled sums.
    fn scaled(&self, x: &[i32], rows: usize, matrix: usize) -> Vec<f32> {
        let scale = &self.scale[matrix * self.columns..][..self.columns];
        let sums = self.sums(x, rows, matrix).into_iter();
        let pairs = sums.zip(scale.iter().cycle());
        pairs.map(|(sum, scale)| sum as f32 * scale).collect()
    }

    /// Returns the products with weights of four bits. Each part of the inputs has its scales.
    fn mixed(&self, x: &[i32], rows: usize, matrix: usize) -> Vec<f32> {
        let columns = self.columns;
        let less: Vec<i32> = x.iter().map(|x| x - 8).collect();
        let mut values = vec![0.0; rows * columns];
        let parts = self.depth / SHARING;
        for part in 0..parts {
            let inputs = part * SHARING..(part + 1) * SHARING;
            let sums = self.products(&less, rows, matrix, inputs);
            let scale = &self.scale[(matrix * parts + part) * columns..][..columns];
            let scaled = sums.iter().zip(scale.iter().cycle());
            for (value, (sum, scale)) in values.iter_mut().zip(scaled) {
                *value += *sum as f32 * scale;
            }
        }
        let bias = &self.bias[matrix * columns..][..columns];
        let both = values.iter_mut().zip(bias.iter().cycle());
        both.for_each(|(value, bias)| *value += *bias as f32);
        values
    }
}

impl Finish {
    /// Returns the values of a part.
    fn values(&self, weight: &Weight, x: &[i32], part: &Part, matrix: usize) -> Vec<f32> {
        let mut values = match self.kind {
            Kind::Mixed => weight.mixed(x, part.rows, matrix),
            _ => weight.scaled(x, part.rows, matrix),
        };
        for (place, value) in values.iter_mut().enumerate() {
            if !self.token_scale.is_empty() {
                *value *= self.token_scale[part.from + place / weight.columns];
            }
            *value = self.activated(*value);
            if self.dtype == ACL_INT8 {
                *value = value.round_ties_even();
            }
        }
        values
    }

    fn activated(&self, value: f32) -> f32 {
        match self.activation {
            1 => Arithmetic::relu(value),
            2 => Float::gelu_tanh(value),
            // The fast approximation of GELU.
            4 => value / (1.0 + (-1.702 * value).exp()),
            5 => Float::silu(value),
            _ => value,
        }
    }
}
