//! The weights of a model that its files hold in quantised form.

use std::collections::BTreeMap;
use std::{fmt, slice};

use burn::module::Param;
use burn::tensor::Tensor;
use kernels_quant::Mxfp4;

use super::check::stored_ways;
use super::inspect::StoredType;
use super::kept;
use super::shards::Shards;
use super::storage::Storage;
use crate::parameters::layout::{Encoding, Part};
use crate::parameters::{Configured, ParameterInfo, Visit, walk};

/// The weights of a model, as its files hold them.
#[derive(Default)]
pub(super) struct Weights {
    /// The quantised weights, by the names of their encodings. Their elements are those of the model.
    pub(super) encodings: BTreeMap<String, StoredType>,
    /// The quantised weights that can stay quantised in memory.
    pub(super) kept: StoredType,
    /// All weights by their layer, or their module outside of layers, in the order of the model.
    pub(super) layers: Vec<(String, StoredType)>,
}

/// Returns the weights of a model.
pub(super) fn weights(shards: &Shards, model: &impl Configured) -> Weights {
    let mut sum = Sum {
        shards,
        found: Weights::default(),
    };
    walk(model, &mut sum);
    sum.found
}

/// Returns the beginning of a sentence on quantised weights, such as `14 tensors in Q8_0 (8.50 bits a weight)`. Returns `None`
/// if there are none.
pub(super) fn described(weights: &BTreeMap<String, StoredType>) -> Option<String> {
    let all: Vec<String> = weights.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn one((encoding, own): (&String, &StoredType)) -> String {
    let s = if own.tensors == 1 { "" } else { "s" };
    let (count, bits) = (own.tensors, own.bits());
    format!("{count} tensor{s} in {encoding} ({bits:.2} bits a weight)")
}

struct Sum<'a> {
    shards: &'a Shards,
    found: Weights,
}

impl Sum<'_> {
    /// Returns the numbers of elements and of bytes.
    fn size(&self, shape: &[usize], parts: &[Part]) -> (u64, u64) {
        let bytes = parts.iter().map(|part| self.shards.bytes_of(&part.name));
        let elements = shape.iter().map(|&side| side as u64).product();
        (elements, bytes.sum())
    }

    fn add(&mut self, encoding: impl fmt::Display, shape: &[usize], parts: &[Part], stays: bool) {
        let (elements, bytes) = self.size(shape, parts);
        let own = self.found.encodings.entry(encoding.to_string());
        own.or_default().add(elements, bytes);
        if stays {
            self.found.kept.add(elements, bytes);
        }
    }

    fn add_to_layer(&mut self, name: &str, shape: &[usize], parts: &[Part]) {
        let (elements, bytes) = self.size(shape, parts);
        let (layer, layers) = (layer_of(name), &mut self.found.layers);
        if layers.last().is_none_or(|(last, _)| last != layer) {
            layers.push((layer.to_owned(), StoredType::default()));
        }
        if let Some((_, own)) = layers.last_mut() {
            own.add(elements, bytes);
        }
    }
}

/// Returns the layer of a parameter, such as `model.layers.3`, or its module outside of layers.
fn layer_of(name: &str) -> &str {
    const LAYERS: &str = "layers.";
    let end = match name.find(LAYERS) {
        Some(at) => {
            let number = at + LAYERS.len();
            let dot = name[number..].find('.');
            dot.map_or(name.len(), |dot| number + dot)
        }
        None => name.rfind('.').unwrap_or(name.len()),
    };
    &name[..end]
}

impl Visit for Sum<'_> {
    fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape();
        let Some(parts) = stored_ways(self.shards, info, shape.as_slice()).pop() else {
            return;
        };
        self.add_to_layer(info.name(), shape.as_slice(), &parts);
        let stays = kept::can_stay(self.shards, info, &parts);
        if parts[0].encoding == Encoding::Mxfp4 {
            return self.add(Mxfp4, shape.as_slice(), &parts, stays);
        }
        for part in &parts {
            let stored = self.shards.find(&part.name);
            let own = slice::from_ref(part);
            if let Some(matrix) = self.shards.matrix(&part.name) {
                self.add(matrix.encoding, &part.shape, own, stays);
            } else if let Some(Storage::Blocks(block)) = stored.map(|(_, info)| info.storage) {
                self.add(block, &part.shape, own, stays);
            }
        }
    }
}
