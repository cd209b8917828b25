//! The settings of an image processor, and pictures as it makes them.

use crate::config::{self, Fields};
use crate::patches;
use crate::size::smart_resize;
use crate::{Error, Patches, Picture, Resizer};
use serde_json::{Map, Value};
use std::path::Path;

/// The processor of pictures: resizes, rescales, normalises and cuts them, as an image processor of transformers does.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    resizer: Resizer,
    /// The least and the most pixels, if pictures are resized.
    pixels: Option<[u64; 2]>,
    /// The factor of samples, if they are rescaled.
    scale: Option<f64>,
    /// The mean and the standard deviation of each colour, if samples are normalised.
    normal: Option<[[f64; 3]; 2]>,
    patch: usize,
    frames: usize,
    merge: usize,
}

/// The classes of transformers that are supported, without `Fast` and `Pil`.
const CLASSES: [&str; 3] = [
    "Qwen2VLImageProcessor",
    "Qwen2_5_VLImageProcessor",
    "Qwen3VLImageProcessor",
];

/// The number of bicubic resizing in Pillow.
const BICUBIC: u64 = 3;

/// The pixels, mean and standard deviation of transformers' class, for files without these fields.
const PIXELS: [u64; 2] = [56 * 56, 28 * 28 * 1280];
const MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
const DEVIATION: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];

/// The largest side of a patch, its largest number of frames, and the largest side of a token in patches.
const MOST_PATCH: u64 = 256;
const MOST_FRAMES: u64 = 4;
const MOST_JOINED: u64 = 16;

impl Processor {
    /// Reads the settings of a checkpoint: the object `image_processor` of `processor_config.json`, as transformers 5
    /// saves it, or else `preprocessor_config.json`.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, or as [`Self::from_json`] does.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let (name, settings) = config::of_folder(folder)?;
        Self::of_settings(&settings).map_err(Error::setting(&name))
    }

    /// Reads the settings of a JSON text. Absent fields are as in transformers' `Qwen2VLImageProcessor`. Fields of
    /// other processors, such as those of sound, are ignored. `name` is the file's in errors.
    ///
    /// # Errors
    /// Returns an error that names the field whose value is not supported.
    pub fn from_json(name: &str, json: &str) -> Result<Self, Error> {
        let settings = config::parse(name, json)?;
        Self::of_settings(&settings).map_err(Error::setting(name))
    }

    /// Takes the resizing of this package, whatever the class in the file.
    #[must_use]
    pub fn with_resizer(self, resizer: Resizer) -> Self {
        Self { resizer, ..self }
    }

    /// Returns the package whose resizing and rounding is computed.
    pub fn resizer(&self) -> Resizer {
        self.resizer
    }

    /// Returns the side of a patch in pixels.
    pub fn patch_size(&self) -> usize {
        self.patch
    }

    /// Returns the number of frames that a patch joins.
    pub fn temporal_patch_size(&self) -> usize {
        self.frames
    }

    /// Returns the number of patches, by side, that one token of the language model is made of.
    pub fn merge_size(&self) -> usize {
        self.merge
    }

    /// Returns the width and the height of a picture of this size after resizing. `name` is the picture's in errors.
    ///
    /// # Errors
    /// Returns an error if the picture is too long and narrow, or if nothing is resized and the sides are not
    /// multiples of `patch_size · merge_size`.
    pub fn size(&self, name: &str, size: [usize; 2]) -> Result<[usize; 2], Error> {
        self.resized(size).map_err(Error::picture(name))
    }

    /// Returns [`Patches::grid`] of a still picture of this size. `name` is the picture's in errors.
    ///
    /// # Errors
    /// Returns an error as [`Self::size`] does.
    pub fn grid(&self, name: &str, size: [usize; 2]) -> Result<[usize; 3], Error> {
        Ok(patches::grid(self.size(name, size)?, self.patch))
    }

    /// Returns [`Patches::width`] of every picture.
    pub fn patch_width(&self) -> usize {
        patches::width(self.patch, self.frames)
    }

    /// Makes the `pixel_values` of a still picture. `name` is the picture's in errors.
    ///
    /// # Errors
    /// Returns an error as [`Self::size`] does.
    pub fn patches(&self, name: &str, picture: &Picture) -> Result<Patches, Error> {
        let size = self.size(name, picture.size())?;
        let levels = self.levels();
        let cut = |picture: &Picture| {
            Patches::cut(picture, &levels, [self.patch, self.frames, self.merge])
        };
        Ok(match size == picture.size() {
            true => cut(picture),
            false => cut(&self.resizer.resize(picture, size)?),
        })
    }

    fn resized(&self, size: [usize; 2]) -> Result<[usize; 2], String> {
        let factor = self.patch * self.merge;
        match self.pixels {
            Some(pixels) => smart_resize(size, factor, pixels),
            None if size.iter().all(|side| *side > 0 && side % factor == 0) => Ok(size),
            None => Err(format!(
                "the picture is {}×{}, but do_resize is false, so its sides must be multiples of {factor} \
                 (patch_size · merge_size)",
                size[0], size[1]
            )),
        }
    }

    /// Returns the number that each sample of each colour becomes, rounded as the package's processor rounds.
    pub fn levels(&self) -> [[f32; 256]; 3] {
        let level = |colour: usize, sample: usize| {
            let normal = self.normal.map(|both| both.map(|one| one[colour] as f32));
            let x = sample as f32;
            match (self.resizer, self.scale, normal) {
                (Resizer::Torchvision, Some(scale), Some(normal)) => {
                    let [mean, deviation] = normal.map(|number| number * (1.0 / scale) as f32);
                    (x - mean) / deviation
                }
                (Resizer::Torchvision, Some(scale), None) => x * scale as f32,
                (Resizer::Pillow | Resizer::Pillow12, Some(scale), normal) => {
                    let x = (f64::from(x) * scale) as f32;
                    normal.map_or(x, |[mean, deviation]| (x - mean) / deviation)
                }
                (_, None, Some([mean, deviation])) => (x - mean) / deviation,
                (_, None, None) => x,
            }
        };
        std::array::from_fn(|colour| std::array::from_fn(|sample| level(colour, sample)))
    }

    fn of_settings(settings: &Map<String, Value>) -> Result<Self, String> {
        let fields = Fields::new(settings);
        let resizer = resizer(fields)?;
        refuse_others(fields)?;
        let side = |name: &str, default: u64, most: u64| -> Result<usize, String> {
            Ok(fields.whole(name, [1, most])?.unwrap_or(default) as usize)
        };
        let pixels = pixels(fields)?;
        let scale = fields.number("rescale_factor")?.unwrap_or(1.0 / 255.0);
        if (scale as f32) <= 0.0 {
            return Err(fields.problem("rescale_factor", "above 0"));
        }
        let mean = fields.colours("image_mean")?.unwrap_or(MEAN);
        let deviation = fields.colours("image_std")?.unwrap_or(DEVIATION);
        if deviation.iter().any(|one| (*one as f32) <= 0.0) {
            return Err(fields.problem("image_std", "above 0"));
        }
        let processor = Self {
            resizer,
            pixels: fields.flag("do_resize", true)?.then_some(pixels),
            scale: fields.flag("do_rescale", true)?.then_some(scale),
            normal: fields
                .flag("do_normalize", true)?
                .then_some([mean, deviation]),
            patch: side("patch_size", 14, MOST_PATCH)?,
            frames: side("temporal_patch_size", 2, MOST_FRAMES)?,
            merge: side("merge_size", 2, MOST_JOINED)?,
        };
        let levels = processor.levels();
        if levels.iter().flatten().any(|level| !level.is_finite()) {
            return Err(
                "rescale_factor, image_mean and image_std make numbers beyond the range of f32"
                    .into(),
            );
        }
        Ok(processor)
    }
}

fn resizer(fields: Fields<'_>) -> Result<Resizer, String> {
    const NAME: &str = "image_processor_type";
    let class = fields.text(NAME)?.unwrap_or_default();
    let (class, resizer) = match class.strip_suffix("Fast") {
        Some(class) => (class, Resizer::Torchvision),
        None => (class.strip_suffix("Pil").unwrap_or(class), Resizer::Pillow),
    };
    match CLASSES.contains(&class) {
        true => Ok(resizer),
        false => Err(fields.problem(
            NAME,
            &format!("one of {}, or one with Fast", CLASSES.join(", ")),
        )),
    }
}

/// Returns the least and the most pixels. `min_pixels` and `max_pixels` are stronger than `size`.
fn pixels(fields: Fields<'_>) -> Result<[u64; 2], String> {
    const RANGE: [u64; 2] = [1, 1 << 40];
    let size = fields.object("size.")?;
    let mut pixels = PIXELS;
    if let Some(size) = size {
        for (at, names) in [
            ["shortest_edge", "min_pixels"],
            ["longest_edge", "max_pixels"],
        ]
        .iter()
        .enumerate()
        {
            let [usual, old] = names.map(|name| size.whole(name, RANGE));
            let (usual, old) = (usual?, old?);
            pixels[at] = usual
                .or(old)
                .ok_or_else(|| size.problem(names[0], "a number of pixels"))?;
        }
    }
    for (at, name) in ["min_pixels", "max_pixels"].into_iter().enumerate() {
        pixels[at] = fields.whole(name, RANGE)?.unwrap_or(pixels[at]);
    }
    match pixels {
        [least, most] if least <= most => Ok(pixels),
        [least, most] => Err(format!(
            "min_pixels (size.shortest_edge) is {least}, above max_pixels (size.longest_edge), which is {most}"
        )),
    }
}

/// Refuses steps that are not supported.
fn refuse_others(fields: Fields<'_>) -> Result<(), String> {
    for name in ["do_center_crop", "do_pad"] {
        if fields.flag(name, false)? {
            return Err(fields.problem(name, "false"));
        }
    }
    if !fields.flag("do_convert_rgb", true)? {
        return Err(fields.problem("do_convert_rgb", "true"));
    }
    fields.whole("resample", [BICUBIC; 2]).map(|_| ())
}
