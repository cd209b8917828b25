//! Trains a layer with one seed under every combination of kernels and live verification.

use crate::counting::alone;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use burn_kernels::live::{self, Sampling};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report::report;

pub const WIDTH: usize = 6;
pub const TOKENS: usize = 7;

/// The result of one training.
struct Run {
    /// All weights after the first call. Reading a weight that the call did not use initialises it, so these also show
    /// the state of the generator.
    weights: Vec<Vec<f32>>,
    losses: Vec<f32>,
}

/// Checks that weights are equal bit for bit, and losses nearly so, with and without kernels and verification. `site`
/// is the name of the layer, whose kernel must run where the policy allows it.
#[track_caller]
pub fn one_seed_one_model<M: Module>(
    site: &str,
    init: impl Fn(&Device) -> M,
    forward: impl Fn(&M, Tensor<2>) -> Tensor<2>,
) {
    let _alone = alone();
    let run = |kernels, verified: &str| {
        let _policy = policy::scope(kernels);
        let _sampling = live::scope(verified.parse::<Sampling>().unwrap());
        train(&init, &forward)
    };
    let plain = run(Policy::reference(), "off");
    let every: [(Policy, &str); 3] = [
        (Policy::reference(), "every:1"),
        (Policy::auto(), "off"),
        (Policy::auto(), "every:1"),
    ];
    for (kernels, verified) in every {
        let what = format!("{site}: kernels {kernels}, verification {verified}");
        let other = run(kernels, verified);
        assert!(
            other.weights == plain.weights,
            "{what}: other initial weights"
        );
        for (a, b) in other.losses.iter().zip(&plain.losses) {
            assert!((a - b).abs() <= 1e-4 * b.abs(), "{what}: loss {a}, not {b}");
        }
    }
    let is_fused = report().rows.iter().any(|row| {
        let call = row.call.as_ref();
        row.site.contains(site) && call.is_some_and(|call| call.implementation.is_some())
    });
    assert!(is_fused, "{site} never ran its kernel:\n{}", report());
    assert!(
        plain.losses.last() < plain.losses.first(),
        "it learns: {:?}",
        plain.losses
    );
}

/// Returns the weights of a layer after its first call.
pub fn initial<M: Module>(
    init: impl Fn(&Device) -> M,
    forward: impl Fn(&M, Tensor<2>) -> Tensor<2>,
) -> Vec<Vec<f32>> {
    let _alone = alone();
    train(&init, &forward).weights
}

fn train<M: Module>(
    init: &impl Fn(&Device) -> M,
    forward: &impl Fn(&M, Tensor<2>) -> Tensor<2>,
) -> Run {
    let device = Device::flex().autodiff();
    device.seed(11);
    let mut model = init(&device);
    let (mut weights, mut losses) = (Vec::new(), Vec::new());
    for step in 0..6 {
        let difference = forward(&model, numbers(&device, 1)) - numbers(&device, 5);
        let loss = difference.square().mean();
        if step == 0 {
            weights = all(&model);
        }
        losses.push(loss.clone().into_scalar::<f32>());
        let gradients = loss.backward();
        model = model.map(&mut Step(&gradients));
    }
    Run { weights, losses }
}

/// Returns fixed numbers `[TOKENS, WIDTH]`, without use of a generator.
fn numbers(device: &Device, from: usize) -> Tensor<2> {
    let number = |i: usize| ((i * i * 37 + i * 11 + from) % 41) as f32 / 20.0 - 1.0;
    let numbers: Vec<f32> = (from..from + TOKENS * WIDTH).map(number).collect();
    Tensor::from_data(TensorData::new(numbers, [TOKENS, WIDTH]), device)
}

fn all<M: Module>(model: &M) -> Vec<Vec<f32>> {
    struct Take(Vec<Vec<f32>>);
    impl ModuleVisitor for Take {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().into_data().try_to_vec().unwrap());
        }
    }
    let mut take = Take(Vec::new());
    model.visit(&mut take);
    take.0
}

/// A step of gradient descent.
struct Step<'a>(&'a Gradients);

impl ModuleMapper for Step<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|weight| match weight.grad(self.0) {
            Some(gradient) => Tensor::from_inner(weight.inner() - gradient * 0.1).require_grad(),
            None => weight,
        })
    }
}
