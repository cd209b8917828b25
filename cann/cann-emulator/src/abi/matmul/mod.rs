//! Matrix products. Sums are in f32 and rounded once.

mod add;
mod mode;
mod vector;

pub use self::add::*;
pub use self::vector::*;

use std::ops::RangeInclusive;

use self::mode::{Rounding, common, rounding};
use crate::abi::prelude::*;
use crate::ops::matmul::{Factor, products};

/// The matrices that an operator takes.
struct Takes {
    left: RangeInclusive<usize>,
    right: RangeInclusive<usize>,
    /// True if the output may have another float type than the product.
    converts: bool,
    /// True if both must have one dtype.
    equal: bool,
}

/// The sizes of a product of batches of matrices.
#[derive(Clone)]
struct Product {
    batch: Vec<usize>,
    rows: usize,
    depth: usize,
    columns: usize,
    rounding: Rounding,
}

/// Returns the view as a matrix or a batch of matrices: one axis is a row on the left and a column on the right.
fn as_matrix(tensor: &Tensor, left: bool) -> Tensor {
    let mut view = tensor.clone();
    if view.rank() == 1 {
        let place = usize::from(!left);
        view.shape.insert(place, 1);
        view.strides.insert(place, 0);
    }
    view
}

/// Returns the last two axes of a matrix or of a batch of matrices.
fn matrix(tensor: &Tensor) -> (usize, usize) {
    let [.., rows, columns] = tensor.shape[..] else {
        unreachable!("has two axes, as was checked")
    };
    (rows, columns)
}

/// Returns the axes before those of the matrix.
fn batches(tensor: &Tensor) -> &[usize] {
    &tensor.shape[..tensor.rank() - 2]
}

impl Product {
    fn of(left: &Tensor, right: &Tensor, rounding: Rounding) -> Outcome<Self> {
        let ((rows, depth), (inputs, columns)) = (matrix(left), matrix(right));
        ensure!(depth == inputs; "rows of {depth} by columns of {inputs}");
        Ok(Self {
            batch: broadcast(batches(left), batches(right))?,
            rows,
            depth,
            columns,
            rounding,
        })
    }

    fn shape(&self) -> Vec<usize> {
        self.with(self.rows, self.columns)
    }

    fn with(&self, rows: usize, columns: usize) -> Vec<usize> {
        [&self.batch[..], &[rows, columns]].concat()
    }

    /// Returns the values of matrices, and `true` if they are column by column, which is the order of a transposed view.
    fn read(&self, memory: &Memory, tensor: &Tensor) -> Outcome<(Vec<f32>, bool)> {
        let by_columns = tensor.is_transposed() && !tensor.is_contiguous();
        let mut values = match by_columns {
            true => {
                let mut order: Vec<usize> = (0..tensor.rank()).collect();
                order.swap(tensor.rank() - 2, tensor.rank() - 1);
                tensor.permuted(&order).floats(memory)?
            }
            false => tensor.floats(memory)?,
        };
        if let Some(rounding) = self.rounding {
            values
                .iter_mut()
                .for_each(|value| *value = rounding(*value));
        }
        Ok((values, by_columns))
    }

    /// Returns the values of the product.
    fn values(&self, memory: &Memory, left: &Tensor, right: &Tensor) -> Outcome<Vec<f32>> {
        let &Self {
            rows,
            depth,
            columns,
            ..
        } = self;
        let batch = self.batch.iter().product::<usize>();
        if batch * rows * columns == 0 {
            return Ok(Vec::new());
        }
        let one_right = batches(right).iter().all(|count| *count == 1);
        let (left, turned) = self.read(memory, &left.expanded(&self.with(rows, depth)))?;
        let left = factor(&left, turned);
        let (right, turned_right) = match one_right {
            true => self.read(memory, right)?,
            false => self.read(memory, &right.expanded(&self.with(depth, columns)))?,
        };
        let right = factor(&right, turned_right);
        // The rows of all batches are multiplied by a single matrix.
        let (batch, rows) = match one_right && !turned {
            true => (1, batch * rows),
            false => (batch, rows),
        };
        Ok(products(batch, left, right, [rows, depth, columns]))
    }
}

fn factor(values: &[f32], by_columns: bool) -> Factor<'_> {
    match by_columns {
        true => Factor::by_columns(values),
        false => Factor::by_rows(values),
    }
}

fn take(
    operands: &mut Operands,
    [input, right]: [*const aclTensor; 2],
    output: *const aclTensor,
    cube_math: i8,
    takes: &Takes,
) -> Outcome<Work> {
    let input = operands.view("self", input, FLOATS)?;
    let own = [input.dtype];
    let dtypes = if takes.equal { &own } else { FLOATS };
    let right = operands.view("mat2", right, dtypes)?;
    let dtype = common(&input, &right)?;
    let rounding = rounding(cube_math, dtype)?;
    for (name, tensor, axes) in [
        ("self", &input, &takes.left),
        ("mat2", &right, &takes.right),
    ] {
        ensure!(axes.contains(&tensor.rank());
            "{name} has {} axes; {axes:?} are taken", tensor.rank());
    }
    let vectors = [input.rank() == 1, right.rank() == 1];
    let (input, right) = (as_matrix(&input, true), as_matrix(&right, false));
    // The mode has no effect on two vectors.
    let rounding = rounding.filter(|_| vectors != [true; 2]);
    let product = Product::of(&input, &right, rounding)?;
    let mut shape = product.batch.clone();
    shape.extend((!vectors[0]).then_some(product.rows));
    shape.extend((!vectors[1]).then_some(product.columns));
    let allowed = if takes.converts { FLOATS } else { &[dtype] };
    let output = operands.target("out", output, allowed)?;
    // The product of two vectors may have one axis, because documents name no output without axes.
    if !(shape.is_empty() && output.shape == [1]) {
        check_size("out", &output, &shape)?;
    }
    Ok(Arc::new(move |memory, operands| {
        let [input, right, out] = taken(operands);
        let (left, right) = (as_matrix(input, true), as_matrix(right, false));
        let values = product.values(memory, &left, &right)?;
        out.store_values_of(memory, &values, dtype)
    }))
}

/// Defines operators with the tensors that they take.
macro_rules! products {
    ($($one:ident, $two:ident: $axes:expr, $converts:literal;)*) => {$(
        operator! { matmul: $one, $two(input, right, output, cube_math) |operands|
            let takes = Takes { left: $axes, right: $axes, converts: $converts, equal: false };
            take(operands, [input, right], output, cube_math, &takes)
        }
    )*};
}

products! {
    aclnnMatmulGetWorkspaceSize, aclnnMatmul: 1..=6, true;
    aclnnMmGetWorkspaceSize, aclnnMm: 2..=2, false;
    aclnnBatchMatMulGetWorkspaceSize, aclnnBatchMatMul: 3..=3, false;
}
