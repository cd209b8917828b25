//! Adding adapters to the weights that they adapt.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Param, ParamId, Reparameterization};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use burn_kernels::nn::Quantized;

use super::AdapterConfig;
use super::attach::Factors;
use super::file::read;
use super::targets::{self, Targets};
use crate::checkpoint::{Progress, load_with, stored_dtypes};
use crate::parameters::{ParameterInfo, Replace, rebuild};
use crate::{CausalLm, ModelConfig, ModelError};

/// Reads a checkpoint, and adds the adapters of a folder in PEFT's layout to its weights. Each parameter has the dtype in
/// which the files store it, and quantised ones that of `config.json`, or bf16 if it names none. Sums are computed in f32.
/// `progress` is called as [`load_with`] does.
///
/// # Errors
/// Returns an error as [`load`](crate::load) and [`CausalLm::load_adapters`] do; that of the adapters before any weight is
/// read.
pub fn load_merged(
    base: &Path,
    adapter: &Path,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ModelConfig, CausalLm), ModelError> {
    AdapterConfig::of_folder(adapter, &ModelConfig::of_checkpoint(base)?)?;
    let stored = stored_dtypes(base)?;
    let (config, model) = load_with(base, device, holds_all(&stored), progress)?;
    let model = model.merge_adapters(adapter)?;
    Ok((config, rebuild(model, &mut AsStored(stored))))
}

/// Returns a dtype that holds the values of all these.
fn holds_all(stored: &BTreeMap<String, FloatDType>) -> FloatDType {
    let mut dtypes = stored.values().copied();
    let first = dtypes.next().unwrap_or(FloatDType::F32);
    dtypes.fold(first, |one, other| match (one, other) {
        (one, other) if one == other => one,
        (FloatDType::F64, _) | (_, FloatDType::F64) => FloatDType::F64,
        _ => FloatDType::F32,
    })
}

impl CausalLm {
    /// Adds the adapters of a folder in PEFT's layout to the weights, which keep their dtypes. Sums are computed in f32 at
    /// least. The model then costs what it does without adapters.
    ///
    /// # Errors
    /// Returns an error as [`load_adapters`](Self::load_adapters) does, if the model has quantised weights, and if a sum
    /// is not finite in the dtype of its weight.
    pub fn merge_adapters(self, dir: &Path) -> Result<Self, ModelError> {
        if Quantized::is_in(&self) {
            let problem = "the model has quantised weights, which a sum would round once more; load it with decoded ones, and \
                           merge into these floats";
            return Err(ModelError::Adapter {
                problem: problem.into(),
            });
        }
        let targets = targets::all(&self);
        let (_, factors) = read(&targets, dir)?;
        let mut merge = Merge {
            targets,
            factors,
            not_finite: None,
        };
        let merged = rebuild(self, &mut merge);
        match merge.not_finite {
            None => Ok(merged),
            Some(name) => Err(ModelError::Adapter {
                problem: format!(
                    "`{name}` with its adapter is not finite: the adapter or the base is damaged, the alpha is too \
                     large, or the dtype of the weight is too narrow (f16 ends at 65504)"
                ),
            }),
        }
    }
}

struct Merge {
    targets: Targets,
    factors: BTreeMap<ParamId, Factors>,
    /// The name of the first weight whose sum is not finite.
    not_finite: Option<String>,
}

impl Replace for Merge {
    fn replace<const D: usize>(
        &mut self,
        info: &ParameterInfo,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>> {
        let Some(factors) = self.factors.remove(&param.id) else {
            return param;
        };
        let experts = self.targets.get(&param.id).and_then(|own| own.experts);
        param.map(|weight| {
            let (device, dtype) = (weight.device(), weight.dtype());
            let computed = match dtype {
                DType::F64 => DType::F64,
                _ => DType::F32,
            };
            let options = (&device, computed);
            let sum = match experts {
                None => factors.of_layer(options, 0.0).apply(weight),
                Some(experts) => factors.of_experts(options, experts.axes).apply(weight),
            };
            let sum = sum.cast(dtype);
            if !is_finite(sum.clone()) {
                self.not_finite
                    .get_or_insert_with(|| info.name().to_owned());
            }
            sum
        })
    }
}

/// Returns `false` if a value is infinite or NaN. A tensor that can't be read is left to the program that reads it.
fn is_finite<const D: usize>(tensor: Tensor<D>) -> bool {
    // Products with zero are zero, or NaN.
    match tensor.mul_scalar(0.0).sum().try_into_vec_as::<f64>() {
        Ok(sum) => sum.iter().all(|sum| !sum.is_nan()),
        Err(_) => true,
    }
}

/// Gives each parameter the dtype of its name.
struct AsStored(BTreeMap<String, FloatDType>);

impl Replace for AsStored {
    fn replace<const D: usize>(
        &mut self,
        info: &ParameterInfo,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>> {
        match self.0.get(info.name()) {
            Some(dtype) => param.map(|value| value.cast(*dtype)),
            None => param,
        }
    }
}
