//! SwiGLU: `silu(a) · b` for the halves of an axis.

/// Returns `outer` blocks of two halves of `inner` values each: the gate, then the gated values.
fn halves(x: &[f32], inner: usize) -> impl Iterator<Item = (&[f32], &[f32])> {
    x.chunks_exact(2 * inner)
        .map(move |block| block.split_at(inner))
}

/// Computes SwiGLU. For f32 the operator computes `σ(a)·a·b`, for half types `a / (1 + exp(−a)) · b`.
pub(crate) fn swiglu(x: &[f32], inner: usize, single: bool) -> Vec<f32> {
    let unit = |(a, b): (&f32, &f32)| {
        let one_and_exp = 1.0 + (-a).exp();
        if single {
            1.0 / one_and_exp * a * b
        } else {
            a / one_and_exp * b
        }
    };
    halves(x, inner)
        .flat_map(|(a, b)| a.iter().zip(b).map(unit))
        .collect()
}

/// Computes the gradient: `dA = dy·(σ(A) + σ(A)(1 − σ(A))·A)·B`, then `dB = dy·σ(A)·A`.
pub(crate) fn swiglu_grad(dy: &[f32], x: &[f32], inner: usize) -> Vec<f32> {
    let mut dx = Vec::with_capacity(x.len());
    for (dy, (a, b)) in dy.chunks_exact(inner).zip(halves(x, inner)) {
        dx.extend(dy.iter().zip(a.iter().zip(b)).map(|(dy, (a, b))| {
            let sigmoid = 1.0 / (1.0 + (-a).exp());
            dy * (sigmoid + sigmoid * (1.0 - sigmoid) * a) * b
        }));
        dx.extend(
            dy.iter()
                .zip(a)
                .map(|(dy, a)| dy * (a / (1.0 + (-a).exp()))),
        );
    }
    dx
}
