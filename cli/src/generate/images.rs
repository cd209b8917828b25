//! Pictures of prompts, as the model takes them.

use super::Args;
use super::prompts::{Content, Prompt};
use crate::text::Message;
use anyhow::bail;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
pub use kernels_images::Source;
use kernels_images::{Decoding, Images, Part, Patches, Placeholders, Processor};
use kernels_io::{escape_path, is_there};
use kernels_models::{ModelConfig, gguf};
use minijinja::value::Serde;
use serde_json::Value;
use std::path::Path;

/// A reader of pictures: turns those of prompts into patches and tokens, as the checkpoint's settings say.
#[derive(Debug)]
pub struct Reader {
    processor: Processor,
    placeholders: Placeholders,
}

/// The files that hold the settings of an image processor.
const SETTINGS: [&str; 2] = ["processor_config.json", "preprocessor_config.json"];

impl Reader {
    /// Reads the settings of the folder of a checkpoint.
    ///
    /// # Errors
    /// Returns an error that names the file if the model does not take pictures, or if its settings are
    /// missing or not supported.
    pub fn open(model: &Path, config: &ModelConfig) -> anyhow::Result<Self> {
        if gguf::find(model)?.is_some() {
            bail!(
                "{}: vision towers are not read from GGUF files; to generate with pictures, name the folder of a \
                 checkpoint with safetensors files",
                escape_path(model)
            );
        }
        let vision = config.vision_config(&model.join("config.json"))?;
        if !SETTINGS.iter().any(|name| is_there(&model.join(name))) {
            bail!(
                "{}: preprocessor_config.json and processor_config.json are both missing; one of them says how \
                 pictures become patches; copy that file from the original checkpoint",
                escape_path(model)
            );
        }
        let processor = Processor::open(model)?;
        let placeholders = Placeholders::of_folder(model, processor.merge_size())?;
        if processor.patch_width() != vision.pixels() {
            bail!(
                "the checkpoint's image processor makes patches of {} values, but those of `vision_config` in \
                 config.json have {}; patch_size and temporal_patch_size of both must be equal",
                processor.patch_width(),
                vision.pixels()
            );
        }
        Ok(Self {
            processor,
            placeholders,
        })
    }

    /// Returns the numbers of patches of each picture: frames, rows and columns.
    ///
    /// # Errors
    /// Returns an error that names a picture that can't be read.
    pub fn grids(&self, pictures: &[Source]) -> anyhow::Result<Vec<[usize; 3]>> {
        let one = |picture: &Source| -> anyhow::Result<[usize; 3]> {
            let pixels = picture.read(&Decoding::default())?;
            Ok(self.processor.grid(&picture.to_string(), pixels.size())?)
        };
        pictures.iter().map(one).collect()
    }

    /// Returns the token ids of a prompt with as many placeholders as the model has rows of pictures.
    ///
    /// # Errors
    /// Returns an error if the prompt has more or fewer placeholders than pictures.
    pub fn expand(&self, ids: &[u32], grids: &[[usize; 3]]) -> anyhow::Result<Vec<u32>> {
        Ok(self.placeholders.expand(ids, grids)?.ids)
    }

    /// Returns `pixel_values` `[patches, values]` and `image_grid_thw` `[pictures, 3]` of at least one picture.
    ///
    /// # Errors
    /// Returns an error that names a picture that can't be read.
    pub fn tensors(
        &self,
        pictures: &[Source],
        device: &Device,
    ) -> anyhow::Result<(Tensor<2>, Tensor<2, Int>)> {
        let patches = self.patches(pictures)?;
        let grids = patches.iter().flat_map(Patches::grid);
        let grids: Vec<i64> = grids.map(|size| size as i64).collect();
        let grids = TensorData::new(grids, [patches.len(), 3]);
        let values = patches.into_iter().flat_map(Patches::into_values);
        let values: Vec<f32> = values.collect();
        let width = self.processor.patch_width();
        let shape = [values.len() / width, width];
        let values = TensorData::new(values, shape);
        Ok((
            Tensor::from_data(values, (device, DType::F32)),
            // Sizes are read by the host alone.
            Tensor::from_data(grids, (&Device::flex(), DType::I64)),
        ))
    }

    fn patches(&self, pictures: &[Source]) -> anyhow::Result<Vec<Patches>> {
        let one = |picture: &Source| -> anyhow::Result<Patches> {
            let pixels = picture.read(&Decoding::default())?;
            Ok(self.processor.patches(&picture.to_string(), &pixels)?)
        };
        pictures.iter().map(one).collect()
    }
}

/// Adds the pictures of `--image` to the only prompt, in a conversation before the text of the last message.
///
/// # Errors
/// Returns an error if there are several prompts, or if the prompt names pictures itself.
pub fn add(args: &Args, prompts: &mut [Prompt]) -> anyhow::Result<()> {
    let several = prompts.len();
    let [prompt] = prompts else {
        bail!(
            "--image adds pictures to one prompt, but there are {several}; give one, or name the pictures of each in a \
             .jsonl file, as parts {{\"type\": \"image\", \"path\": \"FILE\"}} of a message's `content`"
        );
    };
    if !prompt.pictures.is_empty() {
        bail!("the prompt names pictures itself; add those of --image there");
    }
    prompt.pictures = args.image.iter().cloned().map(Source::File).collect();
    if let Content::Messages(messages) = &mut prompt.content
        && let Some(last) = messages.last_mut()
    {
        let text = Part::Text(std::mem::take(&mut last.content));
        let pictures = prompt.pictures.iter().cloned().map(Part::Image);
        last.parts = for_template(pictures.chain([text]));
    }
    Ok(())
}

/// Returns a message whose content is a list of parts, and the pictures among them, whose paths are relative to
/// `folder`.
///
/// # Errors
/// Returns an error that names a part that is not supported.
pub fn message(
    role: &str,
    content: &Value,
    folder: &Path,
) -> anyhow::Result<(Message, Vec<Source>)> {
    let parts = Images::none(folder).parts(content)?;
    let message = Message {
        parts: for_template(parts.iter().cloned()),
        ..Message::new(role, "")
    };
    let picture = |part| match part {
        Part::Image(source) => Some(source),
        Part::Text(_) => None,
    };
    Ok((message, parts.into_iter().filter_map(picture).collect()))
}

fn for_template(parts: impl Iterator<Item = Part>) -> Vec<minijinja::Value> {
    parts
        .map(|part| Serde(part.for_template()).into())
        .collect()
}
