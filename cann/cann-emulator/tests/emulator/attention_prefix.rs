//! Tests of flash attention with a prefix: the modes that read it against f64, and those that do not.

use crate::common::*;
use cann_emulator::abi::attention::*;

/// Batch, heads, queries, keys and width.
const SIZES: [usize; 5] = [2, 2, 3, 5, 4];

struct Tensors {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dy: Tensor,
    most: Tensor,
    total: Tensor,
    y: Tensor,
}

/// Makes the tensors of the layout BNSD.
fn tensors() -> Tensors {
    let [batch, heads, queries, keys, width] = SIZES;
    let made = |tokens: usize, seed| {
        let count = batch * heads * tokens * width;
        Tensor::floats(F32, &[batch, heads, tokens, width], &noise(count, seed))
    };
    let rows = || Tensor::empty(F32, &[batch, heads, queries, 8]);
    Tensors {
        q: made(queries, 1),
        k: made(keys, 2),
        v: made(keys, 3),
        dy: made(queries, 4),
        most: rows(),
        total: rows(),
        y: Tensor::empty(F32, &[batch, heads, queries, width]),
    }
}

/// Calls the first version.
fn forward(t: &Tensors, mask: &Tensor, prefix: &Ints, mode: i64) -> Status {
    call!(
        aclnnFlashAttentionScore: t.q, t.k, t.v, null(), null(), null(), mask, prefix, 0.5, 1.0,
        1 << 30, 1 << 30, SIZES[1] as i64, c"BNSD".as_ptr().cast_mut(), 0, mode, t.most, t.total,
        null(), t.y
    )
}

/// Calls the gradient of the first version. Returns the gradients of q, k and v.
fn backward(
    t: &Tensors,
    mask: &Tensor,
    prefix: &Ints,
    mode: i64,
) -> Result<[Tensor; 3], (i32, String)> {
    let [batch, heads, queries, keys, width] = SIZES;
    let made = |tokens| Tensor::empty(F32, &[batch, heads, tokens, width]);
    let [dq, dk, dv] = [made(queries), made(keys), made(keys)];
    call!(
        aclnnFlashAttentionScoreGrad: t.q, t.k, t.v, t.dy, null(), null(), null(), mask, t.most,
        t.total, null(), t.y, prefix, 0.5, 1.0, 1 << 30, 1 << 30, SIZES[1] as i64,
        c"BNSD".as_ptr().cast_mut(), 0, mode, dq, dk, dv, null()
    )
    .map(|()| [dq, dk, dv])
}

/// Returns whether a query of a batch sees a key.
fn sees(prefix: [usize; 2], batch: usize, query: usize, key: usize) -> bool {
    let [_, _, queries, keys, _] = SIZES;
    key < prefix[batch] || key + queries <= query + keys
}

/// The exact result and gradients of q, k and v.
fn reference(t: &Tensors, prefix: [usize; 2]) -> [Vec<f64>; 4] {
    let [batch, heads, queries, keys, width] = SIZES;
    let (q, k, v, dy) = (exact(&t.q), exact(&t.k), exact(&t.v), exact(&t.dy));
    let mut y = vec![0.0; q.len()];
    let [mut dq, mut dk, mut dv] = [vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]];
    for head in 0..batch * heads {
        for query in 0..queries {
            let row = (head * queries + query) * width;
            let column = |key: usize| (head * keys + key) * width;
            let inner = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let seen: Vec<usize> = (0..keys)
                .filter(|key| sees(prefix, head / heads, query, *key))
                .collect();
            let power =
                |key: usize| (0.5 * inner(&q[row..][..width], &k[column(key)..][..width])).exp();
            let total: f64 = seen.iter().map(|key| power(*key)).sum();
            let share = |key: usize| power(key) / total;
            for key in &seen {
                for at in 0..width {
                    y[row + at] += share(*key) * v[column(*key) + at];
                    dv[column(*key) + at] += share(*key) * dy[row + at];
                }
            }
            let along = inner(&dy[row..][..width], &y[row..][..width]);
            for key in &seen {
                let d = inner(&dy[row..][..width], &v[column(*key)..][..width]) - along;
                let d = 0.5 * share(*key) * d;
                for at in 0..width {
                    dq[row + at] += d * k[column(*key) + at];
                    dk[column(*key) + at] += d * q[row + at];
                }
            }
        }
    }
    [y, dq, dk, dv]
}

/// The mask of mode 5.
fn whole_mask(prefix: [usize; 2]) -> Tensor {
    let [batch, _, queries, keys, _] = SIZES;
    let bits: Vec<i64> = (0..batch * queries * keys)
        .map(|at| {
            let (row, key) = (at / keys, at % keys);
            i64::from(!sees(prefix, row / queries, row % queries, key))
        })
        .collect();
    Tensor::integers(ACL_BOOL, &[batch, 1, queries, keys], &bits)
}

/// The mask of mode 6.
fn compressed_mask() -> Tensor {
    let bits: Vec<i64> = (0..3072 * 2048)
        .map(|at| {
            let (row, column) = (at / 2048, at % 2048);
            i64::from(if row < 2048 {
                column > row
            } else {
                column >= 1024
            })
        })
        .collect();
    Tensor::integers(ACL_UINT8, &[3072, 2048], &bits)
}

#[test]
fn queries_see_the_prefix_and_what_is_causal() {
    let _session = Session::start();
    let t = tensors();
    let prefix = [2, 4];
    let lengths = Ints::new(&[2, 4]);
    let expected = reference(&t, prefix);
    let none = Ints::none();
    for (mask, prefix, mode) in [
        (whole_mask(prefix), &lengths, 5),
        (whole_mask(prefix), &none, 5),
        (compressed_mask(), &lengths, 6),
    ] {
        forward(&t, &mask, prefix, mode).expect("documented");
        t.y.assert_close("y", &expected[0], 1e-6);
        let gradients = backward(&t, &mask, prefix, mode).expect("documented");
        for (name, found, exact) in [
            ("dq", &gradients[0], &expected[1]),
            ("dk", &gradients[1], &expected[2]),
            ("dv", &gradients[2], &expected[3]),
        ] {
            found.assert_close(name, exact, 1e-6);
        }
    }
}

/// Moves the tokens of the layout BNSD in front of the heads, as TND has them.
fn tokens_first(tensor: &Tensor, tokens: usize) -> Tensor {
    let [batch, heads, .., width] = SIZES;
    let values = tensor.read();
    let turned: Vec<f32> = (0..values.len())
        .map(|at| {
            let (token, head, column) = (at / width / heads, at / width % heads, at % width);
            let head = token / tokens * heads + head;
            values[(head * tokens + token % tokens) * width + column]
        })
        .collect();
    Tensor::floats(F32, &[batch * tokens, heads, width], &turned)
}

#[test]
fn sequences_of_several_lengths_have_their_own_prefixes() {
    let _session = Session::start();
    let t = tensors();
    let [batch, heads, queries, keys, width] = SIZES;
    let q = tokens_first(&t.q, queries);
    let k = tokens_first(&t.k, keys);
    let v = tokens_first(&t.v, keys);
    let rows = || Tensor::empty(F32, &[batch * queries, heads, 8]);
    let (most, total) = (rows(), rows());
    let y = Tensor::empty(F32, &[batch * queries, heads, width]);
    // The sequence between the two has no tokens.
    let (q_ends, k_ends) = (Ints::new(&[3, 3, 6]), Ints::new(&[5, 5, 10]));
    let mask = compressed_mask();
    let call = |lengths: &[i64]| {
        let lengths = Ints::new(lengths);
        call!(
            aclnnFlashAttentionVarLenScore: q, k, v, null(), null(), null(), mask, lengths, q_ends,
            k_ends, 0.5, 1.0, 0, 0, heads as i64, c"TND".as_ptr().cast_mut(), 0, 6, most, total,
            null(), y
        )
    };
    call(&[2, 0, 4]).expect("documented");
    t.y.fill(
        &reference(&t, [2, 4])[0]
            .iter()
            .map(|y| *y as f32)
            .collect::<Vec<_>>(),
    );
    let expected = exact(&tokens_first(&t.y, queries));
    y.assert_close("y", &expected, 1e-6);
    refused(call(&[2, 4]), "prefix has 2 lengths for 3 batches");
    refused(call(&[2, 0, 6]), "the prefix of batch 2 has 6 keys");
}

#[test]
fn other_modes_do_not_read_a_prefix() {
    let _session = Session::start();
    let t = tensors();
    let [batch, _, queries, keys, _] = SIZES;
    let open = Tensor::integers(ACL_BOOL, &[batch, 1, queries, keys], &[0; 30]);
    let expected = reference(&t, [5, 5]);
    for lengths in [Ints::new(&[99]), Ints::none()] {
        forward(&t, &open, &lengths, 1).expect("unread");
        t.y.assert_close("y", &expected[0], 1e-6);
        backward(&t, &open, &lengths, 1).expect("unread");
    }
}

#[test]
fn prefixes_that_fit_no_batch_are_refused() {
    let _session = Session::start();
    let t = tensors();
    let (whole, compressed) = (whole_mask([2, 4]), compressed_mask());
    let both = |mask: &Tensor, lengths: &[i64], mode, text: &str| {
        let lengths = Ints::new(lengths);
        refused(forward(&t, mask, &lengths, mode), text);
        refused(backward(&t, mask, &lengths, mode).map(drop), text);
    };
    both(&compressed, &[2], 6, "prefix has 1 lengths for 2 batches");
    both(&compressed, &[2, 6], 6, "the prefix of batch 1 has 6 keys");
    both(&compressed, &[1, 4], 6, "the prefix of batch 0 has 1 keys");
    both(&compressed, &[2, 4], 5, "attenMask has the shape");
    both(&whole, &[2, 4], 6, "attenMask has the shape");
    let (code, _) = forward(&t, &compressed, &Ints::none(), 6).expect_err("mode 6 needs it");
    assert_eq!(code, ACLNN_ERR_PARAM_NULLPTR);
    // The rest is found by the device: a mask that shows more than the prefix, and one that is not that of its mode.
    broke(
        forward(&t, &whole, &Ints::new(&[2, 2]), 5),
        "behind the prefix and above the diagonal",
    );
    let wrong = Tensor::integers(ACL_UINT8, &[3072, 2048], &vec![0; 3072 * 2048]);
    broke(forward(&t, &wrong, &Ints::new(&[2, 4]), 6), "attenMask");
}
