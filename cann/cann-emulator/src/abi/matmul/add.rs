//! `beta · self + alpha · mat1·mat2`, of matrices and of batches of them. Each is rounded once.

use super::Product;
use super::mode::{common, rounding};
use crate::abi::prelude::*;

/// The arguments of a sum with a product.
struct Sum {
    /// The tensor that is added, and the output. NULL stands for the first.
    tensors: [*const aclTensor; 2],
    /// The factors, with their names.
    factors: [(&'static str, *const aclTensor); 2],
    beta: *const aclScalar,
    alpha: *const aclScalar,
    cube_math: i8,
    /// The number of axes of a factor.
    axes: usize,
}

impl Sum {
    fn take(&self, operands: &mut Operands) -> Outcome<Work> {
        let [added, output] = self.tensors;
        let in_place = output.is_null();
        let added = match in_place {
            true => operands.target("selfRef", added, FLOATS)?,
            false => operands.view("self", added, FLOATS)?,
        };
        let [(left_name, left), (right_name, right)] = self.factors;
        let left = operands.view(left_name, left, FLOATS)?;
        let right = operands.view(right_name, right, FLOATS)?;
        let dtype = common(&left, &right)?;
        let rounding = rounding(self.cube_math, dtype)?;
        if left.rank() != self.axes || right.rank() != self.axes {
            fail!(
                "{left_name} is {:?} and {right_name} {:?}; {} axes are taken",
                left.shape,
                right.shape,
                self.axes
            );
        }
        ensure!(left.shape[..self.axes - 2] == right.shape[..self.axes - 2];
            "{left_name} is {:?} and {right_name} {:?}; both have one batch",
            left.shape, right.shape);
        let product = Product::of(&left, &right, rounding)?;
        let shape = product.shape();
        // In place, the result has the tensor's own shape. Else it is broadcast to the product's.
        match in_place {
            true => check_size("selfRef", &added, &shape)?,
            false => ensure!(broadcast(&added.shape, &shape)? == shape;
                "self has the shape {:?}, which is not broadcast to {shape:?}", added.shape),
        }
        let gives = promoted(added.dtype, dtype)?;
        let beta: f32 = operands.scalar("beta", self.beta)?.to();
        let alpha: f32 = operands.scalar("alpha", self.alpha)?.to();
        if !in_place {
            let output = operands.target("out", output, FLOATS)?;
            check_size("out", &output, &shape)?;
        }
        Ok(Arc::new(move |memory, operands| {
            let [added, left, right, rest @ ..] = operands else {
                unreachable!("taken above")
            };
            let products = product.values(memory, left, right)?;
            let out = rest.first().unwrap_or(added);
            // A tensor that counts nothing is not read, so that its NaN stays out.
            let sums: Vec<f32> = if beta == 0.0 {
                products.iter().map(|product| alpha * product).collect()
            } else {
                let before = added.expanded(&product.shape()).floats(memory)?;
                let pairs = before.into_iter().zip(&products);
                pairs
                    .map(|(before, product)| beta * before + alpha * product)
                    .collect()
            };
            out.store_values_of(memory, &sums, gives)
        }))
    }
}

/// Defines a sum into an output and its form in place.
macro_rules! sums {
    ($($one:ident, $two:ident; $place_one:ident, $place_two:ident:
        $axes:literal, $left:literal, $right:literal;)*) => {$(
        operator! { matmul: $one, $two(
            input, left, right, beta, alpha, output, cube_math
        ) |operands|
            ensure!(!output.is_null(), ACLNN_ERR_PARAM_NULLPTR; "out is NULL");
            let factors = [($left, left), ($right, right)];
            let tensors = [input, output.cast_const()];
            Sum { tensors, factors, beta, alpha, cube_math, axes: $axes }.take(operands)
        }

        operator! { matmul: $place_one, $place_two(
            target, left, right, beta, alpha, cube_math
        ) |operands|
            let factors = [($left, left), ($right, right)];
            let tensors = [target as *const aclTensor, std::ptr::null()];
            Sum { tensors, factors, beta, alpha, cube_math, axes: $axes }.take(operands)
        }
    )*};
}

sums! {
    aclnnAddmmGetWorkspaceSize, aclnnAddmm; aclnnInplaceAddmmGetWorkspaceSize, aclnnInplaceAddmm:
        2, "mat1", "mat2";
    aclnnBaddbmmGetWorkspaceSize, aclnnBaddbmm;
        aclnnInplaceBaddbmmGetWorkspaceSize, aclnnInplaceBaddbmm:
        3, "batch1", "batch2";
}
