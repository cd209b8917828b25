//! Single operations, with the sizes of a small Qwen3.

use super::groups::Run;
use super::layers::{self, Experts, Mlp, Norm};
use super::setting::{Setting, backward};
use burn::optim::{AdamWConfig, Optimizer};
use burn::tensor::{Int, Tensor, TensorData};
use burn_kernels::optim::InitFused;
use std::hint::black_box;

/// The width of the residual stream.
pub const HIDDEN: usize = 1024;
/// The width of the MLP.
pub const INNER: usize = 3072;
/// The number of query heads.
pub const HEADS: usize = 16;
/// The number of key and value heads.
pub const KV_HEADS: usize = 8;
/// The width of a head in the rows of single operations.
const HEAD: usize = 64;
/// The number of experts.
pub const EXPERTS: usize = 32;
/// The width of an expert.
pub const EXPERT_INNER: usize = 512;
/// The number of experts of a token.
pub const TOP_K: usize = 4;
/// The number of classes of the losses.
const CLASSES: usize = 32_000;

/// Measures `(y · dy).sum()` and its gradient, which are Burn's own. Loops that train to a custom loss have the like.
pub fn product_sum(of: &Setting) -> Run {
    let shape = [of.size, INNER];
    let (y, dy): (Tensor<2>, Tensor<2>) = (of.input(shape), of.constant(shape));
    Box::new(move || backward([Some((y.clone() * dy.clone()).sum())]))
}

pub fn rms_norm(of: &Setting) -> Run {
    let shape = [of.size, HIDDEN];
    let (norm, x, dy) = (Norm::new(of, HIDDEN), of.input(shape), of.slope(shape));
    Box::new(move || backward([dy.seed(norm.forward(x.clone()))]))
}

pub fn add_rms_norm(of: &Setting) -> Run {
    let shape = [of.size, HIDDEN];
    let norm = Norm::new(of, HIDDEN);
    let [x, residual] = [(); 2].map(|()| of.input(shape));
    // Both results have a gradient, as in a decoder layer.
    let [dy, dsum] = [(); 2].map(|()| of.slope(shape));
    Box::new(move || {
        let (y, sum) = norm.forward_sum(x.clone(), residual.clone());
        backward([dy.seed(y), dsum.seed(sum)]);
    })
}

pub fn swiglu(of: &Setting) -> Run {
    let shape = [of.size, INNER];
    let [gate, up] = [(); 2].map(|()| of.input(shape));
    let dy = of.slope(shape);
    Box::new(move || backward([dy.seed(layers::swiglu(gate.clone(), up.clone()))]))
}

pub fn mlp(of: &Setting) -> Run {
    let shape = [of.size, HIDDEN];
    let (mlp, x, dy) = (
        Mlp::new(of, HIDDEN, INNER),
        of.input(shape),
        of.slope(shape),
    );
    Box::new(move || backward([dy.seed(mlp.forward(x.clone()))]))
}

pub fn rope(of: &Setting) -> Run {
    // As projections give them, with axes swapped for attention.
    let [q, k] = [HEADS, KV_HEADS].map(|heads| of.input([1, of.size, heads, HEAD]));
    let [dq, dk] = [HEADS, KV_HEADS].map(|heads| of.slope([1, heads, of.size, HEAD]));
    let [cos, sin] = [(); 2].map(|()| of.constant([1, of.size, HEAD]));
    Box::new(move || {
        let [q, k] = [&q, &k].map(|x| x.clone().swap_dims(1, 2));
        let (q, k) = layers::rotate(q, k, cos.clone(), sin.clone());
        backward([dq.seed(q), dk.seed(k)]);
    })
}

pub fn qk_norm_rope(of: &Setting) -> Run {
    let shapes = [HEADS, KV_HEADS].map(|heads| [1, of.size, heads, HEAD]);
    let [q, k] = shapes.map(|shape| of.input(shape));
    let [dq, dk] = shapes.map(|shape| of.slope(shape));
    let [q_weight, k_weight] = [(); 2].map(|()| of.parameter([HEAD]));
    let [cos, sin] = [(); 2].map(|()| of.constant([1, of.size, HEAD]));
    Box::new(move || {
        let (q, k) = layers::norm_and_rotate(
            q.clone(),
            k.clone(),
            &q_weight,
            &k_weight,
            cos.clone(),
            sin.clone(),
        );
        backward([dq.seed(q), dk.seed(k)]);
    })
}

pub fn attention(of: &Setting) -> Run {
    let shape = [1, of.size, HEADS, HEAD];
    let [q, k, v] = [(); 3].map(|()| of.input(shape));
    let dy = of.slope(shape);
    Box::new(move || backward([dy.seed(layers::attend(q.clone(), k.clone(), v.clone()))]))
}

pub fn linear(of: &Setting) -> Run {
    let layer = layers::linear(of, [HIDDEN, INNER]);
    let (x, dy) = (of.input([of.size, HIDDEN]), of.slope([of.size, INNER]));
    Box::new(move || backward([dy.seed(layer.forward(x.clone()))]))
}

pub fn experts(of: &Setting) -> Run {
    let shape = [of.size, HIDDEN];
    let experts = Experts::new(of, EXPERTS, HIDDEN, EXPERT_INNER);
    let (x, dy) = (of.input(shape), of.slope(shape));
    let routing = of.input([of.size, TOP_K]);
    let chosen = chosen(of);
    Box::new(move || {
        let y = experts.forward(x.clone(), chosen.clone(), routing.clone());
        backward([dy.seed(y)]);
    })
}

/// Returns the experts of each token: different ones, and each expert for as many tokens as any other.
fn chosen(of: &Setting) -> Tensor<2, Int> {
    // The steps between the experts of a token. They differ from each other and from zero.
    const STEPS: [usize; TOP_K] = [0, 7, 13, 22];
    let of_token = |token: usize| STEPS.map(|step| ((token * 5 + step) % EXPERTS) as i64);
    let chosen: Vec<i64> = (0..of.size).flat_map(of_token).collect();
    Tensor::from_data(TensorData::new(chosen, [of.size, TOP_K]), &of.device())
}

pub fn cross_entropy(of: &Setting) -> Run {
    let (logits, targets) = (of.input([of.size, CLASSES]), of.targets(CLASSES));
    let is_training = logits.is_require_grad();
    Box::new(move || {
        let loss = layers::cross_entropy(logits.clone(), targets.clone());
        finish(loss, is_training);
    })
}

pub fn linear_cross_entropy(of: &Setting) -> Run {
    let hidden = of.input([of.size, HIDDEN]);
    let weight = of.parameter([CLASSES, HIDDEN]);
    let targets = of.targets(CLASSES);
    let is_training = hidden.is_require_grad();
    Box::new(move || {
        let loss = layers::linear_cross_entropy(hidden.clone(), weight.val(), targets.clone());
        finish(loss, is_training);
    })
}

/// Computes the gradients of a loss in training.
fn finish(loss: Tensor<1>, is_training: bool) {
    match is_training {
        true => backward([Some(loss)]),
        false => drop(black_box(loss)),
    }
}

pub fn adam_w(of: &Setting) -> Run {
    let optimiser = AdamWConfig::new().with_weight_decay(0.01).build_fused();
    let gradient: Tensor<2> = of.constant([of.size, of.size]);
    let mut kept = Some((of.constant([of.size, of.size]), None));
    // Steps follow one another, as in training: each takes over the tensors of the last.
    Box::new(move || {
        let (parameter, state) = kept.take().expect("each step gives it back");
        kept = Some(optimiser.step(1e-3, parameter, gradient.clone(), state));
    })
}
