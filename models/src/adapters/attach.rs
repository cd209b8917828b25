//! Attaching adapters to the linear layers and the experts of a model.

use std::collections::BTreeMap;

use burn::module::{Param, ParamId, Reparameterizer};
use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use burn_kernels::nn::{LowRank, LowRankExperts, apply_low_rank, apply_low_rank_experts};
use burn_kernels::semantics::ExpertLayout;

use super::AdapterConfig;
use super::patterns::Each;
use super::targets::{self, Target, Targets};
use crate::config::family::Axes;
use crate::{CausalLm, ModelConfig, ModelError};

/// The factors of one adapter, on the host and in f32: `a` is `[inputs, rank]` and `b` is `[rank, outputs]`. Those of
/// experts have an axis of experts before these.
pub(super) struct Factors {
    pub(super) a: TensorData,
    pub(super) b: TensorData,
    /// The factor of their product.
    pub(super) scale: f64,
}

impl Factors {
    /// Makes them the adapter of a linear layer, whose weight is on this device.
    pub(super) fn of_layer(self, options: (&Device, DType), dropout: f64) -> LowRank {
        LowRank {
            a: Param::from_tensor(Tensor::from_data(self.a, options)),
            b: Param::from_tensor(Tensor::from_data(self.b, options)),
            scale: self.scale,
            dropout,
        }
    }

    /// Makes them the adapter of experts, whose weights are on this device.
    pub(super) fn of_experts(self, options: (&Device, DType), axes: Axes) -> LowRankExperts {
        LowRankExperts {
            a: Param::from_tensor(Tensor::from_data(self.a, options)),
            b: Param::from_tensor(Tensor::from_data(self.b, options)),
            scale: self.scale,
            layout: match axes {
                Axes::OutIn => ExpertLayout::Linear,
                Axes::InOut | Axes::InOutUntold => ExpertLayout::Matmul,
            },
        }
    }
}

impl CausalLm {
    /// Attaches a new adapter to each layer that `config` targets, and freezes all other parameters. The model computes
    /// what it did: the first factor is drawn from a uniform distribution, as in PEFT, and the second is zero. Factors
    /// are in f32.
    ///
    /// # Errors
    /// Returns [`ModelError::Adapter`] if a number is outside its range, if the rank is larger than all layers, if a target
    /// matches no linear layer and no experts, or if experts shall have a dropout.
    pub fn with_adapters(self, config: &AdapterConfig, seed: u64) -> Result<Self, ModelError> {
        config.check()?;
        let targets = targets::all(&self);
        let host = Device::flex();
        host.seed(seed);
        let each = Each::of(config)?;
        let mut factors = BTreeMap::new();
        // The order of names is that of the draws, whatever the ids are.
        for (id, target) in targets::for_new(&targets, config)? {
            factors.insert(id, draw(target, &each.at(&target.name)?, &host));
        }
        Ok(self.attach(config.dropout, &targets, factors))
    }

    /// Attaches adapters with these factors, and freezes all other parameters.
    pub(super) fn attach(
        self,
        dropout: f64,
        targets: &Targets,
        factors: BTreeMap<ParamId, Factors>,
    ) -> Self {
        let axes = |id: &ParamId| Some(targets.get(id)?.experts?.axes);
        let (experts, layers) = factors.into_iter().partition(|(id, _)| axes(id).is_some());
        let attach = Attach {
            factors: layers,
            dropout,
        };
        let adapted = apply_low_rank(self, attach);
        // This one comes last, because the other one freezes what it passes.
        let attach = AttachToExperts {
            axes,
            factors: experts,
        };
        apply_low_rank_experts(adapted, attach)
    }

    /// Returns the names of the layers and the parameters of experts with an adapter, in order.
    pub fn adapted_layers(&self) -> Vec<String> {
        let mut names: Vec<String> = super::file::adapters(self).into_keys().collect();
        names.sort();
        names
    }
}

impl AdapterConfig {
    /// Checks the settings for models of a configuration, without one.
    ///
    /// # Errors
    /// Returns an error as [`CausalLm::with_adapters`] does.
    pub fn check_for(&self, config: &ModelConfig) -> Result<(), ModelError> {
        self.check()?;
        // Nothing of it is initialised.
        let model = config.init(&Device::flex());
        targets::for_new(&targets::all(&model), self).map(drop)
    }

    /// Returns the name of a layer whose adapter PEFT refuses to load with these settings, if there is one: it has no dropout
    /// for some.
    ///
    /// # Errors
    /// Returns an error as [`check_for`](Self::check_for) does.
    pub fn refused_by_peft(&self, config: &ModelConfig) -> Result<Option<String>, ModelError> {
        let targets = targets::all(&config.init(&Device::flex()));
        let chosen = targets::chosen(&targets, self)?;
        let refused = chosen.iter().find(|(_, target)| !target.is_module);
        let refused = refused.filter(|_| self.dropout > 0.0);
        Ok(refused.map(|(_, target)| target.name.clone()))
    }
}

/// Draws the factors of a new adapter.
fn draw(target: &Target, own: &AdapterConfig, host: &Device) -> Factors {
    let (rank, scale) = (own.rank, own.scale());
    let Target {
        inputs, outputs, ..
    } = *target;
    let bound = 1.0 / (inputs as f64).sqrt();
    let range = Distribution::Uniform(-bound, bound);
    let options = (host, DType::F32);
    let Some(experts) = target.experts else {
        return Factors {
            a: Tensor::<2>::random([inputs, rank], range, options).into_data(),
            b: TensorData::zeros::<f32, _>([rank, outputs]),
            scale,
        };
    };
    Factors {
        a: Tensor::<3>::random([experts.count, inputs, rank], range, options).into_data(),
        b: TensorData::zeros::<f32, _>([experts.count, rank, outputs]),
        scale,
    }
}

struct Attach {
    factors: BTreeMap<ParamId, Factors>,
    dropout: f64,
}

impl Reparameterizer for Attach {
    type Reparam = LowRank;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRank>) {
        let adapter = self
            .factors
            .remove(&param.id)
            .map(|factors| factors.of_layer((&param.base().device(), DType::F32), self.dropout));
        (param.set_require_grad(false), adapter)
    }
}

struct AttachToExperts<F> {
    axes: F,
    factors: BTreeMap<ParamId, Factors>,
}

impl<F: Fn(&ParamId) -> Option<Axes>> Reparameterizer for AttachToExperts<F> {
    type Reparam = LowRankExperts;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRankExperts>) {
        let found = self.factors.remove(&param.id).zip((self.axes)(&param.id));
        let adapter = found
            .map(|(factors, axes)| factors.of_experts((&param.base().device(), DType::F32), axes));
        (param, adapter)
    }
}
