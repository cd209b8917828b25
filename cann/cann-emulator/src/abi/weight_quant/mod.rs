//! Products with weights of few bits, versions 2 and 3: `y = x · ((weight + offset) · scale) + bias`.
//!
//! Weights are i8, or i32 of which each holds eight of four bits along the axis that is contiguous, as
//! `aclnnConvertWeightToINT4Pack` makes them. Tensors of ACL_INT4, the format FRACTAL_NZ, results of i8 and scales of 64
//! bits are not emulated. CANN does not say where it rounds. Here a weight is rounded to the dtype of x, in which matrices
//! are multiplied, after it was scaled in f32; sums are in f32 and rounded once.

mod first;
mod pack;

pub use self::first::*;
pub use self::pack::*;
pub(crate) use self::pack::{PACKED, unpacked};

use crate::abi::prelude::*;
use crate::ops::matmul::{Factor, product};
use crate::tensor::rounded;

/// The longest inner axis.
const LONGEST: usize = 65535;

/// The tensors of a call.
struct Call {
    x: *const aclTensor,
    weight: *const aclTensor,
    scale: *const aclTensor,
    offset: *const aclTensor,
    quantised: [(&'static str, *const aclTensor); 2],
    bias: *const aclTensor,
    group_size: i32,
    output: *const aclTensor,
}

/// The layout of a matrix of weights.
#[derive(Clone, Copy)]
struct Weights {
    depth: usize,
    columns: usize,
    /// The number of rows that share a scale.
    group: usize,
    /// True if values of four bits are packed.
    packed: bool,
    turned: bool,
}

/// Returns `true` for a transposed view and `false` for a contiguous matrix, the only two layouts.
fn is_turned(name: &str, tensor: &Tensor) -> Outcome<bool> {
    ensure!(tensor.rank() == 2; "{name} has {} axes; it takes 2", tensor.rank());
    if tensor.is_transposed() && !tensor.is_contiguous() {
        return Ok(true);
    }
    check_contiguous(name, tensor)?;
    Ok(false)
}

impl Call {
    fn take(&self, operands: &mut Operands) -> Outcome<Work> {
        let config = state::config()?;
        ensure!(config.has_bf16(), ACLNN_ERR_RUNTIME_ERROR;
            "{} is not emulated for this operator", config.soc);
        let x = operands.input("x", self.x)?;
        let weight = operands.input("weight", self.weight)?;
        let scale = operands.input("antiquantScale", self.scale)?;
        let offset = operands.optional("antiquantOffsetOptional", self.offset)?;
        for (name, tensor) in self.quantised {
            ensure!(tensor.is_null(); "{name} is given, but results of i8 are not emulated");
        }
        let bias = operands.optional("biasOptional", self.bias)?;
        let output = operands.output("y", self.output)?;
        check_dtype("x", &x, &[ACL_FLOAT16, ACL_BF16])?;
        check_dtype("weight", &weight, &[ACL_INT8, ACL_INT32])?;
        check_dtype("antiquantScale", &scale, &[x.dtype])?;
        check_dtype("y", &output, &[x.dtype])?;
        let weights = self.weights(&x, &weight, &scale)?;
        is_turned_or_line("antiquantScale", &scale)?;
        if let Some(offset) = &offset {
            check_dtype("antiquantOffsetOptional", offset, &[x.dtype])?;
            check_size("antiquantOffsetOptional", offset, &scale.shape)?;
            is_turned_or_line("antiquantOffsetOptional", offset)?;
        }
        let Weights { columns, .. } = weights;
        if let Some(bias) = &bias {
            let of_bias = if x.dtype == ACL_BF16 {
                ACL_FLOAT
            } else {
                ACL_FLOAT16
            };
            check_dtype("biasOptional", bias, &[of_bias])?;
            ensure!(bias.shape == [columns] || bias.shape == [1, columns];
                "biasOptional has the shape {:?}; [{columns}] or [1, {columns}] is needed",
                bias.shape);
        }
        check_size("y", &output, &[x.shape[0], columns])?;
        check_contiguous("y", &output)?;
        let has = [offset.is_some(), bias.is_some()];
        Ok(Arc::new(move |memory, operands| {
            multiply(memory, operands, weights, has)
        }))
    }

    /// Checks the sizes of x, the weight and the scale.
    fn weights(&self, x: &Tensor, weight: &Tensor, scale: &Tensor) -> Outcome<Weights> {
        let (x_turned, turned) = (is_turned("x", x)?, is_turned("weight", weight)?);
        ensure!(weight.format != ACL_FORMAT_FRACTAL_NZ;
            "weight has the format FRACTAL_NZ, which is not emulated");
        let packed = weight.dtype == ACL_INT32;
        let times = |yes: bool| if packed && yes { PACKED } else { 1 };
        let depth = weight.shape[0] * times(turned);
        let columns = weight.shape[1] * times(!turned);
        let ([rows, inputs], most) = ([x.shape[0], x.shape[1]], i32::MAX as usize);
        ensure!(inputs == depth; "rows of {inputs} by columns of {depth}");
        let limit = if x_turned { LONGEST } else { most };
        ensure!(
            (1..=LONGEST).contains(&depth)
                && (1..=LONGEST).contains(&columns)
                && (1..=limit).contains(&rows);
            "{rows} rows, {depth} inputs and {columns} columns; axes have 1 to {LONGEST} \
             elements, rows that are not transposed up to {most}"
        );
        let size = self.group_size;
        let grouped = size != 0;
        ensure!(!grouped || size % 32 == 0 && (32..depth as i64).contains(&i64::from(size));
            "antiquantGroupSize is {size}; it is 0, or a multiple of 32 less than the {depth} \
             inputs");
        let group = if grouped { size as usize } else { depth };
        let shapes = match grouped {
            true => vec![vec![depth.div_ceil(group), columns]],
            false => vec![vec![1], vec![1, 1], vec![columns], vec![1, columns]],
        };
        ensure!(shapes.contains(&scale.shape);
            "antiquantScale has the shape {:?}; one of {shapes:?} is needed", scale.shape);
        Ok(Weights {
            depth,
            columns,
            group,
            packed,
            turned,
        })
    }
}

/// Checks that a scale or an offset is contiguous or a transposed matrix.
fn is_turned_or_line(name: &str, tensor: &Tensor) -> Outcome<()> {
    match tensor.rank() {
        2 => is_turned(name, tensor).map(drop),
        _ => check_contiguous(name, tensor),
    }
}

impl Weights {
    /// Returns the values row by row, before they are scaled.
    fn read(&self, memory: &Memory, weight: &Tensor) -> Outcome<Vec<f32>> {
        if !self.packed {
            return weight.values(memory);
        }
        // The packed axis is the contiguous one.
        let stored = if self.turned {
            weight.permuted(&[1, 0])
        } else {
            weight.clone()
        };
        let values = unpacked(&stored.values::<i64>(memory)?);
        if !self.turned {
            return Ok(values);
        }
        let (depth, columns) = (self.depth, self.columns);
        let at = |place: usize| values[place % columns * depth + place / columns];
        Ok((0..depth * columns).map(at).collect())
    }

    /// Returns the scaled weights, each rounded to a dtype.
    fn scaled(
        &self,
        weights: &[f32],
        scale: &[f32],
        offset: Option<&[f32]>,
        dtype: aclDataType,
    ) -> Vec<f32> {
        let own = |place: usize| match scale.len() {
            1 => 0,
            _ => place / self.columns / self.group * self.columns + place % self.columns,
        };
        let value = |(place, weight): (usize, &f32)| {
            let at = own(place);
            let offset = offset.map_or(0.0, |offset| offset[at]);
            rounded(dtype, (weight + offset) * scale[at])
        };
        weights.iter().enumerate().map(value).collect()
    }
}

fn multiply(
    memory: &mut Memory,
    operands: &[Tensor],
    weights: Weights,
    [has_offset, has_bias]: [bool; 2],
) -> Outcome<()> {
    let mut operands = Present::of(operands);
    let (x, weight) = (operands.needed(), operands.needed());
    let scale = operands.needed().floats(memory)?;
    let offset = operands.floats(memory, has_offset)?;
    let bias = operands.floats(memory, has_bias)?;
    let values = weights.read(memory, weight)?;
    let values = weights.scaled(&values, &scale, offset.as_deref(), x.dtype);
    let Weights { depth, columns, .. } = weights;
    let rows = x.floats(memory)?;
    let (rows, values) = (Factor::by_rows(&rows), Factor::by_rows(&values));
    let mut y = product(rows, values, [x.shape[0], depth, columns]);
    add_to_rows(&mut y, bias.as_deref().unwrap_or_default());
    operands.needed().store(memory, &y)
}

/// Adds a bias to each row. Does nothing without values.
fn add_to_rows(y: &mut [f32], bias: &[f32]) {
    for row in y.chunks_exact_mut(bias.len().max(1)) {
        row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
    }
}

/// Exports a version. The third can be made less precise for some weights of FRACTAL_NZ, which are not emulated.
macro_rules! version {
    ($one:ident, $two:ident $(, $precise:ident)?) => {
        operator! { matmul: $one, $two(
            x, weight, scale, offset, quant_scale, quant_offset, bias, group_size,
            $($precise,)? output
        ) |operands|
            let quantised =
                [("quantScaleOptional", quant_scale), ("quantOffsetOptional", quant_offset)];
            $(ensure!($precise == 0;
                "innerPrecise is {}; weights of this format have 0", $precise);)?
            Call { x, weight, scale, offset, quantised, bias, group_size, output }.take(operands)
        }
    };
}

version! { aclnnWeightQuantBatchMatmulV2GetWorkspaceSize, aclnnWeightQuantBatchMatmulV2 }
version! { aclnnWeightQuantBatchMatmulV3GetWorkspaceSize, aclnnWeightQuantBatchMatmulV3, precise }
