//! Compares AdamW with a fused step with Burn's own.

use crate::comparison::{difference, relative};
use crate::counting;
use burn::grad_clipping::GradientClippingConfig;
use burn::module::{Lora, Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use burn_kernels::dispatch::Reason;
use burn_kernels::live::{self, Sampling};
use burn_kernels::optim::{InitFused, rounded, widened};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;
use std::num::NonZeroU32;
use std::sync::MutexGuard;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        let linear = |inputs, outputs, seed: f32| {
            let mut layer = LinearConfig::new(inputs, outputs).init(device);
            let values = wave(inputs * outputs, seed);
            let weight = TensorData::new(values, [inputs, outputs]);
            layer.weight = layer
                .weight
                .map(|_| Tensor::from_data(weight, device).require_grad());
            layer.bias = layer
                .bias
                .map(|bias| bias.map(|bias| bias.zeros_like().require_grad()));
            layer
        };
        Self {
            first: linear(5, 7, 0.3),
            second: linear(7, 3, 0.7),
        }
    }

    fn gradients(&self, step: usize) -> GradientsParams {
        let device = self.first.weight.val().device();
        let x = TensorData::new(wave(4 * 5, step as f32), [4, 5]);
        let x = Tensor::<2>::from_data(x, (&device, self.first.weight.val().dtype()));
        let y = self.second.forward(self.first.forward(x).tanh());
        GradientsParams::from_grads(y.square().mean().backward(), self)
    }

    fn values(&self) -> Vec<f64> {
        let weights = [&self.first, &self.second].map(|layer| layer.weight.val());
        let biases = [&self.first, &self.second].map(|layer| layer.bias.as_ref().unwrap().val());
        let weights = weights
            .into_iter()
            .flat_map(|w| w.into_data().iter::<f64>().collect::<Vec<_>>());
        let biases = biases
            .into_iter()
            .flat_map(|b| b.into_data().iter::<f64>().collect::<Vec<_>>());
        weights.chain(biases).collect()
    }
}

fn wave(count: usize, seed: f32) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 1.7 + seed).sin()).collect()
}

fn train(mut model: Net, optimiser: &mut ModuleOptimizer, steps: std::ops::Range<usize>) -> Net {
    for step in steps {
        let gradients = model.gradients(step);
        model = optimiser.step(0.01, model, gradients);
    }
    model
}

fn config() -> AdamWConfig {
    AdamWConfig::new()
        .with_beta_2(0.95)
        .with_epsilon(1e-8)
        .with_weight_decay(0.1)
}

/// Lets one test run at a time, with a report of its own.
fn alone() -> MutexGuard<'static, ()> {
    let guard = counting::alone();
    report::reset();
    guard
}

/// Returns the paths at the optimiser's site with their numbers of calls.
fn ran() -> Vec<(String, u64)> {
    let rows = report::report().rows.into_iter();
    rows.filter(|row| row.kernel == "npu_fused_adam_w")
        .filter_map(|row| Some((row.call?.path(), row.calls)))
        .collect()
}

#[test]
fn it_takes_the_same_steps_as_burn() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let burn = train(Net::new(&device), &mut config().init(), 0..20);
    assert!(ran().is_empty());
    let _checked = live::scope(Sampling::every(NonZeroU32::MIN).whole());
    let fused = train(Net::new(&device), &mut config().init_fused(), 0..20);
    // Burn computes powers of the betas in f32: an error of 1e-5, relative to twenty steps of 0.01.
    let apart = difference(&fused.values(), &burn.values());
    assert!(apart < 2e-6, "{apart:e}");
    assert_eq!(ran(), [("fused cpu-simd".to_owned(), 4 * 20)]);
}

#[test]
fn half_types_come_nearer_to_what_is_exact_than_burn() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let steps = 0..30;
    let start = |dtype: FloatDType| {
        let cast = |layer: Linear| Linear {
            weight: layer
                .weight
                .map(|w| w.cast(FloatDType::BF16).cast(dtype).detach().require_grad()),
            bias: layer
                .bias
                .map(|b| b.map(|b| b.cast(dtype).detach().require_grad())),
        };
        let net = Net::new(&device);
        Net {
            first: cast(net.first),
            second: cast(net.second),
        }
    };
    let exact = train(
        start(FloatDType::F64),
        &mut config().init_fused(),
        steps.clone(),
    )
    .values();
    let fused = train(
        start(FloatDType::BF16),
        &mut config().init_fused(),
        steps.clone(),
    );
    assert_eq!(fused.first.weight.val().dtype(), DType::BF16);
    let burn = train(start(FloatDType::BF16), &mut config().init(), steps);
    let mean = |values: Vec<f64>| {
        let apart = values.iter().zip(&exact).map(|(a, b)| (a - b).powi(2));
        apart.sum::<f64>().sqrt()
    };
    let (fused, burn) = (mean(fused.values()), mean(burn.values()));
    assert!(fused < burn, "fused {fused:e}, Burn's {burn:e}");
}

#[test]
fn records_are_burns_own() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let whole = train(Net::new(&device), &mut config().init_fused(), 0..10).values();
    for fused_first in [true, false] {
        let new = |fused: bool| match fused {
            true => config().init_fused(),
            false => config().init(),
        };
        let mut first = new(fused_first);
        let half = train(Net::new(&device), &mut first, 0..5);
        let mut second = new(!fused_first).load_record(first.to_record());
        let resumed = train(half, &mut second, 5..10).values();
        let apart = difference(&resumed, &whole);
        assert!(apart < 2e-6, "{apart:e}");
    }
}

#[test]
fn without_kernels_it_is_burns_own_bit_for_bit() {
    let _alone = alone();
    let _none = policy::scope(Policy::reference());
    let device = Device::flex().autodiff();
    let burn = train(Net::new(&device), &mut config().init(), 0..5).values();
    let ours = train(Net::new(&device), &mut config().init_fused(), 0..5).values();
    assert_eq!(ours, burn);
    assert_eq!(ran(), [(format!("reference: {}", Reason::Policy), 4 * 5)]);
}

#[test]
fn what_has_no_kernel_is_burns_own_and_counted() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    for config in [
        config().with_amsgrad(true),
        config().with_cautious_weight_decay(true),
    ] {
        report::reset();
        let burn = train(Net::new(&device), &mut config.init(), 0..5).values();
        let ours = train(Net::new(&device), &mut config.init_fused(), 0..5).values();
        assert_eq!(ours, burn);
        let path = format!("reference: {}", Reason::Condition);
        assert_eq!(ran(), [(path, 4 * 5)]);
        let asked: Policy = "none,+npu_fused_adam_w".parse().unwrap();
        let _asked = policy::scope(asked);
        let step = std::panic::AssertUnwindSafe(|| {
            train(Net::new(&device), &mut config.init_fused(), 0..1);
        });
        let said = *std::panic::catch_unwind(step)
            .unwrap_err()
            .downcast::<String>()
            .unwrap();
        assert!(said.contains("npu_fused_adam_w"), "{said}");
    }
}

#[test]
fn every_setting_arrives() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let clipped = config().with_grad_clipping(Some(GradientClippingConfig::Norm(1e-3)));
    let others = [
        config(),
        clipped.clone(),
        config().with_beta_1(0.5),
        config().with_beta_2(0.5),
        config().with_epsilon(0.1),
        config().with_weight_decay(0.0),
    ];
    for config in others {
        let burn = train(Net::new(&device), &mut config.init(), 0..3).values();
        let ours = train(Net::new(&device), &mut config.init_fused(), 0..3).values();
        let apart = difference(&ours, &burn);
        assert!(apart < 1e-6, "{config}: {apart:e}");
    }
    assert!(clipped.init_fused().has_gradient_clipping());
}

#[test]
fn a_group_of_parameters_may_have_it() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let group = ParamGroup::from_predicate("second");
    let sgd = || ModuleOptimizer::from(SgdConfig::new().build());
    let mut burn = sgd().with_group(group.clone(), config().build(), None);
    let mut ours = sgd().with_group(group, config().build_fused(), None);
    let burn = train(Net::new(&device), &mut burn, 0..5).values();
    let ours = train(Net::new(&device), &mut ours, 0..5).values();
    assert!(difference(&ours, &burn) < 1e-6);
    assert_eq!(ran(), [("fused cpu-simd".to_owned(), 2 * 5)]);
}

/// Adapters are trained through a rounded copy like other parameters, and their frozen base is not.
#[test]
fn a_rounded_copy_trains_adapters() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let linear = LinearConfig::new(6, 4).init(&device);
    let layer = linear.apply_lora(Lora::new(2, 4.0));
    let gradients = |layer: &Linear, dtype| {
        let x = Tensor::<2>::ones([3, 6], &device).cast(dtype);
        let loss = layer.forward(x).square().sum();
        GradientsParams::from_grads(loss.backward(), layer)
    };
    let exact = gradients(&layer, FloatDType::F32);
    let half = rounded(&layer, FloatDType::BF16);
    let found = widened(gradients(&half, FloatDType::BF16), &layer);
    let [a, b] = {
        let adapter = layer.weight.adapter().expect("an adapter");
        [adapter.a.id, adapter.b.id]
    };
    assert!(found.len() == exact.len() && found.len() >= 2);
    for id in [a, b] {
        let [found, exact] = [&found, &exact].map(|all| all.get::<2>(id).expect("a gradient"));
        assert_eq!(found.dtype(), DType::F32);
        let [found, exact] = [found, exact].map(|gradient| {
            let numbers = gradient.into_data();
            numbers.iter::<f64>().collect::<Vec<_>>()
        });
        let error = relative(&found, &exact);
        assert!(error <= 0.03, "{error}");
    }
}
