//! RMS norm: `y = x · rstd · gamma`, `rstd = 1 / sqrt(mean(x²) + epsilon)` over each row.

use super::sum;

/// Returns `y` and `rstd` of rows of `gamma.len()` values each.
pub(crate) fn rms_norm(x: &[f32], gamma: &[f32], epsilon: f32) -> (Vec<f32>, Vec<f32>) {
    let (mut y, mut rstds) = (Vec::with_capacity(x.len()), Vec::new());
    for row in x.chunks_exact(gamma.len()) {
        let rstd = rstd(row, epsilon);
        y.extend(row.iter().zip(gamma).map(|(x, gamma)| x * rstd * gamma));
        rstds.push(rstd);
    }
    (y, rstds)
}

/// Returns `y`, `rstd` and the sum `x = x1 + x2`, normalised. `round` rounds to the dtype. Before Ascend950 the sum is
/// rounded, and `x · rstd` is rounded before the weight.
pub(crate) fn add_rms_norm(
    x1: &[f32],
    x2: &[f32],
    gamma: &[f32],
    epsilon: f32,
    round: impl Fn(f32) -> f32,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = x1.iter().zip(x2).map(|(x1, x2)| round(x1 + x2)).collect();
    let (mut y, mut rstds) = (Vec::with_capacity(x.len()), Vec::new());
    for row in x.chunks_exact(gamma.len()) {
        let rstd = rstd(row, epsilon);
        y.extend(
            row.iter()
                .zip(gamma)
                .map(|(x, gamma)| round(x * rstd) * gamma),
        );
        rstds.push(rstd);
    }
    (y, rstds, x)
}

/// Returns `dx = (dy·γ − x·rstd·mean(dy·γ·x·rstd))·rstd` and `dγ = Σ dy·x·rstd` over the rows. Without rows `dγ` is
/// NaN, like the operator's.
pub(crate) fn rms_norm_grad(
    dy: &[f32],
    x: &[f32],
    rstds: &[f32],
    gamma: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let width = gamma.len();
    let mut dx = Vec::with_capacity(x.len());
    let rows = dy.chunks_exact(width).zip(x.chunks_exact(width)).zip(rstds);
    for ((dy, x), rstd) in rows.clone() {
        let scaled: Vec<f32> = dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma).collect();
        let products: Vec<f32> = scaled
            .iter()
            .zip(x)
            .map(|(dy, x)| dy * (x * rstd))
            .collect();
        let mean = sum(&products) / width as f32;
        dx.extend(
            scaled
                .iter()
                .zip(x)
                .map(|(dy, x)| (dy - x * rstd * mean) * rstd),
        );
    }
    if rstds.is_empty() {
        return (dx, vec![f32::NAN; width]);
    }
    let dgamma = (0..width).map(|column| {
        let terms: Vec<f32> = rows
            .clone()
            .map(|((dy, x), rstd)| dy[column] * (x[column] * rstd))
            .collect();
        sum(&terms)
    });
    (dx, dgamma.collect())
}

fn rstd(row: &[f32], epsilon: f32) -> f32 {
    let squares: Vec<f32> = row.iter().map(|x| x * x).collect();
    1.0 / (sum(&squares) / row.len() as f32 + epsilon).sqrt()
}
