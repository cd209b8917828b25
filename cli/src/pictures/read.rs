//! Pictures in files, read as a checkpoint's settings say.

use super::Content;
use crate::training::identity::Fingerprint;
use anyhow::{bail, ensure};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
pub use kernels_images::Source;
use kernels_images::{Decoding, Part, Patches, Picture as Pixels, Placeholders, Processor};
use kernels_io::{escape, escape_path, is_there};
use kernels_models::vision::{Grid, Tokens};
use kernels_models::{ModelConfig, VisionConfig, gguf};
use minijinja::value::Serde;
use serde_json::{Map, Value};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A reader of pictures: turns them into patches and tokens, as the checkpoint's settings say.
#[derive(Debug)]
pub struct Reader {
    processor: Processor,
    placeholders: Placeholders,
    vision: VisionConfig,
    /// The settings that decide the patches of resized pictures, for fingerprints.
    settings: Vec<u8>,
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
                "{}: vision towers are not read from GGUF files; for pictures, name the folder of a checkpoint with \
                 safetensors files",
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
        for (name, own, tower_name, tower) in [
            (
                "patch_size",
                processor.patch_size(),
                "patch_size",
                vision.patch_size,
            ),
            (
                "temporal_patch_size",
                processor.temporal_patch_size(),
                "temporal_patch_size",
                vision.temporal_patch_size,
            ),
            (
                "merge_size",
                processor.merge_size(),
                "spatial_merge_size",
                vision.spatial_merge_size,
            ),
            (
                "number of values of a patch",
                processor.patch_width(),
                "number by patch_size, temporal_patch_size and channels",
                vision.pixels(),
            ),
        ] {
            ensure!(
                own == tower,
                "the checkpoint's image processor has a {name} of {own}, but `vision_config` in config.json has a \
                 {tower_name} of {tower}; both must be equal"
            );
        }
        Ok(Self {
            settings: settings(&processor),
            processor,
            placeholders,
            vision,
        })
    }

    /// Returns the numbers of patches of each picture: frames, rows and columns.
    ///
    /// # Errors
    /// Returns an error that names a picture that can't be read.
    pub fn grids(&self, pictures: &[Source]) -> anyhow::Result<Vec<[usize; 3]>> {
        let one = |picture: &Source| -> anyhow::Result<[usize; 3]> {
            self.grid(picture, &picture.read(&Decoding::default())?)
        };
        pictures.iter().map(one).collect()
    }

    /// Returns the token ids of a prompt with as many placeholders as the model has rows of pictures.
    ///
    /// # Errors
    /// Returns an error if the prompt has more or fewer placeholders than pictures.
    pub fn expand(&self, ids: &[u32], grids: &[[usize; 3]]) -> anyhow::Result<Vec<u32>> {
        Ok(self.expanded(ids, grids)?.0)
    }

    /// Returns the token ids of [`expand`](Self::expand), and those of each picture among them.
    ///
    /// # Errors
    /// Returns an error as `expand` does.
    pub fn expanded(
        &self,
        ids: &[u32],
        grids: &[[usize; 3]],
    ) -> anyhow::Result<(Vec<u32>, Vec<Range<usize>>)> {
        let expanded = self.placeholders.expand(ids, grids)?;
        Ok((expanded.ids, expanded.pictures))
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

    fn grid(&self, picture: &Source, pixels: &Pixels) -> anyhow::Result<[usize; 3]> {
        Ok(self.processor.grid(&picture.to_string(), pixels.size())?)
    }

    /// Decodes a picture of training data to check it, and keeps its size and its fingerprint.
    ///
    /// # Errors
    /// Returns an error that names the picture if it can't be read or resized.
    pub fn picture(self: &Arc<Self>, source: &Source) -> anyhow::Result<Picture> {
        let pixels = source.read(&Decoding::default())?;
        Ok(Picture {
            grid: self.grid(source, &pixels)?,
            fingerprint: self.fingerprint(&pixels),
            source: source.clone(),
            reader: self.clone(),
        })
    }

    /// Returns a text that tells pixels apart, and the settings by which they become patches.
    fn fingerprint(&self, pixels: &Pixels) -> String {
        let mut fingerprint = Fingerprint::default();
        fingerprint.add(&self.settings);
        for side in pixels.size() {
            fingerprint.add(&(side as u64).to_le_bytes());
        }
        fingerprint.add(pixels.rgb());
        fingerprint.to_string()
    }

    /// Returns the positions in time, height and width of the tokens of a conversation with these pictures, as
    /// `get_rope_index` of transformers finds them.
    ///
    /// # Errors
    /// Returns an error if the tokens are not those of the pictures, or stand for parts of a clip.
    pub fn positions(&self, ids: &[u32], grids: &[[usize; 3]]) -> anyhow::Result<Vec<[i64; 3]>> {
        let ids: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
        let grids: Vec<Grid> = grids.iter().copied().map(Grid::from).collect();
        let Some(marks) = self.vision.marks() else {
            bail!("the vision tower is not part of a language model");
        };
        let tokens = Tokens {
            ids: &ids,
            columns: ids.len(),
            is_token: None,
            marks,
        };
        let found = tokens.positions(&grids, &[], self.vision.spatial_merge_size)?;
        let axis = |axis: usize, at: usize| found.ids[axis * ids.len() + at];
        let all = 0..ids.len();
        Ok(all
            .map(|at| [axis(0, at), axis(1, at), axis(2, at)])
            .collect())
    }
}

/// Returns the settings of a processor that neither the model's configuration nor the sizes of pictures decide.
fn settings(processor: &Processor) -> Vec<u8> {
    let resizer = format!("{:?}", processor.resizer());
    let levels = processor.levels();
    let levels = levels
        .iter()
        .flatten()
        .flat_map(|level| level.to_le_bytes());
    resizer.into_bytes().into_iter().chain(levels).collect()
}

/// Returns the file of a picture, or `None` for a picture in a `data:` URL.
pub fn file(source: &Source) -> Option<&Path> {
    match source {
        Source::File(file) => Some(file),
        Source::Bytes(_) => None,
    }
}

/// A picture of training data that was decoded once to check it. Each use decodes it again, so that memory holds the patches
/// of one batch.
#[derive(Debug)]
pub struct Picture {
    source: Source,
    grid: [usize; 3],
    fingerprint: String,
    reader: Arc<Reader>,
}

impl Picture {
    /// Returns the numbers of patches: frames, rows and columns.
    pub fn grid(&self) -> [usize; 3] {
        self.grid
    }

    /// Returns a text that tells its pixels apart, and the settings by which they become patches.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the bytes of memory that its file takes: those of a `data:` URL.
    pub fn bytes(&self) -> usize {
        match &self.source {
            Source::File(_) => 0,
            Source::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns the values of its patches.
    ///
    /// # Errors
    /// Returns an error that names the picture if it can't be read, or if its pixels have changed since it was checked.
    pub fn patches(&self) -> anyhow::Result<Vec<f32>> {
        let name = self.source.to_string();
        let pixels = self.source.read(&Decoding::default())?;
        ensure!(
            self.reader.fingerprint(&pixels) == self.fingerprint,
            "{}: the picture has changed since the data was read; restore it, and go on with --resume",
            escape(&name)
        );
        Ok(self.reader.processor.patches(&name, &pixels)?.into_values())
    }
}

/// Compares pixels and settings, whatever the files.
impl PartialEq for Picture {
    fn eq(&self, other: &Self) -> bool {
        (self.grid, &self.fingerprint) == (other.grid, &other.fingerprint)
    }
}

impl Eq for Picture {}

/// The pictures that a record names, while its messages are read in their order.
pub struct Images<'a> {
    left: kernels_images::Images<'a>,
    found: Vec<Source>,
}

impl<'a> Images<'a> {
    /// Reads the pictures beside the messages of a record, if it has some in a field of this name. Paths are relative to
    /// `folder`.
    ///
    /// # Errors
    /// Returns an error that names a picture whose place is not supported.
    pub fn of_record(
        fields: &Map<String, Value>,
        named: Option<&str>,
        folder: &'a Path,
    ) -> Result<Self, String> {
        let left = match named {
            Some(_) => kernels_images::Images::of_record(fields, folder),
            None => Ok(kernels_images::Images::none(folder)),
        };
        Ok(Self {
            left: left.map_err(|error| error.to_string())?,
            found: Vec::new(),
        })
    }

    /// Reads the content of the next message: a text, in which `<image>` stands for a picture of the record if it has any,
    /// or a list of parts.
    ///
    /// # Errors
    /// Returns an error that names a part that is not supported, or has no picture.
    pub fn content(&mut self, content: &Value) -> Result<Content, String> {
        let parts = self.left.parts(content);
        let parts = parts.map_err(|error| error.to_string())?;
        let before = self.found.len();
        let (mut text, mut shown) = (String::new(), Vec::with_capacity(parts.len()));
        for part in parts {
            shown.push(Serde(part.for_template()).into());
            match part {
                Part::Text(own) => text += &own,
                Part::Image(source) => self.found.push(source),
            }
        }
        Ok(match self.found.len() == before {
            true => Content {
                text,
                parts: Vec::new(),
            },
            false => Content {
                text: String::new(),
                parts: shown,
            },
        })
    }

    /// Returns the pictures of all messages, in their order.
    ///
    /// # Errors
    /// Returns an error if a picture beside the messages has no place in them.
    pub fn finish(self) -> Result<Vec<Source>, String> {
        self.left.finish().map_err(|error| error.to_string())?;
        Ok(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::{Pictures, Placed};
    use std::fs;
    use std::path::PathBuf;

    /// Returns a folder with a picture, `wide.png`, and a reader.
    fn reader() -> (tempfile::TempDir, Arc<Reader>) {
        let folder = tempfile::tempdir().unwrap();
        for (from, to) in [
            ("qwen2_5_vl/config.json", "config.json"),
            ("preprocessor_config.json", "preprocessor_config.json"),
            ("wide.png", "wide.png"),
        ] {
            fs::copy(fixture(from), folder.path().join(to)).unwrap();
        }
        let config = ModelConfig::of_checkpoint(folder.path()).unwrap();
        let reader = Reader::open(folder.path(), &config).unwrap();
        (folder, Arc::new(reader))
    }

    fn fixture(name: &str) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/pictures");
        fixtures.join(name)
    }

    /// Pictures are read again for each use, and a file that changed in between is an error.
    #[test]
    fn a_picture_that_changed_is_refused() {
        let (folder, reader) = reader();
        let file = folder.path().join("wide.png");
        let picture = reader.picture(&Source::File(file.clone())).unwrap();
        assert_eq!(picture.grid(), [1, 8, 12]);
        assert_eq!(picture.patches().unwrap().len(), 96 * 24);
        fs::copy(fixture("tall.png"), &file).unwrap();
        let said = picture.patches().unwrap_err().to_string();
        assert!(said.contains("wide.png: the picture has changed"), "{said}");
        fs::remove_file(file).unwrap();
        let said = picture.patches().unwrap_err().to_string();
        assert!(said.contains("wide.png"), "{said}");
    }

    /// The common beginning of two files of 8 × 8 grey pixels, and their ends: all black, and with one that is white.
    const BEGIN: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAD";
    const BLACK: &str = "ElEQVR42mNgoA4AAABIAAEQRe/SAAAAAElFTkSuQmCC";
    const WHITE: &str = "0lEQVR42mNgIAD+MxAFACchAQDjl0PSAAAAAElFTkSuQmCC";

    #[test]
    fn another_pixel_is_another_picture() {
        let (folder, reader) = reader();
        let file = folder.path().join("dot.png");
        let write = |end: &str| {
            let png = [BEGIN, end].concat();
            let bytes = data_encoding::BASE64.decode(png.as_bytes()).unwrap();
            fs::write(&file, &bytes).unwrap();
            bytes
        };
        let bytes = write(BLACK);
        let picture = reader.picture(&Source::File(file.clone())).unwrap();
        let patches = picture.patches().unwrap();
        write(WHITE);
        let other = reader.picture(&Source::File(file.clone())).unwrap();
        assert_eq!(picture.grid(), other.grid());
        assert!(picture != other && patches != other.patches().unwrap());
        let said = picture.patches().unwrap_err().to_string();
        assert!(said.contains("dot.png: the picture has changed"), "{said}");
        // The bytes of a URL can't change.
        let own = reader.picture(&Source::Bytes(bytes.clone())).unwrap();
        assert!(own == picture && own.patches().unwrap() == patches);
        assert_eq!([own.bytes(), picture.bytes()], [bytes.len(), 0]);
    }

    #[test]
    fn other_settings_make_another_picture() {
        let (folder, reader) = reader();
        let source = Source::File(folder.path().join("wide.png"));
        let picture = reader.picture(&source).unwrap();
        let file = folder.path().join("preprocessor_config.json");
        let text = fs::read_to_string(&file).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        for (field, value) in [
            ("image_std", serde_json::json!([0.5, 0.5, 0.25])),
            ("image_processor_type", "Qwen2VLImageProcessorFast".into()),
        ] {
            let mut settings = settings.clone();
            settings[field] = value;
            fs::write(&file, settings.to_string()).unwrap();
            let config = ModelConfig::of_checkpoint(folder.path()).unwrap();
            let other = Arc::new(Reader::open(folder.path(), &config).unwrap());
            let other = other.picture(&source).unwrap();
            assert_eq!(picture.grid(), other.grid(), "{field}");
            assert_ne!(picture, other, "{field}");
        }
    }

    /// Pictures stay with their tokens where examples are cut off, packed and divided.
    #[test]
    fn pictures_stay_with_their_tokens() {
        let (folder, reader) = reader();
        let source = Source::File(folder.path().join("wide.png"));
        let picture = Arc::new(reader.picture(&source).unwrap());
        let placed = |tokens: Range<usize>| Placed {
            picture: picture.clone(),
            tokens,
        };
        let own = Pictures {
            positions: (0..10).map(|at| [at, 0, at]).collect(),
            list: vec![placed(2..5), placed(7..9)],
        };
        assert_eq!(own.patches(), 192);
        let ends = [10, 9, 8, 7, 6, 4, 2, 1].map(|length| own.end(length));
        assert_eq!(ends, [10, 9, 7, 7, 6, 2, 2, 1]);
        let mut cut = own.clone();
        cut.cut(7);
        assert_eq!((cut.positions.len(), cut.list), (7, vec![placed(2..5)]));
        let mut all = Pictures::default();
        all.append(&Pictures::default(), 3);
        all.append(&own, 10);
        all.pad(2);
        assert_eq!(all.positions[..3], [[0; 3], [1; 3], [2; 3]]);
        assert_eq!(all.list, [placed(5..8), placed(10..12)]);
        assert_eq!(all.part(3..13), own);
        assert!(all.part(13..15).list.is_empty());
    }
}
