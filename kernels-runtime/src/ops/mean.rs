use burn::tensor::Tensor;

/// The number of elements that a backend adds at once.
const LONG: usize = 16 * 1024;

/// Returns the mean over the last axis, which has one element then. A backend may add elements one by one, and in f32 a sum of
/// 2^24 ones stays there, so longer rows are added in parts.
pub(crate) fn mean<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let n = x.dims()[D - 1];
    if n <= LONG || x.shape().num_elements() == 0 {
        return x.mean_dim(D - 1);
    }
    // Not a division: the gradient of one is computed with a factor in f32.
    sum(x).mul_scalar(1.0 / n as f64)
}

fn sum<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let (mut dims, n) = (x.dims(), x.dims()[D - 1]);
    let (parts, rest) = (n / LONG, n % LONG);
    if parts == 0 {
        return x.sum_dim(D - 1);
    }
    let whole = match rest {
        0 => x.clone(),
        _ => x.clone().narrow(D - 1, 0, n - rest),
    };
    dims[D - 1] = parts;
    let count = dims.iter().product();
    let sums: Tensor<2> = whole.reshape([count, LONG]).sum_dim(1);
    let whole = sum(sums.reshape(dims));
    match rest {
        0 => whole,
        _ => whole + x.narrow(D - 1, n - rest, rest).sum_dim(D - 1),
    }
}
