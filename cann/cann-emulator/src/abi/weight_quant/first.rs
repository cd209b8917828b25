//! Version 1: f16 by i8, with one scale and offset for all weights and more for each column.
//!
//! Up to 64 rows, CANN scales the weights by the matrix unit: `(x2 + deqOffset) · deqScale`, with a matrix of ones on its
//! diagonal, and the low half of a deqScale is an f32. Beyond, it computes
//! `((x2 + antiquantOffset) · antiquantScale + addOffset) · mulScale`, each step in f16 but the first two, which are in
//! f32. The document lists results of i8, and CANN's source only f16, which is taken.

use super::add_to_rows;
use crate::abi::prelude::*;
use crate::ops::matmul::{Factor, product, to_half};

/// The most rows that are scaled by the matrix unit.
const FEW: usize = 64;
/// The size of the matrix with ones on its diagonal.
const DIAGONAL: usize = 32;

/// The tensors and the settings of a call.
struct Call {
    factors: [*const aclTensor; 2],
    /// The diagonal, deqOffset and deqScale, needed for few rows.
    few: [*const aclTensor; 3],
    /// addOffset and mulScale, of many rows.
    many: [*const aclTensor; 2],
    bias: *const aclTensor,
    turned: [bool; 2],
    scale: f32,
    offset: f32,
    output: *const aclTensor,
}

/// The work of a call.
#[derive(Clone, Copy)]
struct Scaled {
    rows: usize,
    depth: usize,
    columns: usize,
    few: bool,
    /// True for each of addOffset, mulScale and the bias that is there.
    has: [bool; 3],
    scale: f32,
    offset: f32,
    turned: [bool; 2],
}

/// Returns a matrix as it is multiplied.
fn turned(tensor: &Tensor, turn: bool) -> Tensor {
    if turn {
        tensor.permuted(&[1, 0])
    } else {
        tensor.clone()
    }
}

impl Call {
    fn take(&self, operands: &mut Operands) -> Outcome<Work> {
        let config = state::config()?;
        ensure!(config.has_bf16(), ACLNN_ERR_RUNTIME_ERROR;
            "{} is not emulated for this operator", config.soc);
        let [x1, x2] = self.factors;
        let x1 = operands.view("x1", x1, &[ACL_FLOAT16])?;
        let x2 = operands.view("x2", x2, &[ACL_INT8])?;
        for (name, tensor) in [("x1", &x1), ("x2", &x2)] {
            ensure!(tensor.rank() == 2; "{name} has {} axes; it takes 2", tensor.rank());
        }
        let (left, right) = (turned(&x1, self.turned[0]), turned(&x2, self.turned[1]));
        let ([rows, depth], [inputs, columns]) = (
            [left.shape[0], left.shape[1]],
            [right.shape[0], right.shape[1]],
        );
        ensure!(depth == inputs; "rows of {depth} by columns of {inputs}");
        let few = rows <= FEW;
        let [adds, scales] = match few {
            true => self.take_few(operands, columns)?,
            false => self.take_many(operands, &x2)?,
        };
        let biased = !self.bias.is_null();
        if biased {
            let bias = operands.view("bias", self.bias, &[ACL_FLOAT])?;
            check_size("bias", &bias, &[columns])?;
        }
        operands.result("out", self.output, ACL_FLOAT16, &[rows, columns])?;
        let work = Scaled {
            rows,
            depth,
            columns,
            few,
            has: [adds, scales, biased],
            scale: self.scale,
            offset: self.offset,
            turned: self.turned,
        };
        Ok(Arc::new(move |memory, operands| work.run(memory, operands)))
    }

    /// Takes the tensors of few rows.
    fn take_few(&self, operands: &mut Operands, columns: usize) -> Outcome<[bool; 2]> {
        let [diagonal, offset, scale] = self.few;
        let diagonal = operands.view("diagonalMatrix", diagonal, &[ACL_INT8])?;
        check_size("diagonalMatrix", &diagonal, &[DIAGONAL, DIAGONAL])?;
        for (name, tensor, dtype) in [
            ("deqOffset", offset, ACL_INT32),
            ("deqScale", scale, ACL_UINT64),
        ] {
            let tensor = operands.view(name, tensor, &[dtype])?;
            ensure!((1..=2).contains(&tensor.rank()) && [1, columns].contains(&tensor.count());
                "{name} has the shape {:?}; it has one value, or one for each of {columns} columns",
                tensor.shape);
        }
        Ok([true; 2])
    }

    /// Takes the tensors of many rows. Returns which are there.
    fn take_many(&self, operands: &mut Operands, x2: &Tensor) -> Outcome<[bool; 2]> {
        let mut has = [false; 2];
        for (place, tensor) in self.many.into_iter().enumerate() {
            let name = ["addOffset", "mulScale"][place];
            let Some(tensor) = operands.optional(name, tensor)? else {
                continue;
            };
            check_dtype(name, &tensor, &[ACL_FLOAT16])?;
            ensure!(broadcast(&tensor.shape, &x2.shape)? == x2.shape;
                "{name} has the shape {:?}, which is not broadcast to {:?}", tensor.shape, x2.shape);
            has[place] = true;
        }
        Ok(has)
    }
}

impl Scaled {
    fn run(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let mut operands = Present::of(operands);
        let (x1, x2) = (operands.needed(), operands.needed());
        let weights = match self.few {
            true => self.by_matrix(memory, x2, &mut operands)?,
            false => self.by_steps(memory, x2, &mut operands)?,
        };
        let bias = operands.floats(memory, self.has[2])?;
        let x = turned(x1, self.turned[0]).floats(memory)?;
        let (x, weights) = (Factor::by_rows(&x), Factor::by_rows(&weights));
        let mut y = product(x, weights, [self.rows, self.depth, self.columns]);
        let bias: Vec<f32> = bias.unwrap_or_default().into_iter().map(to_half).collect();
        add_to_rows(&mut y, &bias);
        operands.needed().store(memory, &y)
    }

    /// Returns the weights of few rows.
    fn by_matrix(
        &self,
        memory: &Memory,
        x2: &Tensor,
        operands: &mut Present<'_>,
    ) -> Outcome<Vec<f32>> {
        let diagonal = operands.needed().values::<i64>(memory)?;
        let one = |(at, value): (usize, &i64)| *value == i64::from(at / DIAGONAL == at % DIAGONAL);
        ensure!(diagonal.iter().enumerate().all(one);
            "diagonalMatrix does not have ones on its diagonal and zeros beside it");
        let offsets = operands.needed().values::<i64>(memory)?;
        let scales = operands.needed().values::<i64>(memory)?;
        let values = turned(x2, self.turned[1]).values::<i64>(memory)?;
        let of = |all: &[i64], column: usize| if all.len() == 1 { all[0] } else { all[column] };
        let value = |(place, value): (usize, &i64)| {
            let column = place % self.columns;
            let scale = f32::from_bits(of(&scales, column) as u32);
            to_half((value + of(&offsets, column)) as f32 * scale)
        };
        Ok(values.iter().enumerate().map(value).collect())
    }

    /// Returns the weights of many rows.
    fn by_steps(
        &self,
        memory: &Memory,
        x2: &Tensor,
        operands: &mut Present<'_>,
    ) -> Outcome<Vec<f32>> {
        let mut read = |present: bool| {
            let tensor = operands.next(present)?;
            let whole = turned(&tensor.expanded(&x2.shape), self.turned[1]);
            Some(whole.floats(memory))
        };
        let adds = read(self.has[0]).transpose()?;
        let scales = read(self.has[1]).transpose()?;
        let values = turned(x2, self.turned[1]).values::<f32>(memory)?;
        let value = |(place, value): (usize, f32)| {
            let mut weight = to_half((value + self.offset) * self.scale);
            if let Some(adds) = &adds {
                weight = to_half(weight + adds[place]);
            }
            scales
                .as_ref()
                .map_or(weight, |scales| to_half(weight * scales[place]))
        };
        Ok(values.into_iter().enumerate().map(value).collect())
    }
}

operator! { matmul: aclnnWeightQuantBatchMatmulGetWorkspaceSize, aclnnWeightQuantBatchMatmul(
    x1, x2, diagonal, deq_offset, deq_scale, add_offset, mul_scale, bias, transpose_x1,
    transpose_x2, scale, offset, output
) |operands|
    let call = Call {
        factors: [x1, x2],
        few: [diagonal, deq_offset, deq_scale],
        many: [add_offset, mul_scale],
        bias,
        turned: [transpose_x1, transpose_x2],
        scale,
        offset,
        output,
    };
    call.take(operands)
}
