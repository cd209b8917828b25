//! AdamW over the parameters of a model, with one norm of all gradients.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{AdamWConfig, AdamWState, GradientsParams, Optimizer};
use burn::tensor::{FloatDType, Tensor};
use burn_kernels::optim::{FusedAdamW, InitFused};
use std::any::Any;
use std::collections::HashMap;

/// The settings of AdamW.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct AdamW {
    /// The decay of the first moment.
    pub beta_1: f32,
    /// The decay of the second moment.
    pub beta_2: f32,
    /// The number that is added to the root of the second moment.
    pub epsilon: f32,
    /// The decay of matrices. Norms and biases have none.
    pub weight_decay: f32,
    /// The largest norm of all gradients together, if it is limited.
    pub clip: Option<f64>,
}

impl AdamW {
    /// The settings of `kernels train`.
    pub const FROM_SCRATCH: Self = Self {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.01,
        clip: Some(1.0),
    };
}

/// An optimiser with the state of each parameter.
pub struct Optimiser {
    decaying: FusedAdamW,
    plain: FusedAdamW,
    clip: Option<f64>,
    states: HashMap<ParamId, Box<dyn Any + Send>>,
}

impl Optimiser {
    /// Creates an optimiser without a state.
    pub fn new(settings: AdamW) -> Self {
        let config = AdamWConfig::new()
            .with_beta_1(settings.beta_1)
            .with_beta_2(settings.beta_2)
            .with_epsilon(settings.epsilon);
        let with_decay = |decay| config.clone().with_weight_decay(decay).build_fused();
        Self {
            decaying: with_decay(settings.weight_decay),
            plain: with_decay(0.0),
            clip: settings.clip,
            states: HashMap::new(),
        }
    }

    /// Takes a step with gradients of this norm before it is limited.
    pub fn step<M: Module>(
        &mut self,
        rate: f64,
        module: M,
        gradients: GradientsParams,
        norm: f64,
    ) -> M {
        let factor = self.factor(norm);
        module.map(&mut Step {
            optimiser: self,
            gradients,
            rate,
            factor,
            path: Vec::new(),
        })
    }

    /// Returns the factor of gradients whose norm is too large.
    pub fn factor(&self, norm: f64) -> Option<f64> {
        let largest = self.clip.filter(|largest| norm > *largest)?;
        Some(largest / norm)
    }

    /// Returns whether a parameter of this rank decays, to which the names of fields lead. The biases of experts are the
    /// rows of a matrix, and biases all the same.
    pub fn decays(rank: usize, path: &[String]) -> bool {
        let is_bias = path.last().is_some_and(|name| name.ends_with("bias"));
        rank > 1 && !is_bias
    }

    /// Takes a step with one parameter, at a rate, with a factor of its gradient, and with or without decay.
    pub fn step_of<const D: usize>(
        &mut self,
        (rate, factor, decays): (f64, Option<f64>, bool),
        id: ParamId,
        value: Tensor<D>,
        gradient: Tensor<D>,
    ) -> Tensor<D> {
        let gradient = match factor {
            Some(factor) => gradient * factor,
            None => gradient,
        };
        let state = self.states.remove(&id);
        // A state of another rank would be of another parameter, and ids are unique.
        let state = state.and_then(|state| state.downcast::<AdamWState<D>>().ok());
        let adamw = match decays {
            true => &self.decaying,
            false => &self.plain,
        };
        let (updated, state) = adamw.step(rate, value, gradient, state.map(|state| *state));
        if let Some(state) = state {
            self.set_state(id, state);
        }
        updated
    }

    /// Returns an optimiser with the same settings, but without a state.
    #[cfg(feature = "distributed")]
    pub fn without_states(&self) -> Self {
        Self {
            decaying: self.decaying.clone(),
            plain: self.plain.clone(),
            clip: self.clip,
            states: HashMap::new(),
        }
    }

    /// Returns the state of a parameter of rank `D`, if it had a step.
    pub fn state<const D: usize>(&self, id: ParamId) -> Option<&AdamWState<D>> {
        self.states.get(&id)?.downcast_ref()
    }

    /// Sets the state of a parameter.
    pub fn set_state<const D: usize>(&mut self, id: ParamId, state: AdamWState<D>) {
        self.states.insert(id, Box::new(state));
    }
}

struct Step<'a> {
    optimiser: &'a mut Optimiser,
    gradients: GradientsParams,
    rate: f64,
    /// The factor of all gradients, if their norm is too large.
    factor: Option<f64>,
    /// The names of the fields that lead to a parameter.
    path: Vec<String>,
}

impl ModuleMapper for Step<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return param;
        };
        let (id, tensor, mapper) = param.consume();
        let how = (self.rate, self.factor, Optimiser::decays(D, &self.path));
        let updated = self.optimiser.step_of(how, id, tensor.inner(), gradient);
        Param::from_mapped_value(id, Tensor::from_inner(updated).require_grad(), mapper)
    }
}

/// Returns the norm of all gradients together, in at least f32.
///
/// # Errors
/// Returns an error if the device fails.
pub fn norm<M: Module>(module: &M, gradients: &GradientsParams) -> anyhow::Result<f64> {
    struct Squares<'a> {
        gradients: &'a GradientsParams,
        sum: Option<Tensor<1>>,
    }
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = self.gradients.get::<D>(param.id) else {
                return;
            };
            let gradient = match gradient.dtype().size() {
                4.. => gradient,
                _ => gradient.cast(FloatDType::F32),
            };
            let squares = gradient.square().sum();
            self.sum = Some(match self.sum.take() {
                Some(sum) => sum + squares,
                None => squares,
            });
        }
    }
    let mut squares = Squares {
        gradients,
        sum: None,
    };
    module.visit(&mut squares);
    let sum = squares.sum.map(|sum| sum.try_into_scalar::<f64>());
    Ok(sum.transpose()?.unwrap_or(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    const SETTINGS: AdamW = AdamW {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.5,
        clip: Some(1.0),
    };

    fn layer(device: &Device) -> Linear {
        let mut layer = LinearConfig::new(2, 2).init(device);
        layer.weight = Param::from_tensor(Tensor::ones([2, 2], device));
        layer.bias = Some(Param::from_tensor(Tensor::ones([2], device)));
        layer
    }

    fn gradients(layer: &Linear, factor: f64) -> GradientsParams {
        let ones = Tensor::<2>::ones([1, 2], &layer.weight.val().device());
        let loss = layer.forward(ones);
        GradientsParams::from_grads((loss * factor).sum().backward(), layer)
    }

    #[test]
    fn all_gradients_have_one_norm_and_vectors_do_not_decay() {
        let device = Device::flex().autodiff();
        let mut optimiser = Optimiser::new(SETTINGS);
        let layer = layer(&device);
        // Four gradients of the weight and two of the bias are 3.
        let large = gradients(&layer, 3.0);
        let norm = norm(&layer, &large).unwrap();
        let layer = optimiser.step(0.1, layer, large, norm);
        assert!((norm - 54.0_f64.sqrt()).abs() < 1e-5, "{norm}");
        let bias = layer.bias.as_ref().unwrap();
        let state: &AdamWState<1> = optimiser.state(bias.id).unwrap();
        let first = state.momentum.moment_1.clone().into_data();
        for moment in first.iter::<f64>() {
            // A tenth of the gradient, which is divided by the norm.
            assert!((moment - 0.3 / 54.0_f64.sqrt()).abs() < 1e-6, "{moment}");
        }
        // The first step of Adam is the rate; the weight also loses a twentieth.
        let value = |tensor: Tensor<1>| tensor.into_data().iter::<f64>().next().unwrap();
        assert!((value(bias.val().inner()) - 0.9).abs() < 1e-5);
        assert!((value(layer.weight.val().inner().reshape([4])) - 0.85).abs() < 1e-5);
        assert!(layer.weight.val().is_require_grad());
    }

    /// The biases of all experts are one matrix.
    #[derive(Module, Debug)]
    struct Experts {
        proj: Param<Tensor<2>>,
        proj_bias: Param<Tensor<2>>,
    }

    #[test]
    fn biases_of_experts_do_not_decay() {
        let device = Device::flex().autodiff();
        let ones = || Param::from_tensor(Tensor::ones([2, 2], &device));
        let experts = Experts {
            proj: ones(),
            proj_bias: ones(),
        };
        let loss = (experts.proj.val() + experts.proj_bias.val()).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &experts);
        let experts = Optimiser::new(SETTINGS).step(0.1, experts, gradients, 1.0);
        let value = |param: Param<Tensor<2>>| param.val().into_data().iter::<f64>().next();
        // The first step of Adam is the rate; weights also lose a twentieth.
        for (param, expected) in [(experts.proj, 0.85), (experts.proj_bias, 0.9)] {
            let found = value(param).unwrap();
            assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
        }
    }

    #[test]
    fn small_gradients_stay() {
        let device = Device::flex().autodiff();
        let mut optimiser = Optimiser::new(SETTINGS);
        let layer = layer(&device);
        let small = gradients(&layer, 0.25);
        let norm = norm(&layer, &small).unwrap();
        let layer = optimiser.step(0.1, layer, small, norm);
        assert!((norm - 6.0_f64.sqrt() / 4.0).abs() < 1e-6, "{norm}");
        let bias = layer.bias.as_ref().unwrap();
        let state: &AdamWState<1> = optimiser.state(bias.id).unwrap();
        let first = state.momentum.moment_1.clone().into_data();
        assert!(
            first
                .iter::<f64>()
                .all(|moment| (moment - 0.025).abs() < 1e-7)
        );
    }
}
