//! Rotary position embedding of one tensor: `y = x · cos + rot(x) · sin`.
//!
//! All tensors have the shape of x here. The caller broadcasts the tables before and sums their gradients after.

/// The pairs of the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// The first half with the second: `rot(x) = (−x₂, x₁)`.
    Half,
    /// Neighbours: `rot(x) = (−x₁, x₀, −x₃, x₂, …)`.
    Interleaved,
}

impl Style {
    /// Returns the position from which `rot(x)` takes the value at `at`, and its sign.
    fn source(self, at: usize, width: usize) -> (usize, f32) {
        let half = width / 2;
        match self {
            Self::Half if at < half => (at + half, -1.0),
            Self::Half => (at - half, 1.0),
            Self::Interleaved if at.is_multiple_of(2) => (at + 1, -1.0),
            Self::Interleaved => (at - 1, 1.0),
        }
    }
}

/// Computes `rot(x)` by rows of `width`.
pub(crate) fn rotated(x: &[f32], width: usize, style: Style) -> Vec<f32> {
    let rows = x.chunks_exact(width);
    rows.flat_map(|row| {
        (0..width).map(move |at| {
            let (from, sign) = style.source(at, width);
            sign * row[from]
        })
    })
    .collect()
}

/// Computes the embedding from `x` and `rotated`, which [`rotated`] or a matrix made.
pub(crate) fn rotary(x: &[f32], rotated: &[f32], cos: &[f32], sin: &[f32]) -> Vec<f32> {
    let pairs = x.iter().zip(cos).zip(rotated.iter().zip(sin));
    pairs
        .map(|((x, cos), (rotated, sin))| x * cos + rotated * sin)
        .collect()
}

/// Returns the gradient of x: `dx = dy · cos + rotᵀ(dy · sin)`. For halves this is
/// `(cos₁·dy₁ + sin₂·dy₂, cos₂·dy₂ − sin₁·dy₁)`.
pub(crate) fn rotary_grad(
    dy: &[f32],
    cos: &[f32],
    sin: &[f32],
    width: usize,
    style: Style,
) -> Vec<f32> {
    let turned: Vec<f32> = dy.iter().zip(sin).map(|(dy, sin)| dy * sin).collect();
    // The transpose of a rotation is the rotation with the other sign.
    let back = rotated(&turned, width, style);
    dy.iter()
        .zip(cos)
        .zip(back)
        .map(|((dy, cos), back)| dy * cos - back)
        .collect()
}
