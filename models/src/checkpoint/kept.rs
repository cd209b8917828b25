//! Weights of linear layers and experts and tables of embeddings that stay in the form in which files hold them.

use burn::module::ParamId;
use burn_kernels::nn::StoredExperts;
use burn_kernels::semantics::ExpertLayout;
use kernels_quant::gguf::Block;
use kernels_quant::{Dtype, OwnedPart, OwnedWeight};

use super::file::{Change, StoredTensor, TensorFile};
use super::matrices::{self, Parts};
use super::shards::Shards;
use super::source::Source;
use super::storage::Storage;
use crate::ModelError;
use crate::config::family::Axes;
use crate::parameters::ParameterInfo;
use crate::parameters::layout::{Encoding, Part};

/// The routers, whose weights are read by more than their own products.
const ROUTERS: [&str; 3] = ["gate", "router", "shared_expert_gate"];

/// The output projections, which bitsandbytes leaves in floats, as it does embeddings.
const HEADS: [&str; 1] = ["lm_head"];

/// The start of the names of a vision tower. Its table of positions is interpolated, and not looked up.
const TOWER: &str = "visual.";

/// The quantised weights of a model by the ids of their parameters.
#[derive(Default)]
pub(super) struct Kept {
    /// The weights of linear layers.
    pub(super) layers: Vec<(ParamId, OwnedWeight)>,
    /// The tables of embeddings.
    pub(super) tables: Vec<(ParamId, OwnedWeight)>,
    /// The weights of the experts of mixtures.
    pub(super) experts: Vec<(ParamId, StoredExperts)>,
}

impl Kept {
    /// Adds the weight of a linear layer or an embedding.
    pub(super) fn add(&mut self, info: &ParameterInfo, id: ParamId, weight: OwnedWeight) {
        let all = match info.is_table {
            true => &mut self.tables,
            false => &mut self.layers,
        };
        all.push((id, weight));
    }
}

/// Returns the tensor of a linear layer's weight, or of a table of embeddings, that can stay in quantised form, and its
/// shape. Returns `None` for other parameters, those of several tensors, and routers.
fn of_matrix<'a>(info: &ParameterInfo, parts: &'a [Part]) -> Option<(&'a Part, [usize; 2])> {
    let is_table = info.is_table && !info.name().starts_with(TOWER);
    let stays = is_table
        || info
            .linear_layer()
            .is_some_and(|layer| !is_one(layer, &ROUTERS));
    match parts {
        [part] if stays => Some((part, part.shape.as_slice().try_into().ok()?)),
        _ => None,
    }
}

/// Returns `true` if the last part of a layer's name is one of these.
fn is_one(layer: &str, names: &[&str]) -> bool {
    let name = layer.rsplit('.').next().unwrap_or(layer);
    names.contains(&name)
}

/// Returns `true` for the quantised weight of a linear layer or an embedding, and for those of experts, which can stay
/// as files hold them.
pub(super) fn can_stay(shards: &Shards, info: &ParameterInfo, parts: &[Part]) -> bool {
    if info.experts().is_some() {
        return stack(parts).is_some() || one_by_one(shards, info, parts);
    }
    of_matrix(info, parts).is_some_and(|(part, _)| {
        shards.matrix(&part.name).is_some() || stored_blocks(shards, part).is_some()
    })
}

/// Returns the weight of a linear layer in NF4, quantised from its floats. Returns `None` for other parameters, and for
/// output projections.
pub(super) fn in_nf4(
    shards: &Shards,
    info: &ParameterInfo,
    parts: &[Part],
) -> Result<Option<OwnedWeight>, ModelError> {
    let layer = info.linear_layer();
    let layer = layer.filter(|layer| !is_one(layer, &HEADS));
    let Some((part, shape @ [rows, columns])) = layer.and_then(|_| of_matrix(info, parts)) else {
        return Ok(None);
    };
    let mut numbers = vec![0.0_f32; rows * columns];
    let source = Source::open(shards, part);
    source.read(&mut numbers)?;
    source.check_finite(0, &numbers)?;
    Ok(Some(OwnedWeight::nf4(shape, &numbers)))
}

/// Returns the quantised weight of a linear layer or an embedding as a file holds it. Returns `None` for other
/// parameters and for floats.
///
/// Every number of it is finite.
pub(super) fn weight(
    shards: &Shards,
    info: &ParameterInfo,
    parts: &[Part],
) -> Result<Option<OwnedWeight>, ModelError> {
    let Some((part, shape @ [rows, _])) = of_matrix(info, parts) else {
        return Ok(None);
    };
    if let Some(matrix) = shards.matrix(&part.name) {
        let parts = matrix.read(shape)?;
        Source::of(&parts)?.check(rows)?;
        return parts.into_owned().map(Some);
    }
    blocks(shards, part, shape)
}

/// Returns the blocks and the scales of a stack of experts in MXFP4, if these hold them.
fn stack(parts: &[Part]) -> Option<[&Part; 2]> {
    match parts {
        [blocks, scales] if blocks.encoding == Encoding::Mxfp4 => Some([blocks, scales]),
        _ => None,
    }
}

/// Returns `true` if each tensor of experts that are stored one by one is quantised, `[outputs, inputs]`.
fn one_by_one(shards: &Shards, info: &ParameterInfo, parts: &[Part]) -> bool {
    let axes = info.experts().map(|(_, axes)| axes);
    let is_matrix = |part: &Part| {
        let is_plain = part.encoding == Encoding::Floats && part.shape.len() == 2;
        is_plain && shards.matrix(&part.name).is_some()
    };
    axes == Some(Axes::OutIn) && parts.iter().all(is_matrix)
}

/// Returns the quantised weights of `count` experts as files hold them. Returns `None` for other parameters, and if
/// they are floats in part.
///
/// Every number of them is finite.
pub(super) fn experts(
    shards: &Shards,
    info: &ParameterInfo,
    parts: &[Part],
    count: usize,
) -> Result<Option<StoredExperts>, ModelError> {
    if count == 0 || !can_stay(shards, info, parts) || info.experts().is_none() {
        return Ok(None);
    }
    let checked = |parts: Parts, rows| {
        Source::of(&parts)?.check(rows)?;
        parts.into_owned()
    };
    let (experts, layout): (Result<Vec<Vec<OwnedWeight>>, ModelError>, _) = match stack(parts) {
        Some(stack @ [_, scales]) => {
            let one = |at| {
                let parts = Parts::of_stack(shards, stack, at)?;
                Ok(vec![checked(parts, scales.shape[1])?])
            };
            ((0..count).map(one).collect(), ExpertLayout::Matmul)
        }
        None => {
            let one = |part: &Part| {
                let (Some(matrix), &[rows, columns]) =
                    (shards.matrix(&part.name), part.shape.as_slice())
                else {
                    unreachable!("every tensor was found to be a quantised matrix");
                };
                checked(matrix.read([rows, columns])?, rows)
            };
            let each = parts.chunks(parts.len() / count);
            let each = each.map(|parts| parts.iter().map(one).collect());
            (each.collect(), ExpertLayout::Linear)
        }
    };
    Ok(Some(StoredExperts::new(experts?, layout)))
}

/// Returns a tensor of a GGUF file whose blocks can stay, at most in another order of rows.
fn stored_blocks<'a>(
    shards: &'a Shards,
    part: &Part,
) -> Option<(&'a TensorFile, &'a StoredTensor, Block)> {
    let (file, info) = shards.find(&part.name)?;
    match (info.storage, info.change) {
        (Storage::Blocks(block), Change::None | Change::PairedRows(_)) => Some((file, info, block)),
        _ => None,
    }
}

/// Returns a weight of a GGUF file, with its rows in the order of the model.
fn blocks(
    shards: &Shards,
    part: &Part,
    shape @ [rows, _]: [usize; 2],
) -> Result<Option<OwnedWeight>, ModelError> {
    let Some((file, info, block)) = stored_blocks(shards, part) else {
        return Ok(None);
    };
    let source = Source::open(shards, part);
    source.check(rows)?;
    let mut bytes = file.read(info)?;
    let row = bytes.len() / rows;
    if info.change != Change::None {
        let stored = bytes.clone();
        for (at, stored) in stored.chunks_exact(row).enumerate() {
            let place = source.place(at, rows) * row;
            bytes[place..place + row].copy_from_slice(stored);
        }
    }
    let blocks = OwnedPart {
        name: "blocks".into(),
        dtype: Dtype::U8,
        shape: vec![rows, row],
        bytes,
    };
    let weight = OwnedWeight::new(block, shape, vec![blocks]);
    weight
        .map(Some)
        .map_err(|error| matrices::error(file.path(), &part.name, error.to_string()))
}
