use super::{Inputs, Settings};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::LinearDivergenceKey;
use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;

/// Computes the sum of the divergences with plain tensor operations, on any backend: the definition that kernels are verified
/// against.
///
/// It holds the logits of all tokens. Half types are computed in f32, and the result is in f32.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference(inputs: Inputs, settings: Settings, key: LinearDivergenceKey) -> Tensor<1> {
    let [one, two] = inputs.checked(settings, key).sizes().classes;
    let classes = one.min(two);
    let compute = compute_dtype(inputs.hidden.dtype());
    let log_probs = |hidden: Tensor<2>,
                     weight: Tensor<2>,
                     bias: Option<Tensor<1>>,
                     cap: Option<f64>| {
        let weight = same_dtype_as(weight.narrow(1, 0, classes), compute);
        let logits = same_dtype_as(hidden, compute).matmul(weight);
        let logits = match bias {
            Some(bias) => logits + same_dtype_as(bias.narrow(0, 0, classes), compute).unsqueeze(),
            None => logits,
        };
        // Burn rounds the gradient of a division by a number to f32.
        let logits = match cap {
            Some(cap) => logits.mul_scalar(1.0 / cap).tanh().mul_scalar(cap),
            None => logits,
        };
        log_softmax(logits.mul_scalar(1.0 / settings.temperature), 1)
    };
    let student = log_probs(inputs.hidden, inputs.weight, inputs.bias, settings.cap);
    let teacher = log_probs(
        inputs.teacher_hidden,
        inputs.teacher_weight,
        inputs.teacher_bias,
        settings.teacher_cap,
    );
    let each = divergences(student, teacher.detach(), settings.mixture);
    (same_dtype_as(inputs.factors, compute) * each).sum()
}

/// Returns the divergence of each token, given the logarithms of the probabilities of a student and of a teacher.
fn divergences(student: Tensor<2>, teacher: Tensor<2>, mixture: f64) -> Tensor<1> {
    let kl = |of: &Tensor<2>, from: &Tensor<2>| {
        let terms = of.clone().exp() * (of.clone() - from.clone());
        terms.sum_dim(1).squeeze_dim::<1>(1)
    };
    match mixture {
        0.0 => kl(&teacher, &student),
        1.0 => kl(&student, &teacher),
        b => {
            let x = student.clone().add_scalar((1.0 - b).ln());
            let y = teacher.clone().add_scalar(b.ln());
            let mixed = log_of_sum(x, y);
            kl(&teacher, &mixed).mul_scalar(b) + kl(&student, &mixed).mul_scalar(1.0 - b)
        }
    }
}

/// Returns `ln(eˣ + eʸ)`, whose gradients are one half each where both are equal.
fn log_of_sum(x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
    let far = y - x.clone();
    let below = far.clone().lower_elem(0.0);
    let size = far.clone().mask_where(below.clone(), far.clone().neg());
    x + far.mask_fill(below, 0.0) + size.neg().exp().log1p()
}
