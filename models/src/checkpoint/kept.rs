//! Weights of linear layers that stay in the form in which files hold them.

use kernels_quant::gguf::Block;
use kernels_quant::{Dtype, OwnedPart, OwnedWeight};

use super::file::{Change, StoredTensor, TensorFile};
use super::matrices;
use super::shards::Shards;
use super::source::Source;
use super::storage::Storage;
use crate::ModelError;
use crate::parameters::ParameterInfo;
use crate::parameters::layout::Part;

/// The linear layers whose weights are read by more than their own products: routers, and the output projection, which losses
/// multiply with hidden states in blocks.
const DECODED: [&str; 4] = ["gate", "router", "shared_expert_gate", "lm_head"];

/// Returns the tensor of a linear layer's weight that can stay in quantised form, and its shape. Returns `None` for other
/// parameters: those of several tensors, routers, embeddings and the output projection.
fn of_layer<'a>(info: &ParameterInfo, parts: &'a [Part]) -> Option<(&'a Part, [usize; 2])> {
    let layer = info.linear_layer()?;
    let name = layer.rsplit('.').next().unwrap_or(layer);
    match parts {
        [part] if !DECODED.contains(&name) => Some((part, part.shape.as_slice().try_into().ok()?)),
        _ => None,
    }
}

/// Returns `true` for the quantised weight of a linear layer, which can stay as a file holds it.
pub(super) fn can_stay(shards: &Shards, info: &ParameterInfo, parts: &[Part]) -> bool {
    of_layer(info, parts).is_some_and(|(part, _)| {
        shards.matrix(&part.name).is_some() || stored_blocks(shards, part).is_some()
    })
}

/// Returns the weight of a linear layer in NF4, quantised from its floats. Returns `None` for other parameters.
pub(super) fn in_nf4(
    shards: &Shards,
    info: &ParameterInfo,
    parts: &[Part],
) -> Result<Option<OwnedWeight>, ModelError> {
    let Some((part, shape @ [rows, columns])) = of_layer(info, parts) else {
        return Ok(None);
    };
    let mut numbers = vec![0.0_f32; rows * columns];
    let source = Source::open(shards, part);
    source.read(&mut numbers)?;
    source.check_finite(0, &numbers)?;
    Ok(Some(OwnedWeight::nf4(shape, &numbers)))
}

/// Returns the quantised weight of a linear layer as a file holds it. Returns `None` for other parameters and for floats.
///
/// Every number of it is finite.
pub(super) fn weight(
    shards: &Shards,
    info: &ParameterInfo,
    parts: &[Part],
) -> Result<Option<OwnedWeight>, ModelError> {
    let Some((part, shape @ [rows, _])) = of_layer(info, parts) else {
        return Ok(None);
    };
    if let Some(matrix) = shards.matrix(&part.name) {
        let parts = matrix.read(shape)?;
        Source::of(&parts)?.check(rows)?;
        return parts.into_owned().map(Some);
    }
    blocks(shards, part, shape)
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
