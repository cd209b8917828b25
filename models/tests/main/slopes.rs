//! Gradients in f64 against the slope of the loss along them. A rounding to f32 anywhere in a backward pass shows, in a kernel or
//! in the plain composition, and no other implementation is needed to see it.

use std::fs;

use crate::common::{PARTS, fixtures, model_dir};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{Policy, scope};
use kernels_models::{CausalLm, ModelConfig, load};

/// The part of the slope that may be wrong. A gradient that is rounded to f32 on its way is wrong by 1e-8 and more.
const BOUND: f64 = 2e-10;

fn ids(config: &ModelConfig) -> Tensor<2, Int> {
    let below = config.vocab_size as i64 - 1;
    let ids: Vec<i64> = (0..16).map(|i| 1 + (i * i + 3 * i) % below).collect();
    Tensor::<1, Int>::from_data(ids.as_slice(), &Device::flex().autodiff()).reshape([2, 8])
}

fn loss(model: &CausalLm, config: &ModelConfig) -> Tensor<1> {
    model.training_losses(ids(config), None).total
}

/// The length of all gradients together.
fn length(model: &CausalLm, gradients: &GradientsParams) -> f64 {
    struct Length<'a>(&'a GradientsParams, f64);
    impl ModuleVisitor for Length<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                self.1 += gradient.square().sum().into_scalar::<f64>();
            }
        }
    }
    let mut length = Length(gradients, 0.0);
    model.visit(&mut length);
    length.1.sqrt()
}

/// Adds a multiple of the gradients to the parameters.
struct Step<'a>(&'a GradientsParams, f64);

impl ModuleMapper for Step<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.0.get::<D>(param.id) else {
            return param;
        };
        let moved = param.val().without_autodiff() + gradient * self.1;
        Param::initialized(param.id, moved.autodiff().require_grad())
    }
}

/// Returns the relative error of the length of the gradients, which is the slope of the loss in their direction.
fn error(name: &str) -> f64 {
    let (config, model) = load(
        &model_dir(name),
        &Device::flex().autodiff(),
        FloatDType::F64,
    )
    .unwrap();
    let gradients = GradientsParams::from_grads(loss(&model, &config).backward(), &model);
    let length = length(&model, &gradients);
    assert!(length > 1e-3, "{name}: {length}");
    let at = |distance: f64| -> f64 {
        let moved = model.clone().map(&mut Step(&gradients, distance / length));
        loss(&moved, &config).without_autodiff().into_scalar()
    };
    // The central difference of five points. At this distance, rounding of the losses is 1e-11 of the slope, the fifth power of
    // the distance is less, and no model crosses a kink: a clamp, a choice of experts or the cut of a sparse gate.
    let h = 1e-5;
    let slope = (at(-2.0 * h) - 8.0 * at(-h) + 8.0 * at(h) - at(2.0 * h)) / (12.0 * h);
    (slope - length).abs() / length
}

#[test]
fn gradients_in_f64_are_slopes() {
    let folder = fs::read_dir(fixtures().join("models")).unwrap();
    let names = folder.map(|entry| entry.unwrap());
    let names = names.filter(|entry| entry.path().join("config.json").is_file());
    let names: Vec<String> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        // These are not language models.
        .filter(|name| !PARTS.contains(&name.as_str()) && !name.ends_with("_tower"))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    let mut wrong = Vec::new();
    for name in &names {
        for policy in [Policy::auto(), Policy::reference()] {
            let shown = format!("{name}, {policy}");
            let _policy = scope(policy);
            let error = error(name);
            println!("{shown}: {error:.1e}");
            if error > BOUND {
                wrong.push(format!("{shown}: {error:.1e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
