//! RMS norm, Gemma's variant, the gradient, and the norm of a sum.

use crate::abi::prelude::*;
use crate::ops::norm;
use crate::tensor::rounded;

/// The division of x and gamma into rows.
struct Rows {
    /// The shape of rstd: that of x, with length 1 for the normalised axes.
    rstd: Vec<usize>,
    /// The number of axes that are not normalised.
    kept: usize,
}

/// Returns the division. `misfit` is the status for a gamma that does not fit.
fn rows(x: &Tensor, gamma: &Tensor, misfit: aclnnStatus) -> Outcome<Rows> {
    ensure!((1..=8).contains(&x.rank()); "x has {} axes; it takes 1 to 8", x.rank());
    let fits =
        (1..=x.rank()).contains(&gamma.rank()) && x.shape[x.rank() - gamma.rank()..] == gamma.shape;
    ensure!(fits, misfit;
        "the shape of gamma, {:?}, is not the end of x's, {:?}", gamma.shape, x.shape);
    let kept = x.rank() - gamma.rank();
    let mut rstd = x.shape.clone();
    rstd[kept..].fill(1);
    Ok(Rows { rstd, kept })
}

/// Checks that gamma has elements. Only Gemma's norm takes a gamma without elements.
fn check_not_empty(gamma: &Tensor) -> Outcome<()> {
    ensure!(gamma.count() > 0; "gamma is empty");
    Ok(())
}

/// Checks the dtypes: gamma has that of x, or is f32 while x is a half type.
fn check_dtypes(x: &Tensor, gamma: &Tensor) -> Outcome<()> {
    check_dtype("x", x, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    check_dtype("gamma", gamma, &[x.dtype, ACL_FLOAT])
}

operator! { norm: aclnnRmsNormGetWorkspaceSize, aclnnRmsNorm(x, gamma, epsilon, y, rstd) |operands|
    let (x, gamma) = (operands.input("x", x)?, operands.input("gamma", gamma)?);
    let (y, rstd) = (operands.output("y", y)?, operands.output("rstd", rstd)?);
    check_dtypes(&x, &gamma)?;
    check_dtype("y", &y, &[x.dtype])?;
    check_dtype("rstd", &rstd, &[ACL_FLOAT])?;
    check_not_empty(&gamma)?;
    let rows = rows(&x, &gamma, ACLNN_ERR_INNER_TILING_ERROR)?;
    check_shape("y", &y, &x.shape)?;
    check_shape("rstd", &rstd, &rows.rstd)?;
    Ok(Arc::new(move |memory, operands| {
        let [x, gamma, y, rstd] = taken(operands);
        let values = norm::rms_norm(&x.floats(memory)?, &gamma.floats(memory)?, epsilon as f32);
        y.store(memory, &values.0)?;
        rstd.store(memory, &values.1)
    }))
}

// All have one dtype but rstd. The weight of a row is 1 + gamma, in f32.
operator! { norm: aclnnGemmaRmsNormGetWorkspaceSize, aclnnGemmaRmsNorm(
    x, gamma, epsilon, y, rstd
) |operands|
    let (x, gamma) = (operands.input("x", x)?, operands.input("gamma", gamma)?);
    let (y, rstd) = (operands.output("y", y)?, operands.output("rstd", rstd)?);
    check_dtype("x", &x, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    check_dtype("gamma", &gamma, &[x.dtype])?;
    check_dtype("y", &y, &[x.dtype])?;
    check_dtype("rstd", &rstd, &[ACL_FLOAT])?;
    let rows = rows(&x, &gamma, ACLNN_ERR_INNER_TILING_ERROR)?;
    check_shape("y", &y, &x.shape)?;
    check_shape("rstd", &rstd, &rows.rstd)?;
    Ok(Arc::new(move |memory, operands| {
        let [x, gamma, y, rstd] = taken(operands);
        if x.count() == 0 {
            return Ok(());
        }
        let gamma: Vec<f32> = gamma.floats(memory)?.iter().map(|g| 1.0 + g).collect();
        let values = norm::rms_norm(&x.floats(memory)?, &gamma, epsilon as f32);
        y.store(memory, &values.0)?;
        rstd.store(memory, &values.1)
    }))
}

operator! { norm: aclnnRmsNormGradGetWorkspaceSize, aclnnRmsNormGrad(
    dy, x, rstd, gamma, dx, dgamma
) |operands|
    let (dy, x) = (operands.input("dy", dy)?, operands.input("x", x)?);
    let rstd = operands.input("rstd", rstd)?;
    let gamma = operands.input("gamma", gamma)?;
    let dx = operands.output("dx", dx)?;
    let dgamma = operands.output("dgamma", dgamma)?;
    check_dtypes(&x, &gamma)?;
    check_dtype("dy", &dy, &[x.dtype])?;
    check_dtype("dx", &dx, &[x.dtype])?;
    check_dtype("rstd", &rstd, &[ACL_FLOAT])?;
    check_dtype("dgamma", &dgamma, &[ACL_FLOAT])?;
    ensure!(x.rank() >= 2; "x has {} axes; it takes 2 to 8", x.rank());
    check_not_empty(&gamma)?;
    let rows = rows(&x, &gamma, ACLNN_ERR_INNER_TILING_ERROR)?;
    check_shape("dy", &dy, &x.shape)?;
    check_shape("dx", &dx, &x.shape)?;
    check_shape("dgamma", &dgamma, &gamma.shape)?;
    // rstd may have the shape that the forward operator returns, the same without its axes of length 1, or a flat
    // one: the published example with [2, 1, 16] passes [2].
    let count: usize = x.shape[..rows.kept].iter().product();
    ensure!(rstd.count() == count, ACLNN_ERR_INNER_TILING_ERROR;
        "rstd has the shape {:?}; one value is needed for each of {count} rows", rstd.shape);
    Ok(Arc::new(|memory, operands| {
        let [dy, x, rstd, gamma, dx, dgamma] = taken(operands);
        let values = norm::rms_norm_grad(
            &dy.floats(memory)?,
            &x.floats(memory)?,
            &rstd.floats(memory)?,
            &gamma.floats(memory)?,
        );
        dx.store(memory, &values.0)?;
        dgamma.store(memory, &values.1)
    }))
}

operator! { norm: aclnnAddRmsNormGetWorkspaceSize, aclnnAddRmsNorm(
    x1, x2, gamma, epsilon, y, rstd, x
) |operands|
    let (x1, x2) = (operands.input("x1", x1)?, operands.input("x2", x2)?);
    let gamma = operands.input("gamma", gamma)?;
    ensure!(!rstd.is_null() && !x.is_null(), ACLNN_ERR_PARAM_NULLPTR;
        "rstd or x is NULL; what some versions compute without them is not emulated: give both, \
         rstd as f32 of x's shape with the normalised axes of length one");
    let (y, rstd) = (operands.output("y", y)?, operands.output("rstd", rstd)?);
    let x = operands.output("x", x)?;
    check_dtype("x1", &x1, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    for (name, tensor) in [("x2", &x2), ("gamma", &gamma), ("y", &y), ("x", &x)] {
        check_dtype(name, tensor, &[x1.dtype])?;
    }
    check_dtype("rstd", &rstd, &[ACL_FLOAT])?;
    check_not_empty(&gamma)?;
    let rows = rows(&x1, &gamma, ACLNN_ERR_PARAM_INVALID)?;
    for (name, tensor) in [("x2", &x2), ("y", &y), ("x", &x)] {
        check_size(name, tensor, &x1.shape)?;
    }
    check_size("rstd", &rstd, &rows.rstd)?;
    let add = add_and_norm(epsilon)?;
    Ok(Arc::new(move |memory, operands| {
        let [x1, x2, gamma, y, rstd, x] = taken(operands);
        let (ys, rstds, xs) = add(memory, [x1, x2, gamma])?;
        y.store(memory, &ys)?;
        rstd.store(memory, &rstds)?;
        x.store(memory, &xs)
    }))
}

/// The norm of a sum, its rstd, and the sum.
type Normed = (Vec<f32>, Vec<f32>, Vec<f32>);

/// Returns a function of x1, x2 and gamma that computes the norm of the sum. Chips before 950 round the sum in between.
fn add_and_norm(epsilon: f64) -> Outcome<impl Fn(&Memory, [&Tensor; 3]) -> Outcome<Normed>> {
    let in_between = !state::config()?.soc.starts_with("Ascend950");
    Ok(move |memory: &Memory, [x1, x2, gamma]: [&Tensor; 3]| {
        Ok(norm::add_rms_norm(
            &x1.floats(memory)?,
            &x2.floats(memory)?,
            &gamma.floats(memory)?,
            epsilon as f32,
            |value| {
                if in_between {
                    rounded(x1.dtype, value)
                } else {
                    value
                }
            },
        ))
    })
}

// x1 becomes the norm, and x2 the sum.
operator! { norm: aclnnInplaceAddRmsNormGetWorkspaceSize, aclnnInplaceAddRmsNorm(
    x1, x2, gamma, epsilon, rstd
) |operands|
    let (x1, x2) = (operands.output("x1Ref", x1)?, operands.output("x2Ref", x2)?);
    let gamma = operands.input("gamma", gamma)?;
    let rstd = operands.output("rstdOut", rstd)?;
    check_dtype("x1Ref", &x1, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    check_dtype("x2Ref", &x2, &[x1.dtype])?;
    check_dtype("gamma", &gamma, &[x1.dtype])?;
    check_dtype("rstdOut", &rstd, &[ACL_FLOAT])?;
    ensure!(x1.count() > 0; "x1Ref has no elements");
    check_not_empty(&gamma)?;
    let rows = rows(&x1, &gamma, ACLNN_ERR_PARAM_INVALID)?;
    check_size("x2Ref", &x2, &x1.shape)?;
    check_size("rstdOut", &rstd, &rows.rstd)?;
    for (name, tensor) in [("x1Ref", &x1), ("x2Ref", &x2), ("gamma", &gamma), ("rstdOut", &rstd)] {
        check_contiguous(name, tensor)?;
    }
    let add = add_and_norm(epsilon)?;
    Ok(Arc::new(move |memory, operands| {
        let [x1, x2, gamma, rstd] = taken(operands);
        let (ys, rstds, xs) = add(memory, [x1, x2, gamma])?;
        x1.store(memory, &ys)?;
        x2.store(memory, &xs)?;
        rstd.store(memory, &rstds)
    }))
}
