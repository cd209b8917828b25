//! Vision towers: from the patches of pictures to tokens.

use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::config::VisionConfig;
use crate::config::family::Tower;
use crate::error::ModelError;
use crate::layers::vision::Build;
use crate::layers::vision::attention::Places;
use crate::layers::vision::qwen2_5::Qwen2_5Tower;
use crate::layers::vision::qwen3::{Around, Qwen3Tower};
use crate::layers::wide::at_least_f32;
use crate::vision::{Grid, frame_lengths, interpolation, positions, windows};

/// The layers of a tower. [`crate::parameters`] knows that checkpoints have no name for this type.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a model; a box would save nothing that matters"
)]
enum VisionLayers {
    Qwen2_5(Qwen2_5Tower),
    Qwen3(Qwen3Tower),
}

/// A vision tower. The path of a parameter is its name in the checkpoint of a tower that was saved alone.
#[derive(Module, Debug)]
pub struct VisionTower {
    layers: VisionLayers,
    #[module(skip)]
    config: VisionConfig,
}

/// A vision tower as a part of a whole model, by whose names a checkpoint has its parameters.
#[derive(Module, Debug)]
pub(crate) struct VisionPart {
    pub(crate) visual: VisionTower,
}

/// The features of pictures.
#[derive(Debug, Clone)]
pub struct VisionFeatures {
    /// The tokens of all pictures, `[n, out_hidden_size]`: those of blocks in raster order, frame by frame.
    pub embeddings: Tensor<2>,
    /// The features of the same shape that are added behind the first layers of the text model, in their order.
    pub deepstack: Vec<Tensor<2>>,
}

impl VisionConfig {
    /// Creates a tower with fresh weights in the device's default float dtype. Weights are allocated on first use.
    pub fn init(&self, device: &Device) -> VisionTower {
        let build = Build {
            config: self,
            device,
        };
        VisionTower {
            layers: match self.tower {
                Tower::Qwen2_5 { .. } => VisionLayers::Qwen2_5(Qwen2_5Tower::new(build)),
                Tower::Qwen3 { .. } => VisionLayers::Qwen3(Qwen3Tower::new(build)),
            },
            config: self.clone(),
        }
    }

    /// Returns the sizes of pictures whose patches are `pixel_values` `[n, values]`, for `image_grid_thw` `[pictures, 3]`:
    /// frames, rows and columns of patches. This copies them to the host.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] for other shapes, for numbers that are not sizes of pictures of whole blocks, and if they
    /// don't give the number of patches.
    pub fn grids(
        &self,
        pixel_values: &Tensor<2>,
        image_grid_thw: &Tensor<2, Int>,
    ) -> Result<Vec<Grid>, ModelError> {
        let fail = |input, problem| Err(ModelError::Input { input, problem });
        let [pictures, axes] = image_grid_thw.dims();
        if pictures == 0 || axes != 3 {
            let problem = format!("expected shape [pictures, 3], found [{pictures}, {axes}]");
            return fail("image_grid_thw", problem);
        }
        let numbers = image_grid_thw.try_to_vec_as::<i64>();
        let numbers = numbers.map_err(|error| ModelError::Input {
            input: "image_grid_thw",
            problem: format!("cannot be read from the device: {error}"),
        })?;
        let mut grids = Vec::new();
        for (picture, numbers) in numbers.as_chunks::<3>().0.iter().enumerate() {
            match Grid::new(*numbers, self.spatial_merge_size) {
                Ok(grid) => grids.push(grid),
                Err(problem) => return fail("image_grid_thw", format!("row {picture}: {problem}")),
            }
        }
        let [patches, values] = pixel_values.dims();
        let expected: u128 = grids.iter().map(|grid| grid.patches()).sum();
        if values != self.pixels() {
            let problem = format!(
                "expected {} values of each patch, found shape [{patches}, {values}]",
                self.pixels()
            );
            return fail("pixel_values", problem);
        }
        if expected != patches as u128 {
            let problem = format!(
                "has {patches} patches, but the pictures of image_grid_thw have {expected}"
            );
            return fail("pixel_values", problem);
        }
        Ok(grids)
    }
}

impl VisionTower {
    /// Returns the configuration that the tower was built from.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// Returns the features of pictures whose patches are `pixel_values` `[n, values]`. Values are those of channels, then
    /// frames, then rows of pixels; patches lie as [`Grid`] says: by picture, frame and block.
    ///
    /// # Panics
    /// Panics without a picture, and if the sizes are not those of [`VisionConfig::grids`] for these patches.
    pub fn forward(&self, pixel_values: Tensor<2>, grids: &[Grid]) -> VisionFeatures {
        let config = &self.config;
        let merge = config.spatial_merge_size;
        let add = |sum: usize, grid: &Grid| sum.checked_add(grid.whole(merge)?);
        let patches = grids.iter().try_fold(0, add);
        assert!(
            patches.is_some_and(|patches| {
                patches > 0 && pixel_values.dims() == [patches, config.pixels()]
            }),
            "pixel_values are those of at least one picture, whose patches are whole blocks"
        );
        let mut places = positions(grids, merge);
        let frames = frame_lengths(grids);
        let device = pixel_values.device();
        let dtype = self.dtype();
        let pixel_values = pixel_values.cast(dtype);
        match &self.layers {
            VisionLayers::Qwen2_5(layers) => {
                let side = config.window_side().expect("these towers have windows");
                let windows = windows(grids, merge, side);
                let order = patches_of(&windows.blocks, merge * merge);
                places = order.iter().map(|&patch| places[patch]).collect();
                let pixel_values = pixel_values.select(0, indices(&order, &device));
                let at = (&device, dtype);
                let places = Places::new(config, &places, frames, Some(windows.lengths), at);
                let tokens = layers.forward(pixel_values.unsqueeze_dim(0), &places, |block| {
                    config.has_window(block)
                });
                let back = inverse(&windows.blocks);
                VisionFeatures {
                    embeddings: tokens.select(0, indices(&back, &device)),
                    deepstack: Vec::new(),
                }
            }
            VisionLayers::Qwen3(layers) => {
                let side = config.table_side.expect("these towers have a table");
                let around = around(grids, merge, side, (&device, dtype));
                let places = Places::new(config, &places, frames, None, (&device, dtype));
                let (embeddings, deepstack) =
                    layers.forward(pixel_values.unsqueeze_dim(0), &places, around);
                VisionFeatures {
                    embeddings,
                    deepstack,
                }
            }
        }
    }

    fn dtype(&self) -> DType {
        match &self.layers {
            VisionLayers::Qwen2_5(layers) => layers.dtype(),
            VisionLayers::Qwen3(layers) => layers.dtype(),
        }
    }
}

/// Returns the patches of blocks.
fn patches_of(blocks: &[usize], patches: usize) -> Vec<usize> {
    let of = |&block: &usize| block * patches..(block + 1) * patches;
    blocks.iter().flat_map(of).collect()
}

/// Returns the place of each block in an order.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    for (place, &block) in order.iter().enumerate() {
        places[block] = place;
    }
    places
}

/// Returns indices as a tensor.
pub(crate) fn indices(values: &[usize], device: &Device) -> Tensor<1, Int> {
    let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), (device, DType::I64))
}

fn around(grids: &[Grid], merge: usize, side: usize, (device, dtype): (&Device, DType)) -> Around {
    let (entries, weights) = interpolation(grids, merge, side);
    let wide = at_least_f32(dtype);
    let each = [0, 1, 2, 3];
    Around {
        entries: each.map(|at| {
            let own: Vec<usize> = entries.iter().map(|entries| entries[at]).collect();
            indices(&own, device)
        }),
        weights: each.map(|at| {
            let own: Vec<f64> = weights.iter().map(|weights| weights[at]).collect();
            let shape = [own.len(), 1];
            Tensor::from_data(TensorData::new(own, shape), (device, DType::from(wide)))
        }),
    }
}
