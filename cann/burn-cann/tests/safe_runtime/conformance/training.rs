//! A training step of a small transformer, with the operations that Burn's layers, gradients and AdamW call. The
//! device computes what the host computes, without a wait and without a run on the host.

use burn_backend::ops::AttentionModuleOptions;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BoolDType, FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata,
};
use burn_cann::backend::{self, CannBackend, CannDevice};
use burn_flex::{Flex, FlexDevice};

use super::inputs::{Form, Inputs};
use super::{compare, f};
use crate::common::Scenario;

const BATCH: usize = 2;
const LENGTH: usize = 6;
const HEADS: usize = 2;
const WIDTH: usize = 16;
const HIDDEN: usize = 24;
const WORDS: usize = 11;

type F<B> = <B as burn_backend::BackendTypes>::FloatTensorPrimitive;
type I<B> = <B as burn_backend::BackendTypes>::IntTensorPrimitive;

struct Parameters<B: Backend> {
    words: F<B>,
    gain: F<B>,
    shift: F<B>,
    query: F<B>,
    key: F<B>,
    value: F<B>,
    up: F<B>,
    down: F<B>,
}

/// Returns small weights, so that sums stay in the range of half types.
fn parameters<B: Backend>(c: &Inputs<B>) -> Parameters<B> {
    let weight = |seed, shape: &[usize]| c.f_in(seed, shape, -0.3, 0.3);
    Parameters {
        words: weight(1, &[WORDS, WIDTH]),
        gain: c.f_in(2, &[WIDTH], 0.8, 1.2),
        shift: weight(3, &[WIDTH]),
        query: weight(4, &[WIDTH, WIDTH]),
        key: weight(5, &[WIDTH, WIDTH]),
        value: weight(6, &[WIDTH, WIDTH]),
        up: weight(7, &[WIDTH, HIDDEN]),
        down: weight(8, &[HIDDEN, WIDTH]),
    }
}

/// Returns `[batch, length, width]` as `[batch, heads, length, width of a head]`.
fn split<B: Backend>(x: F<B>) -> F<B> {
    let heads = Shape::from([BATCH, LENGTH, HEADS, WIDTH / HEADS]);
    B::float_swap_dims(B::float_reshape(x, heads), 1, 2)
}

fn rms_norm<B: Backend>(x: F<B>, gain: F<B>) -> F<B> {
    let square = B::float_powi_scalar(x.clone(), Scalar::Int(2));
    let mean = B::float_mean_dim(square, 2);
    let scale = B::float_recip(B::float_sqrt(B::float_add_scalar(
        mean,
        Scalar::Float(1e-5),
    )));
    let gain = B::float_reshape(gain, Shape::from([1, 1, WIDTH]));
    B::float_mul(B::float_mul(x, scale), gain)
}

/// The values kept from the forward pass, and its loss.
struct Passed<B: Backend> {
    hidden: F<B>,
    opened: F<B>,
    active: F<B>,
    last: F<B>,
    logs: F<B>,
    loss: F<B>,
}

fn forward<B: Backend>(p: &Parameters<B>, ids: &I<B>, targets: &I<B>) -> Passed<B> {
    let x = B::embedding(p.words.clone(), ids.clone());
    let normal = B::layer_norm(x.clone(), p.gain.clone(), Some(p.shift.clone()), 1e-5);
    let project = |weight: &F<B>| split::<B>(B::linear(normal.clone(), weight.clone(), None));
    let causal = AttentionModuleOptions {
        is_causal: true,
        ..Default::default()
    };
    let (query, key, value) = (project(&p.query), project(&p.key), project(&p.value));
    let mixed = B::attention(query, key, value, None, None, causal);
    let mixed = B::float_reshape(
        B::float_swap_dims(mixed, 1, 2),
        Shape::from([BATCH, LENGTH, WIDTH]),
    );
    let hidden = rms_norm::<B>(B::float_add(x, mixed), p.gain.clone());
    let opened = B::linear(hidden.clone(), p.up.clone(), None);
    let active = B::gelu(opened.clone());
    let last = B::float_add(
        hidden.clone(),
        B::linear(active.clone(), p.down.clone(), None),
    );
    let heads = B::float_swap_dims(p.words.clone(), 0, 1);
    let flat = B::float_reshape(last.clone(), Shape::from([BATCH * LENGTH, WIDTH]));
    let logs = B::log_softmax(B::float_matmul(flat.clone(), heads), 1);
    let place = B::int_reshape(targets.clone(), Shape::from([BATCH * LENGTH, 1]));
    let loss = B::float_neg(B::float_mean(B::float_gather(1, logs.clone(), place)));
    Passed {
        hidden,
        opened,
        active,
        last: flat,
        logs,
        loss,
    }
}

/// Returns the gradients of the words, of both projections around the activation, and of the gain.
fn backward<B: Backend>(
    p: &Parameters<B>,
    passed: &Passed<B>,
    ids: &I<B>,
    targets: &I<B>,
) -> Vec<F<B>> {
    let (device, dtype) = (passed.logs.device(), passed.logs.dtype());
    let rows = BATCH * LENGTH;
    // The gradient of the logits is the probabilities, less 1 at the target, divided by the number of rows.
    let place = B::int_reshape(targets.clone(), Shape::from([rows, 1]));
    let less = B::float_full(
        Shape::from([rows, 1]),
        Scalar::Float(-1.0),
        &device,
        dtype.into(),
    );
    let chosen = B::float_scatter(
        1,
        B::float_exp(passed.logs.clone()),
        place,
        less,
        IndexingUpdateOp::Add,
    );
    let grad = B::float_div_scalar(chosen, Scalar::Float(rows as f64));
    let heads = B::float_matmul(B::float_swap_dims(grad.clone(), 0, 1), passed.last.clone());
    let last = B::float_reshape(
        B::float_matmul(grad, p.words.clone()),
        Shape::from([BATCH, LENGTH, WIDTH]),
    );
    let down = B::linear_weight_backward(passed.active.clone(), last.clone());
    let active = B::linear_x_backward(p.down.clone(), last.clone());
    let opened = B::gelu_backward(passed.opened.clone(), active);
    let up = B::linear_weight_backward(passed.hidden.clone(), opened.clone());
    let hidden = B::float_add(last, B::linear_x_backward(p.up.clone(), opened));
    let words = B::float_add(
        heads,
        B::embedding_backward(p.words.clone(), hidden.clone(), ids.clone()),
    );
    let gain = B::float_sum_dims(B::float_mul(hidden, passed.hidden.clone()), &[0, 1]);
    vec![
        words,
        up,
        down,
        B::float_reshape(gain, Shape::from([WIDTH])),
    ]
}

/// Does AdamW's first step, with the norm of all gradients bounded.
fn adam_w<B: Backend>(parameters: Vec<F<B>>, grads: Vec<F<B>>) -> Vec<F<B>> {
    let squares = grads.iter().map(|grad| {
        let sum = B::float_sum(B::float_powi_scalar(grad.clone(), Scalar::Int(2)));
        B::float_reshape(sum, Shape::from([1]))
    });
    let norm = B::float_sqrt(B::float_sum(B::float_cat(squares.collect(), 0)));
    let bound = B::float_clamp_max(
        B::float_recip(B::float_add_scalar(norm, Scalar::Float(1e-6))),
        Scalar::Float(1.0),
    );
    let step = |(parameter, grad): (F<B>, F<B>)| {
        let bound = B::float_reshape(bound.clone(), Shape::from(vec![1; grad.rank()]));
        let grad = B::float_mul(grad, bound);
        let mean = B::float_mul_scalar(grad.clone(), Scalar::Float(0.1));
        let spread = B::float_mul_scalar(B::float_mul(grad.clone(), grad), Scalar::Float(0.01));
        let mean = B::float_div_scalar(mean, Scalar::Float(0.1));
        let spread = B::float_sqrt(B::float_div_scalar(spread, Scalar::Float(0.01)));
        let update = B::float_div(mean, B::float_add_scalar(spread, Scalar::Float(0.05)));
        let kept = B::float_mul_scalar(parameter, Scalar::Float(0.999));
        B::float_sub(kept, B::float_mul_scalar(update, Scalar::Float(0.01)))
    };
    parameters.into_iter().zip(grads).map(step).collect()
}

fn step<B: Backend>(device: B::Device, float: FloatDType) -> Vec<F<B>> {
    let c = Inputs::<B> {
        device,
        float,
        int: IntDType::I32,
        bool: BoolDType::Native,
        form: Form::Plain,
    };
    let p = parameters(&c);
    // These are the words of a text, and the words that follow them.
    let text = c.i_in(9, &[BATCH, LENGTH + 1], 0, WORDS as i64);
    let part = |from: isize| {
        let all = Slice::full();
        B::int_slice(
            text.clone(),
            &[all, Slice::new(from, Some(from + LENGTH as isize), 1)],
        )
    };
    let (ids, targets) = (part(0), part(1));
    let passed = forward::<B>(&p, &ids, &targets);
    let grads = backward::<B>(&p, &passed, &ids, &targets);
    let new = adam_w::<B>(vec![p.words, p.up, p.down, p.gain], grads);
    [vec![passed.loss, passed.logs], new].concat()
}

fn read<B: Backend>(tensors: Vec<F<B>>) -> Vec<TensorData> {
    tensors.into_iter().map(f::<B>).collect()
}

#[test]
fn a_training_step_stays_on_the_device() {
    Scenario::new()
        .set("BURN_CANN_FALLBACK", "deny")
        .run(|cann| {
            backend::install(cann.clone());
            let device = CannDevice::open(0).unwrap();
            for float in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
                let before = cann.waits();
                let found = step::<CannBackend>(device, float);
                assert_eq!(cann.waits(), before, "{float:?}: the host waited");
                let expected = read::<Flex>(step::<Flex>(FlexDevice, float));
                let difference = compare::difference(&read::<CannBackend>(found), &expected);
                assert_eq!(difference, None, "{float:?}");
            }
            assert_eq!(backend::fallbacks(), []);
            backend::close();
        });
}
