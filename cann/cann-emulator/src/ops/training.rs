//! AdamW's step, layer norm, and the negative log likelihood.

use super::sum;

/// AdamW's parameters, as the operator takes them.
#[derive(Clone, Copy)]
pub(crate) struct AdamW {
    pub(crate) learning_rate: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) weight_decay: f32,
    pub(crate) epsilon: f32,
    /// True if the step follows the gradient upwards.
    pub(crate) maximise: bool,
}

/// A parameter's value and moments.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) weight: f32,
    pub(crate) first: f32,
    pub(crate) second: f32,
    /// The largest second moment so far, if it is used.
    pub(crate) largest: Option<f32>,
}

impl AdamW {
    /// Returns the parts of the moments that have been seen after `steps` steps and one more.
    pub(crate) fn seen(self, steps: f32) -> [f32; 2] {
        let time = steps + 1.0;
        [self.beta1, self.beta2].map(|beta| 1.0 - beta.powf(time))
    }

    /// Returns a step: decay by `1 − η·λ`, then `η · m̂ / (√v̂ + ε)`. `seen` is the same for all elements.
    pub(crate) fn step(self, seen: [f32; 2], from: Moments, gradient: f32) -> Moments {
        let gradient = if self.maximise { -gradient } else { gradient };
        let first = self.beta1 * from.first + (1.0 - self.beta1) * gradient;
        let second = self.beta2 * from.second + (1.0 - self.beta2) * gradient * gradient;
        let largest = from.largest.map(|largest| largest.max(second));
        let first_hat = first / seen[0];
        let second_hat = largest.unwrap_or(second) / seen[1];
        let decayed = from.weight - self.learning_rate * self.weight_decay * from.weight;
        let step = self.learning_rate * first_hat / (second_hat.sqrt() + self.epsilon);
        Moments {
            weight: decayed - step,
            first,
            second,
            largest,
        }
    }
}

/// Returns `y`, the mean and `1 / √(variance + ε)` of rows of `width`.
pub(crate) fn layer_norm(
    x: &[f32],
    width: usize,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    epsilon: f32,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let (mut y, mut means, mut rstds) = (Vec::with_capacity(x.len()), Vec::new(), Vec::new());
    for row in x.chunks_exact(width) {
        let mean = sum(row) / width as f32;
        let squares: Vec<f32> = row.iter().map(|x| (x - mean) * (x - mean)).collect();
        let rstd = 1.0 / (sum(&squares) / width as f32 + epsilon).sqrt();
        y.extend(row.iter().enumerate().map(|(at, x)| {
            let scaled = (x - mean) * rstd * weight.map_or(1.0, |weight| weight[at]);
            scaled + bias.map_or(0.0, |bias| bias[at])
        }));
        means.push(mean);
        rstds.push(rstd);
    }
    (y, means, rstds)
}

/// Returns the gradients of [`layer_norm`] for input, weight and bias.
pub(crate) fn layer_norm_grad(
    dy: &[f32],
    x: &[f32],
    width: usize,
    weight: Option<&[f32]>,
    means: &[f32],
    rstds: &[f32],
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let mut dx = Vec::with_capacity(x.len());
    let normal = |row: usize, at: usize| (x[row * width + at] - means[row]) * rstds[row];
    for row in 0..rstds.len() {
        let scaled: Vec<f32> = (0..width)
            .map(|at| dy[row * width + at] * weight.map_or(1.0, |weight| weight[at]))
            .collect();
        let products: Vec<f32> = (0..width).map(|at| scaled[at] * normal(row, at)).collect();
        let (mean, along) = (sum(&scaled) / width as f32, sum(&products) / width as f32);
        dx.extend((0..width).map(|at| (scaled[at] - mean - normal(row, at) * along) * rstds[row]));
    }
    let column = |value: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        let of = |at: usize| {
            (0..rstds.len())
                .map(|row| value(row, at))
                .collect::<Vec<_>>()
        };
        (0..width).map(|at| sum(&of(at))).collect()
    };
    let dweight = column(&|row, at| dy[row * width + at] * normal(row, at));
    (dx, dweight, column(&|row, at| dy[row * width + at]))
}
