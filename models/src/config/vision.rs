//! The configuration of a vision tower: `vision_config` of a whole model, or the file of a tower that was saved alone.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::family::{Families, Tower, Vision};
use super::fields::{Fields, brief};
use super::{Architecture, MAX_LAYERS, ModelConfig};
use crate::ModelError;
use crate::vision::Marks;

/// The field of a whole model.
const FIELD: &str = "vision_config";

/// The largest side of a patch, of a block of patches, and the largest numbers of channels and of frames of a patch; several
/// times those of known models.
const MAX_SIDE: usize = 256;

/// The sizes and settings of a vision tower. Field names are those of `vision_config`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VisionConfig {
    pub(crate) architecture: Architecture,
    pub(crate) tower: Tower,
    /// Number of blocks.
    pub depth: usize,
    /// Width of a patch in the blocks.
    pub hidden_size: usize,
    /// Width of the MLP of a block.
    pub intermediate_size: usize,
    /// Number of heads. They divide the width of a patch.
    pub num_heads: usize,
    /// Number of channels of a picture.
    pub in_channels: usize,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Number of frames that a patch joins.
    pub temporal_patch_size: usize,
    /// Side in patches of a block of patches, which becomes one token.
    pub spatial_merge_size: usize,
    /// Width of a token.
    pub out_hidden_size: usize,
    /// The blocks with windows, in Qwen2.5-VL's towers.
    pub windows: Option<WindowedBlocks>,
    /// Side of the table of positions, the root of `num_position_embeddings`, in Qwen3-VL's and Qwen3.5's towers.
    pub table_side: Option<usize>,
    /// The blocks, counted from 0, whose features are added behind the layers of the text model: those of the first behind
    /// the first layer, and so on.
    pub deepstack_visual_indexes: Vec<usize>,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
    /// The tokens that stand for parts of pictures, of a whole model.
    pub(crate) marks: Option<Marks>,
}

/// The windows of a vision tower.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowedBlocks {
    /// Side of a window in pixels.
    pub window_size: usize,
    /// The blocks, counted from 0, in which a patch sees its whole frame.
    pub fullatt_block_indexes: Vec<usize>,
}

impl ModelConfig {
    /// Reads and checks `vision_config`, which is kept for saving and otherwise not read. Errors name the file `origin`.
    ///
    /// # Errors
    /// Returns [`ModelError::Field`] if the family has no vision tower that can be read, and for a missing or invalid field.
    pub fn vision_config(&self, origin: &Path) -> Result<VisionConfig, ModelError> {
        let [_, whole] = self.kept_fields();
        let whole = Fields::new(origin, "", whole);
        let Some(vision) = self.family().vision else {
            let problem = format!("a vision tower of {} is not read", self.architecture);
            return Err(whole.error("architectures", problem));
        };
        let own = whole.required(FIELD, whole.object(FIELD)?)?;
        let fields = Fields::new(origin, "vision_config.", own);
        if let Some(kind) = fields.string("model_type")? {
            refuse_other_type(fields, kind, vision)?;
        }
        let mut config = VisionConfig::parse(fields, self.architecture, vision.tower)?;
        if config.out_hidden_size != self.hidden_size {
            let problem = format!(
                "{} contradicts `hidden_size` of the text model, which is {}",
                config.out_hidden_size, self.hidden_size
            );
            return Err(fields.error("out_hidden_size", problem));
        }
        if config.deepstack_visual_indexes.len() > self.num_hidden_layers {
            let problem = format!(
                "features of {} blocks are more than the {} layers of the text model take",
                config.deepstack_visual_indexes.len(),
                self.num_hidden_layers
            );
            return Err(fields.error("deepstack_visual_indexes", problem));
        }
        let token = |name: &str| {
            let token = whole.required(name, whole.index(name)?)?;
            let problem = format!("{token} is not in 0..{} (vocab_size)", self.vocab_size);
            match token < self.vocab_size {
                true => Ok(token as i64),
                false => Err(whole.error(name, problem)),
            }
        };
        config.marks = Some(Marks {
            image: token("image_token_id")?,
            video: token("video_token_id")?,
        });
        Ok(config)
    }
}

impl VisionConfig {
    /// Returns the tokens that stand for parts of pictures and of clips. `None` for a tower that was saved alone.
    pub fn marks(&self) -> Option<Marks> {
        self.marks
    }
}

fn refuse_other_type(fields: Fields<'_>, kind: &str, vision: Vision) -> Result<(), ModelError> {
    match vision.model_types.contains(&kind) {
        true => Ok(()),
        false => {
            let supported = vision.model_types.join(", ");
            let problem = format!("`{kind}` is not supported; supported: {supported}");
            Err(fields.error("model_type", problem))
        }
    }
}

impl VisionConfig {
    /// Reads the `config.json` of a vision tower that was saved alone. Returns `None` for a file of something else.
    pub(crate) fn alone(
        object: &Map<String, Value>,
        origin: &Path,
        families: Families,
    ) -> Result<Option<Self>, ModelError> {
        let fields = Fields::new(origin, "", object);
        let kind = fields.string("model_type")?;
        let found = Architecture::ALL.into_iter().find_map(|architecture| {
            let alone = families.of(architecture).vision?.alone;
            let own = alone.iter().find(|(own, _)| Some(*own) == kind);
            own.map(|&(_, tower)| (architecture, tower))
        });
        found
            .map(|(architecture, tower)| Self::parse(fields, architecture, tower))
            .transpose()
    }

    fn parse(
        fields: Fields<'_>,
        architecture: Architecture,
        tower: Tower,
    ) -> Result<Self, ModelError> {
        let size = |name| fields.required(name, fields.size(name)?);
        let small = |name: &str, default: Option<usize>| {
            let found = fields.required(name, fields.size(name)?.or(default))?;
            match found <= MAX_SIDE {
                true => Ok(found),
                false => {
                    Err(fields.error(name, format!("expected at most {MAX_SIDE}, found {found}")))
                }
            }
        };
        refuse_other_settings(fields, tower)?;
        // Qwen2.5-VL's own files call it so.
        let channels = match fields.size("in_channels")? {
            None => "in_chans",
            Some(_) => "in_channels",
        };
        let depth = size("depth")?;
        if depth > MAX_LAYERS {
            return Err(fields.error(
                "depth",
                format!("expected at most {MAX_LAYERS}, found {depth}"),
            ));
        }
        let config = Self {
            architecture,
            tower,
            depth,
            hidden_size: size("hidden_size")?,
            intermediate_size: size("intermediate_size")?,
            num_heads: size("num_heads")?,
            in_channels: small(channels, Some(3))?,
            patch_size: small("patch_size", None)?,
            temporal_patch_size: small("temporal_patch_size", Some(2))?,
            spatial_merge_size: small("spatial_merge_size", Some(2))?,
            out_hidden_size: size("out_hidden_size")?,
            windows: match tower {
                Tower::Qwen2_5 { .. } => Some(WindowedBlocks {
                    window_size: size("window_size")?,
                    fullatt_block_indexes: indices(fields, "fullatt_block_indexes", depth)?,
                }),
                Tower::Qwen3 { .. } => None,
            },
            table_side: match tower {
                Tower::Qwen2_5 { .. } => None,
                Tower::Qwen3 { .. } => Some(table_side(fields)?),
            },
            deepstack_visual_indexes: match tower {
                Tower::Qwen3 { deepstack: true } => {
                    indices(fields, "deepstack_visual_indexes", depth)?
                }
                Tower::Qwen3 { deepstack: false } => no_deepstack(fields)?,
                Tower::Qwen2_5 { .. } => Vec::new(),
            },
            initializer_range: fields.number("initializer_range")?.unwrap_or(0.02),
            marks: None,
        };
        config.check(fields)?;
        Ok(config)
    }

    /// Checks conditions on several fields.
    fn check(&self, fields: Fields<'_>) -> Result<(), ModelError> {
        let Self {
            hidden_size,
            num_heads,
            ..
        } = *self;
        let fail = |field: &str, problem: String| Err(fields.error(field, problem));
        if !hidden_size.is_multiple_of(4 * num_heads) {
            let problem = format!(
                "{num_heads} heads do not divide `hidden_size`, {hidden_size}, into heads of whole fours, two pairs that \
                 rotate by row and column"
            );
            return fail("num_heads", problem);
        }
        let block = self.spatial_merge_size * self.patch_size;
        if let Some(windows) = &self.windows
            && windows.window_size < block
        {
            let problem = format!(
                "{} pixels are less than a block of patches, {block}",
                windows.window_size
            );
            return fail("window_size", problem);
        }
        if !(self.initializer_range.is_finite() && self.initializer_range >= 0.0) {
            let problem = format!("expected a number from 0, found {}", self.initializer_range);
            return fail("initializer_range", problem);
        }
        if self.parameter_bytes() > isize::MAX as u128 {
            return fail(
                "depth",
                "together the sizes exceed the address space".into(),
            );
        }
        Ok(())
    }

    /// Returns an upper bound of the memory for all weights in `f64`, in bytes. Sizes have 31 bits and the small ones 8.
    fn parameter_bytes(&self) -> u128 {
        let [hidden, inner, out, depth] = [
            self.hidden_size,
            self.intermediate_size,
            self.out_hidden_size,
            self.depth,
        ]
        .map(|size| size as u128);
        let joined = hidden * (self.spatial_merge_size * self.spatial_merge_size) as u128;
        let mergers = 1 + self.deepstack_visual_indexes.len() as u128;
        let block = hidden * (4 * hidden + 3 * inner + 16);
        let table = self.table_side.map_or(0, |side| (side * side) as u128);
        8 * (depth * block
            + mergers * joined * (joined + out + 4)
            + hidden * (self.pixels() as u128 + table))
    }

    /// Returns the number of values of a patch: the width of `pixel_values`.
    pub fn pixels(&self) -> usize {
        self.in_channels * self.temporal_patch_size * self.patch_size * self.patch_size
    }

    /// Returns the side of a window in blocks of patches.
    pub(crate) fn window_side(&self) -> Option<usize> {
        let windows = self.windows.as_ref()?;
        Some(windows.window_size / self.spatial_merge_size / self.patch_size)
    }

    /// Returns `true` if a patch sees its window alone in a block, counted from 0.
    pub(crate) fn has_window(&self, block: usize) -> bool {
        let windows = self.windows.as_ref();
        windows.is_some_and(|windows| !windows.fullatt_block_indexes.contains(&block))
    }
}

/// Reads numbers of blocks, each once and in order.
fn indices(fields: Fields<'_>, name: &str, depth: usize) -> Result<Vec<usize>, ModelError> {
    let found = fields.required(name, fields.indices(name)?)?;
    match found.is_sorted_by(|one, next| one < next) && found.iter().all(|&block| block < depth) {
        true => Ok(found),
        false => {
            let problem = format!(
                "expected numbers of blocks in order, each once and below `depth`, {depth}"
            );
            Err(fields.error(name, problem))
        }
    }
}

fn table_side(fields: Fields<'_>) -> Result<usize, ModelError> {
    let name = "num_position_embeddings";
    let entries = fields.required(name, fields.size(name)?)?;
    let side = entries.isqrt();
    match side * side == entries {
        true => Ok(side),
        false => Err(fields.error(name, format!("{entries} is not a square number"))),
    }
}

fn no_deepstack(fields: Fields<'_>) -> Result<Vec<usize>, ModelError> {
    let name = "deepstack_visual_indexes";
    match fields.indices(name)?.unwrap_or_default() {
        found if found.is_empty() => Ok(found),
        _ => Err(fields.error(
            name,
            "the text model of this family does not take features of blocks",
        )),
    }
}

/// Refuses other values of settings that are fixed in towers.
fn refuse_other_settings(fields: Fields<'_>, tower: Tower) -> Result<(), ModelError> {
    let own = match tower {
        Tower::Qwen2_5 { .. } => "silu",
        Tower::Qwen3 { .. } => "gelu_pytorch_tanh",
    };
    if let Some(other) = fields.string("hidden_act")?
        && other != own
    {
        let problem = format!("`{other}` is not supported; supported: {own}");
        return Err(fields.error("hidden_act", problem));
    }
    let Some(rope) = fields.object("rope_parameters")? else {
        return Ok(());
    };
    for (name, own) in [
        ("rope_type", json!("axial")),
        ("rope_theta", json!(10_000.0)),
    ] {
        let other = rope.get(name).filter(|value| !value.is_null());
        let is_own =
            |value: &Value| *value == own || (own.is_f64() && value.as_f64() == own.as_f64());
        if let Some(other) = other.filter(|value| !is_own(value)) {
            let problem = format!("{} is not supported; supported: {own}", brief(other));
            return Err(fields.error(&format!("rope_parameters.{name}"), problem));
        }
    }
    Ok(())
}
