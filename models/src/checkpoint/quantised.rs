//! The weights of a model that its files hold in quantised form.

use std::collections::BTreeMap;
use std::{fmt, slice};

use burn::module::Param;
use burn::tensor::Tensor;
use kernels_quant::Mxfp4;

use super::check::stored_ways;
use super::inspect::StoredType;
use super::shards::Shards;
use super::storage::Storage;
use crate::parameters::layout::{Encoding, Part};
use crate::parameters::{Configured, ParameterInfo, Visit, walk};

/// Returns the quantised weights by the names of their encodings. Their elements are those of the model.
pub(super) fn weights(shards: &Shards, model: &impl Configured) -> BTreeMap<String, StoredType> {
    let mut sum = Sum {
        shards,
        found: BTreeMap::new(),
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
    found: BTreeMap<String, StoredType>,
}

impl Sum<'_> {
    fn add(&mut self, encoding: impl fmt::Display, shape: &[usize], parts: &[Part]) {
        let elements = shape.iter().map(|&side| side as u64).product();
        let bytes = parts.iter().map(|part| self.shards.bytes_of(&part.name));
        let own = self.found.entry(encoding.to_string()).or_default();
        own.add(elements, bytes.sum());
    }
}

impl Visit for Sum<'_> {
    fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape();
        let Some(parts) = stored_ways(self.shards, info, shape.as_slice()).pop() else {
            return;
        };
        if parts[0].encoding == Encoding::Mxfp4 {
            return self.add(Mxfp4, shape.as_slice(), &parts);
        }
        for part in &parts {
            let stored = self.shards.find(&part.name);
            let own = slice::from_ref(part);
            if let Some(matrix) = self.shards.matrix(&part.name) {
                self.add(matrix.encoding, &part.shape, own);
            } else if let Some(Storage::Blocks(block)) = stored.map(|(_, info)| info.storage) {
                self.add(block, &part.shape, own);
            }
        }
    }
}
