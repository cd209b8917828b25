use super::operands::rotary_width;
use super::{RopeTable, check, check_sections, merge};
use crate::kernel::rounded;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, TableLayout};
use burn::tensor::Tensor;

/// Computes rotary position embedding with plain tensor operations, on any backend: the definition
/// that kernels are verified against.
///
/// `q` and `k` are `[b, heads, s, d]` or `[b, s, heads, d]` as `key` states. `cos` and `sin` are
/// tables as [`RopeTable`] describes. The results have the shapes and dtype of `q` and `k`. The computation
/// uses the dtype of the tables: that of `q` and `k`, or f32 for half types, rounded once.
///
/// # Panics
/// Panics if the shapes don't fit together or don't match the key, if the rotated width is odd, or if
/// the tables have another dtype.
#[track_caller]
pub fn reference(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (cos.rows(), sin.rows());
    check(&q, &k, &cos, &sin, key);
    for table in [&cos, &sin] {
        assert!(
            [q.dtype(), compute_dtype(q.dtype())].contains(&table.dtype()),
            "RoPE: q is {:?}, but a table is {:?}; tables have the dtype of q or the one it is \
             computed in",
            q.dtype(),
            table.dtype()
        );
    }
    if q.dims()[0] == 0 {
        // Burn's gradient of a part of a tensor needs a sequence.
        return (q, k);
    }
    let rotated = rotary_width(cos.dims()[2], key.table);
    let (cos, sin) = (per_element(cos, key), per_element(sin, key));
    let rotate = |x: Tensor<4>| {
        let [.., d] = x.dims();
        if rotated == d {
            return rotate(x, &cos, &sin, key.style);
        }
        let rest = x.clone().narrow(3, rotated, d - rotated);
        let part = rotate(x.clone().narrow(3, 0, rotated), &cos, &sin, key.style);
        if x.shape().num_elements() == 0 {
            // The result of Burn's `cat` would not be tracked.
            return x + part.sum().unsqueeze();
        }
        Tensor::cat(vec![part, rest], 3)
    };
    (rotate(q), rotate(k))
}

/// Works like [`reference()`], with tables of three positions, `[3, 1 or b, s, w]`: time, height and
/// width. `sections` gives the number of pairs that take each position. The key states which pairs these are.
///
/// # Panics
/// Panics as [`reference()`] does, or if the sections don't add up to the pairs of the table.
#[track_caller]
pub fn reference_sections(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<4>,
    sin: Tensor<4>,
    sections: [usize; 3],
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    check_sections(&cos, &sin, sections, key);
    reference(
        q,
        k,
        merge(cos, sections, key),
        merge(sin, sections, key),
        key,
    )
}

/// Returns the table with one element for each result, in order, and with an axis for the heads.
fn per_element(table: Tensor<3>, key: RopeKey) -> Tensor<4> {
    let table = match (key.style, key.table) {
        (RopeStyle::Interleaved, TableLayout::Neighbours) => table,
        (RopeStyle::Interleaved, TableLayout::Pairs) => twice_in_a_row(table),
        (RopeStyle::Interleaved, TableLayout::Halves) => {
            let pairs = table.dims()[2] / 2;
            twice_in_a_row(table.narrow(2, 0, pairs))
        }
        (_, TableLayout::Pairs) => Tensor::cat(vec![table.clone(), table], 2),
        (_, _) => table,
    };
    // Burn copies an axis of length 0 from its old place, so tables without positions keep theirs at first.
    let table: Tensor<4> = table.unsqueeze_dim(2);
    match key.layout {
        HeadLayout::Bnsd => table.swap_dims(1, 2),
        HeadLayout::Bsnd => table,
    }
}

/// Repeats `[a, b, ..]` to `[a, a, b, b, ..]` on the last axis.
fn twice_in_a_row(table: Tensor<3>) -> Tensor<3> {
    let [b, s, w] = table.dims();
    let pairs: Tensor<4> = table.unsqueeze_dim(3);
    pairs.repeat_dim(3, 2).reshape([b, s, 2 * w])
}

fn rotate(x: Tensor<4>, cos: &Tensor<4>, sin: &Tensor<4>, style: RopeStyle) -> Tensor<4> {
    let dtype = x.dtype();
    let x = same_dtype_as(x, cos.dtype());
    let (x, quarter_turn) = match style {
        RopeStyle::Half => (x.clone(), turn_halves(x)),
        RopeStyle::Interleaved => (x.clone(), turn_neighbours(x)),
        RopeStyle::InterleavedToHalf => {
            let x = neighbours_to_halves(x);
            (x.clone(), turn_halves(x))
        }
    };
    let sum = rounded(x * cos.clone()) + rounded(quarter_turn * sin.clone());
    same_dtype_as(sum, dtype)
}

/// Turns `[x1, x2]` into `[−x2, x1]` on the last axis.
fn turn_halves(x: Tensor<4>) -> Tensor<4> {
    let half = x.dims()[3] / 2;
    let x1 = x.clone().narrow(3, 0, half);
    let x2 = x.narrow(3, half, half);
    Tensor::cat(vec![x2.neg(), x1], 3)
}

/// Turns each pair of neighbours `(x1, x2)` into `(−x2, x1)` on the last axis.
fn turn_neighbours(x: Tensor<4>) -> Tensor<4> {
    let shape = x.dims();
    let x = pairs(x);
    let x1 = x.clone().narrow(4, 0, 1);
    let x2 = x.narrow(4, 1, 1);
    Tensor::cat(vec![x2.neg(), x1], 4).reshape(shape)
}

/// Reorders `[a1, a2, b1, b2, ..]` to `[a1, b1, .., a2, b2, ..]` on the last axis.
fn neighbours_to_halves(x: Tensor<4>) -> Tensor<4> {
    let shape = x.dims();
    pairs(x).swap_dims(3, 4).reshape(shape)
}

/// Splits the last axis into pairs of neighbours.
fn pairs(x: Tensor<4>) -> Tensor<5> {
    let [a, b, c, d] = x.dims();
    x.reshape([a, b, c, d / 2, 2])
}
