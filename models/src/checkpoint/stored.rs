//! The dtypes and names that parameters have in the files of a checkpoint.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Param;
use burn::tensor::{Device, FloatDType, Gradients, Tensor, TensorData};
use safetensors::Dtype;

use super::check::stored_ways;
use super::open::Checkpoint;
use super::shards::Shards;
use super::storage::Storage;
use crate::config::StoredDtype;
use crate::parameters::{ParameterInfo, Visit, gradients_as_stored, walk};
use crate::{Model, ModelError, OmniPart};

/// Returns the gradient of every parameter that has one, copied to the host, as [`Model::gradients`] does, by the names and in
/// the shapes of the files of the model's checkpoint: experts may be stacked there.
///
/// # Errors
/// Returns an error as [`load_part`](crate::load_part) does for a checkpoint that can't be opened.
pub fn stored_gradients(
    path: &Path,
    part: Option<OmniPart>,
    model: &Model,
    grads: &Gradients,
) -> Result<BTreeMap<String, TensorData>, ModelError> {
    let shards = Checkpoint::open_part(path, part)?.shards;
    let is_stored = |name: &str| shards.find(name).is_some();
    Ok(gradients_as_stored(model, grads, &is_stored))
}

/// Returns the dtype of each parameter in the files, by its name in memory. Quantised ones have that of `config.json`.
pub(crate) fn stored_dtypes(path: &Path) -> Result<BTreeMap<String, FloatDType>, ModelError> {
    let Checkpoint { config, shards, .. } = Checkpoint::open(path)?;
    // Nothing of it is initialised.
    let model = config.build(&Device::flex());
    let named = config.dtype.map(StoredDtype::float_dtype);
    let mut find = Find {
        shards: &shards,
        usual: named.unwrap_or(FloatDType::BF16),
        found: BTreeMap::new(),
    };
    walk(&model, &mut find);
    Ok(find.found)
}

struct Find<'a> {
    shards: &'a Shards,
    usual: FloatDType,
    found: BTreeMap<String, FloatDType>,
}

impl Visit for Find<'_> {
    fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
        let ways = stored_ways(self.shards, info, param.lazy_shape().as_slice());
        let first = ways.last().and_then(|way| way.first());
        let plain = first.filter(|part| self.shards.matrix(&part.name).is_none());
        let stored = plain.and_then(|part| self.shards.find(&part.name));
        let dtype = match stored.map(|(_, stored)| stored.storage) {
            Some(Storage::Plain(Dtype::F16)) => FloatDType::F16,
            Some(Storage::Plain(Dtype::BF16)) => FloatDType::BF16,
            Some(Storage::Plain(Dtype::F32)) => FloatDType::F32,
            Some(Storage::Plain(Dtype::F64)) => FloatDType::F64,
            _ => self.usual,
        };
        self.found.insert(info.name().to_owned(), dtype);
    }
}
