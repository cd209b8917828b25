//! The input file: token ids or embeddings, positions, padding, pictures, and weights of results.

use super::tensors::{self, Floats, Ids};
use super::weighted::{RESULT, WEIGHTS};
use anyhow::{Context, bail};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_io::Limit;
use kernels_models::Batch;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use std::collections::BTreeMap;
use std::path::Path;

/// The inputs of a model.
pub struct Inputs {
    /// Token ids `[b, s]`.
    input_ids: Option<Ids<2>>,
    /// The inputs of the layers in place of embedded tokens, `[b, s, width]`.
    inputs_embeds: Option<Floats>,
    /// The positions of each token. `None` means `0..s` in each row.
    position_ids: Option<Positions>,
    /// 1 for tokens and 0 for padding, `[b, s]`. `None` means no padding.
    attention_mask: Option<Ids<2>>,
    /// The patches of pictures, if there are any.
    pictures: Option<Pictures>,
    /// The weights of results, by the names of these.
    pub loss_weights: BTreeMap<String, Floats>,
}

/// The patches of pictures.
struct Pictures {
    /// The values of patches, `[patches, values]`.
    pixel_values: Floats,
    /// Frames, rows and columns of patches, `[pictures, 3]`.
    image_grid_thw: Ids<2>,
}

/// The positions of tokens.
enum Positions {
    /// One for each token, `[b, s]`.
    One(Ids<2>),
    /// Three for each token, `[3, b, s]`.
    Axes(Ids<3>),
}

impl Inputs {
    /// Returns the inputs of a language model as tensors, embeddings and pictures in the dtype of the run.
    ///
    /// # Errors
    /// Returns an error without token ids, and if the mask does not fit them. The model checks the rest.
    pub fn batch(&self, device: &Device, dtype: FloatDType) -> anyhow::Result<Batch> {
        let batch = Batch::new(self.input_ids(device)?);
        let batch = match &self.inputs_embeds {
            None => batch,
            Some(embedded) => batch.embedded(embedded.tensor(device, dtype)),
        };
        let batch = match &self.position_ids {
            None => batch,
            Some(Positions::One(ids)) => batch.at(ids.tensor(device)),
            Some(Positions::Axes(ids)) => batch.at_axes(ids.tensor(device)),
        };
        let batch = match &self.pictures {
            None => batch,
            Some(_) => {
                let (pixel_values, grid) = self.pictures(device, dtype)?;
                batch.with_pictures(pixel_values, grid)
            }
        };
        match &self.attention_mask {
            // The mask is read by the host alone.
            Some(mask) => Ok(batch.masked(&mask.tensor(&Device::flex()))?),
            None => Ok(batch),
        }
    }

    /// Returns `true` if there are pictures.
    pub fn has_pictures(&self) -> bool {
        self.pictures.is_some()
    }

    /// Returns the patches of pictures, in the dtype of the run, and their frames, rows and columns.
    ///
    /// # Errors
    /// Returns an error without pictures.
    pub fn pictures(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> anyhow::Result<(Tensor<2>, Tensor<2, Int>)> {
        let pictures = self.pictures.as_ref();
        let pictures = pictures.with_context(|| missing(PIXEL_VALUES))?;
        // Sizes are read by the host alone.
        let grid = pictures.image_grid_thw.tensor(&Device::flex());
        Ok((pictures.pixel_values.tensor(device, dtype), grid))
    }

    /// Returns the token ids.
    ///
    /// # Errors
    /// Returns an error without them.
    pub fn input_ids(&self, device: &Device) -> anyhow::Result<Tensor<2, Int>> {
        let ids = self.input_ids.as_ref();
        let ids = ids.with_context(|| missing(INPUT_IDS))?;
        Ok(ids.tensor(device))
    }

    /// Returns the embeddings in the dtype of the run.
    ///
    /// # Errors
    /// Returns an error without them.
    pub fn inputs_embeds(&self, device: &Device, dtype: FloatDType) -> anyhow::Result<Tensor<3>> {
        let embedded = self.inputs_embeds.as_ref();
        let embedded = embedded.with_context(|| missing(INPUTS_EMBEDS))?;
        Ok(embedded.tensor(device, dtype))
    }

    /// Refuses inputs that a model does not take.
    ///
    /// # Errors
    /// Returns an error that names the first, and the model.
    pub fn refuse_others(&self, taken: &[&str], model: &str) -> anyhow::Result<()> {
        let present = [
            (INPUT_IDS, self.input_ids.is_some()),
            (INPUTS_EMBEDS, self.inputs_embeds.is_some()),
            (POSITION_IDS, self.position_ids.is_some()),
            (ATTENTION_MASK, self.attention_mask.is_some()),
            (PIXEL_VALUES, self.pictures.is_some()),
        ];
        let mut present = present.into_iter();
        match present.find(|(name, is_there)| *is_there && !taken.contains(name)) {
            None => Ok(()),
            Some((name, _)) => bail!("{model} does not take the tensor `{name}`; leave it out"),
        }
    }
}

fn missing(name: &str) -> String {
    format!("tensor `{name}` is missing")
}

/// Reads the file.
///
/// # Errors
/// Returns an error that names the file and the tensor if the file can't be read or is not a safetensors file, or if a
/// tensor is missing, unknown, or of another dtype or rank. The model checks the values.
pub fn read(path: &Path) -> anyhow::Result<Inputs> {
    // The file may also hold results, with gradients of every parameter among them.
    const LIMIT: Limit = Limit::mib("token ids and results", 4 << 10);
    let name = kernels_io::escape_path(path);
    let bytes = kernels_io::read(path, LIMIT)?;
    let tensors = SafeTensors::deserialize(&bytes)
        .with_context(|| format!("{name} is not a complete safetensors file"))?;
    parse(&tensors).context(name)
}

fn parse(tensors: &SafeTensors<'_>) -> anyhow::Result<Inputs> {
    for name in tensors.names() {
        if let Some((_, what)) = UNBUILT.iter().find(|(own, _)| *own == name) {
            bail!(
                "tensor `{name}` is for {what}, which is not supported; leave it out to run text alone"
            );
        }
        let is_known = INPUTS.contains(&name) || name == IGNORED || name.starts_with(WEIGHTS);
        if !is_known && !is_result(name) {
            bail!(
                "tensor `{}` is unknown; inputs are `{}` and `{WEIGHTS}…`",
                kernels_io::escape(name),
                INPUTS.join("`, `")
            );
        }
    }
    let ids = |name| tensors::read(tensors, name, |view| Ids::of(view, "[b, s]"));
    let embedded = |view: &TensorView<'_>| Floats::of(view, Some(3), "[b, s, width]");
    let mut loss_weights = BTreeMap::new();
    for name in tensors.names() {
        if let Some(result) = name.strip_prefix(WEIGHTS) {
            let read = |view: &TensorView<'_>| Floats::of(view, None, "of the result");
            let weights = tensors::read(tensors, name, read)?;
            loss_weights.extend(weights.map(|weights| (result.to_owned(), weights)));
        }
    }
    Ok(Inputs {
        input_ids: ids(INPUT_IDS)?,
        inputs_embeds: tensors::read(tensors, INPUTS_EMBEDS, embedded)?,
        position_ids: tensors::read(tensors, POSITION_IDS, positions)?,
        attention_mask: ids(ATTENTION_MASK)?,
        pictures: pictures(tensors)?,
        loss_weights,
    })
}

pub const INPUT_IDS: &str = "input_ids";
pub const INPUTS_EMBEDS: &str = "inputs_embeds";
pub const POSITION_IDS: &str = "position_ids";
pub const ATTENTION_MASK: &str = "attention_mask";
pub const PIXEL_VALUES: &str = "pixel_values";
const IMAGE_GRID: &str = "image_grid_thw";
const INPUTS: [&str; 6] = [
    INPUT_IDS,
    INPUTS_EMBEDS,
    POSITION_IDS,
    ATTENTION_MASK,
    PIXEL_VALUES,
    IMAGE_GRID,
];

/// An input of `transformers` that follows from the token ids.
const IGNORED: &str = "mm_token_type_ids";

/// The inputs of parts of models that are not supported.
const UNBUILT: [(&str, &str); 5] = [
    ("input_features", "an encoder of audio"),
    ("feature_attention_mask", "an encoder of audio"),
    ("audio_feature_lengths", "an encoder of audio"),
    ("pixel_values_videos", "a reader of videos"),
    ("video_grid_thw", "a reader of videos"),
];

/// Reads the patches of pictures, if there are any.
fn pictures(tensors: &SafeTensors<'_>) -> anyhow::Result<Option<Pictures>> {
    let values = |view: &TensorView<'_>| Floats::of(view, Some(2), "[patches, values]");
    let pixel_values = tensors::read(tensors, PIXEL_VALUES, values)?;
    let grid = |view: &TensorView<'_>| Ids::of(view, "[pictures, 3]");
    let grid = tensors::read(tensors, IMAGE_GRID, grid)?;
    match (pixel_values, grid) {
        (None, None) => Ok(None),
        (Some(pixel_values), Some(image_grid_thw)) => Ok(Some(Pictures {
            pixel_values,
            image_grid_thw,
        })),
        (Some(_), None) => bail!("tensor `{IMAGE_GRID}` is missing: the sizes of the pictures"),
        (None, Some(_)) => bail!("tensor `{PIXEL_VALUES}` is missing: the patches of the pictures"),
    }
}

fn positions(view: &TensorView<'_>) -> anyhow::Result<Positions> {
    match view.shape().len() {
        3 => Ok(Positions::Axes(Ids::of(view, "[3, b, s]")?)),
        _ => Ok(Positions::One(Ids::of(view, "[b, s] or [3, b, s]")?)),
    }
}

/// Returns `true` for the names of results. Files of expected values hold them beside the inputs; they are ignored.
fn is_result(name: &str) -> bool {
    let results = [
        "logits",
        "loss",
        "grad.",
        "act.",
        RESULT,
        "out_f64.",
        "out_bf16.",
    ];
    results.iter().any(|result| name.starts_with(result))
}
