//! RMS norm: `y = x · rstd · gamma`, `rstd = 1 / sqrt(mean(x²) + epsilon)` over each row.

use super::{sum, sum_of_rows};
use crate::threads::{self, rows_of};

/// Returns `y` and `rstd` of rows of `gamma.len()` values each.
pub(crate) fn rms_norm(x: &[f32], gamma: &[f32], epsilon: f32) -> (Vec<f32>, Vec<f32>) {
    norm_rows(x, gamma, epsilon, |value| value)
}

/// Returns `y`, `rstd` and the sum `x = x1 + x2`, normalised. `round` rounds to the dtype. Before Ascend950 the sum is
/// rounded, and `x · rstd` is rounded before the weight.
pub(crate) fn add_rms_norm(
    x1: &[f32],
    x2: &[f32],
    gamma: &[f32],
    epsilon: f32,
    round: impl Fn(f32) -> f32 + Sync,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let x = threads::zip(x1, x2, |x1, x2| round(x1 + x2));
    let (y, rstds) = norm_rows(&x, gamma, epsilon, round);
    (y, rstds, x)
}

/// Returns `y` and `rstd`. `round` rounds what is multiplied by gamma.
fn norm_rows(
    x: &[f32],
    gamma: &[f32],
    epsilon: f32,
    round: impl Fn(f32) -> f32 + Sync,
) -> (Vec<f32>, Vec<f32>) {
    let (width, count) = (gamma.len(), rows_of(gamma.len()));
    let (mut y, mut rstds) = (vec![0.0; x.len()], vec![0.0; x.len() / width]);
    let parts = y
        .chunks_mut(count * width)
        .zip(x.chunks(count * width))
        .zip(rstds.chunks_mut(count));
    threads::each(parts, 2 * x.len(), |((y, x), rstds)| {
        let rows = y.chunks_exact_mut(width).zip(x.chunks_exact(width));
        for ((y, x), rstd) in rows.zip(rstds) {
            *rstd = rstd_of(x, epsilon);
            for (y, (x, gamma)) in y.iter_mut().zip(x.iter().zip(gamma)) {
                *y = round(x * *rstd) * gamma;
            }
        }
    });
    (y, rstds)
}

/// Returns `dx = (dy·γ − x·rstd·mean(dy·γ·x·rstd))·rstd` and `dγ = Σ dy·x·rstd` over the rows. Without rows `dγ` is
/// NaN, like the operator's.
pub(crate) fn rms_norm_grad(
    dy: &[f32],
    x: &[f32],
    rstds: &[f32],
    gamma: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let (width, count) = (gamma.len(), rows_of(gamma.len()));
    let mut dx = vec![0.0; x.len()];
    let inputs = dy.chunks(count * width).zip(x.chunks(count * width));
    let parts = dx
        .chunks_mut(count * width)
        .zip(inputs.zip(rstds.chunks(count)));
    threads::each(parts, 3 * x.len(), |(dx, ((dy, x), rstds))| {
        let rows = dy.chunks_exact(width).zip(x.chunks_exact(width));
        for (dx, ((dy, x), rstd)) in dx.chunks_exact_mut(width).zip(rows.zip(rstds)) {
            let scaled: Vec<f32> = dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma).collect();
            let pairs = scaled.iter().zip(x);
            let products: Vec<f32> = pairs.clone().map(|(dy, x)| dy * (x * rstd)).collect();
            let mean = sum(&products) / width as f32;
            for (dx, (dy, x)) in dx.iter_mut().zip(pairs) {
                *dx = (dy - x * rstd * mean) * rstd;
            }
        }
    });
    if rstds.is_empty() {
        return (dx, vec![f32::NAN; width]);
    }
    let dgamma = sum_of_rows(0..rstds.len(), width, &|row, terms: &mut [f32]| {
        let (dy, x) = (&dy[row * width..], &x[row * width..]);
        for (term, (dy, x)) in terms.iter_mut().zip(dy.iter().zip(x)) {
            *term += dy * (x * rstds[row]);
        }
    });
    (dx, dgamma)
}

fn rstd_of(row: &[f32], epsilon: f32) -> f32 {
    let squares: Vec<f32> = row.iter().map(|x| x * x).collect();
    1.0 / (sum(&squares) / row.len() as f32 + epsilon).sqrt()
}
