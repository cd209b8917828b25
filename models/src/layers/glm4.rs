//! GLM-4's own layers. Its norm is Llama's, and its MLP is Phi-3's.

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::layers::phi3;

pub use crate::layers::arrangements::Glm4Layer;

/// Rotates the first elements of the heads of queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position, as many as
/// the tables are wide. Element `2i` of a head pairs with element `2i + 1`. `cos` and `sin` are `[b or 1, s, w]`, with
/// the angle of each pair in both halves.
#[fused_kernel("npu_fused_rope", style = interleaved, width = partial, layer = "rotary_pos_emb")]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (of_neighbours(cos), of_neighbours(sin));
    let rotate = |x: Tensor<4>| {
        phi3::rotate_part(x, &cos, &sin, |part| {
            let shape @ [batch, heads, seq, width] = part.dims();
            let pairs: Tensor<5> = part.reshape([batch, heads, seq, width / 2, 2]);
            let [first, second] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1));
            Tensor::cat(vec![second.neg(), first], 4).reshape(shape)
        })
    };
    (rotate(q), rotate(k))
}

/// Turns a table with the angles `[a, b, .., a, b, ..]` into one with `[a, a, b, b, ..]`, and adds an axis for the heads.
fn of_neighbours(table: Tensor<3>) -> Tensor<4> {
    let [batch, seq, width] = table.dims();
    let pairs: Tensor<4> = table.narrow(2, 0, width / 2).unsqueeze_dim(3);
    let both: Tensor<3> = pairs.repeat_dim(3, 2).reshape([batch, seq, width]);
    both.unsqueeze_dim(1)
}
