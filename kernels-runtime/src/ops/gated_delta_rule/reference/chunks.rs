//! The rule in chunks of tokens (arXiv:2406.06484, arXiv:2412.06464), for decays of heads.
//!
//! With `G_i` the sum of `g` up to token `i` of a chunk, `D_ij = e^(G_i − G_j)` for `i ≥ j`, scaled queries and the
//! state `S` before the chunk:
//!
//! * `A = strict_lower(β_i (k_i·k_j) D_ij)`, `T = (I + A)⁻¹`, `P = lower((q_i·k_j) D_ij)`;
//! * `R = T (β v) − T (β e^G k) S`;
//! * `Y = (e^G q) S + P R`, and `S ← e^(G_C) S + (e^(G_C − G) k)ᵀ R`.
//!
//! The exponents of `D` are sums of the `g` between two tokens and not differences of larger sums, so that a decay of
//! zero, whose logarithm is `-∞`, and decays near one keep their digits. Tokens that fill the last chunk are zeros.

use crate::kernel::rounded;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// The number of tokens of a chunk.
const CHUNK: usize = 64;

/// Computes the rule. The tensors are `[batch, tokens, heads, ..]`, the state `[batch, heads, key width, value width]`.
pub(super) fn run(all: [Tensor<4>; 5], state: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let [batch, heads, key_width, value_width] = state.dims();
    let tokens = all[0].dims()[1];
    let len = tokens.next_power_of_two().min(CHUNK);
    let count = tokens.div_ceil(len);
    let device = state.device();
    let [q, k, v, g, beta] = all.map(|tensor| in_chunks(tensor, count, len));
    let triangle = Triangle::new(len, &device);
    let decays = Decays::new(g, &triangle);
    let scores = k.clone().matmul(k.clone().swap_dims(1, 2)) * decays.between.clone();
    let inverse = rounded(triangle.inverse(rounded(scores) * beta.clone()));
    let parts = Parts {
        u: rounded(inverse.clone().matmul(beta.clone() * v)),
        w: rounded(inverse.matmul(beta * decays.from_start.clone() * k.clone())),
        p: rounded(q.clone().matmul(k.clone().swap_dims(1, 2)) * decays.between.clone()),
        q: q * decays.from_start.clone(),
        k: k * decays.to_end.clone(),
        whole: decays.from_start.narrow(1, len - 1, 1),
    };
    let mut state = state.reshape([batch * heads, key_width, value_width]);
    let mut results = Vec::with_capacity(count);
    for chunk in 0..count {
        let [u, w, p, q, k, whole] = parts.of(chunk, count);
        let r = rounded(u - rounded(w.matmul(state.clone())));
        results.push(rounded(q.matmul(state.clone())) + p.matmul(r.clone()));
        state = state * whole + rounded(k.swap_dims(1, 2).matmul(r));
    }
    let y = Tensor::cat(results, 1).narrow(1, 0, tokens);
    let y = y.reshape([batch, heads, tokens, value_width]);
    let state = state.reshape([batch, heads, key_width, value_width]);
    (y.swap_dims(1, 2), state)
}

/// Returns the rows of each chunk, `[batch · heads · count, len, width]`.
fn in_chunks(tensor: Tensor<4>, count: usize, len: usize) -> Tensor<3> {
    let [batch, tokens, heads, width] = tensor.dims();
    let missing = count * len - tokens;
    let tensor = match missing {
        0 => tensor,
        _ => {
            let zeros = Tensor::zeros(
                [batch, missing, heads, width],
                (&tensor.device(), tensor.dtype()),
            );
            Tensor::cat(vec![tensor, zeros], 1)
        }
    };
    tensor
        .swap_dims(1, 2)
        .reshape([batch * heads * count, len, width])
}

/// The parts of all chunks.
struct Parts {
    /// `T (β v)`.
    u: Tensor<3>,
    /// `T (β e^G k)`.
    w: Tensor<3>,
    p: Tensor<3>,
    /// `e^G q`.
    q: Tensor<3>,
    /// `e^(G_C − G) k`.
    k: Tensor<3>,
    /// `e^(G_C)`.
    whole: Tensor<3>,
}

impl Parts {
    /// Returns the parts of one of `count` chunks, `[batch · heads, ..]`.
    fn of(&self, chunk: usize, count: usize) -> [Tensor<3>; 6] {
        let Self {
            u,
            w,
            p,
            q,
            k,
            whole,
        } = self;
        [u, w, p, q, k, whole].map(|part| {
            let [all, rows, width] = part.dims();
            let chunks = part.clone().reshape([all / count, count, rows, width]);
            let one = chunks.narrow(1, chunk, 1);
            one.reshape([all / count, rows, width])
        })
    }
}

/// The decays of chunks.
struct Decays {
    /// `D`, with zeros above the diagonal.
    between: Tensor<3>,
    /// `e^G`.
    from_start: Tensor<3>,
    /// `e^(G_C − G)`.
    to_end: Tensor<3>,
}

impl Decays {
    /// Computes them from `g`, `[.., len, 1]`.
    fn new(g: Tensor<3>, triangle: &Triangle) -> Self {
        let [all, len, _] = g.dims();
        // The logarithm at (i, j) is the sum of those behind j, up to i.
        let below = g.clone().expand([all, len, len]);
        let below = below.mask_fill(triangle.of(all, |i, j| i <= j), 0.0);
        let between = below.cumsum(1).exp();
        let between = rounded(between).mask_fill(triangle.of(all, |i, j| i < j), 0.0);
        Self {
            to_end: between.clone().narrow(1, len - 1, 1).swap_dims(1, 2),
            from_start: rounded(g.cumsum(1).exp()),
            between,
        }
    }
}

/// Masks of square matrices.
struct Triangle {
    len: usize,
    device: Device,
}

impl Triangle {
    fn new(len: usize, device: &Device) -> Self {
        let device = device.clone();
        Self { len, device }
    }

    /// Returns the mask of the elements in a row and a column, of `all` matrices.
    fn of(&self, all: usize, is_in: impl Fn(usize, usize) -> bool) -> Tensor<3, Bool> {
        let len = self.len;
        let elements = (0..len * len).map(|at| is_in(at / len, at % len));
        let data = TensorData::new(elements.collect::<Vec<bool>>(), [1, len, len]);
        Tensor::<3, Bool>::from_data(data, &self.device).expand([all, len, len])
    }

    /// Returns `(I + A)⁻¹`, where `A` is the part of a matrix below the diagonal.
    ///
    /// The inverse of a matrix of blocks, `[[X, 0], [B, Z]]`, is `[[X⁻¹, 0], [−Z⁻¹ B X⁻¹, Z⁻¹]]`. So the inverses of
    /// the blocks on the diagonal give those of twice the size, beginning with blocks of one element.
    fn inverse(&self, matrix: Tensor<3>) -> Tensor<3> {
        let [all, len, _] = matrix.dims();
        let mut inverse = Tensor::<2>::eye(len, &matrix.device())
            .cast(burn::tensor::FloatDType::from(matrix.dtype()))
            .unsqueeze::<3>()
            .expand([all, len, len]);
        let mut size = 1;
        while size < len {
            let is_other = |i: usize, j: usize| {
                let (row, column) = (i / size, j / size);
                row % 2 == 0 || column + 1 != row
            };
            let below = matrix.clone().mask_fill(self.of(all, is_other), 0.0);
            let product = inverse.clone().matmul(below).matmul(inverse.clone());
            inverse = inverse - product;
            size *= 2;
        }
        inverse
    }
}
