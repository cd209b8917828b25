//! The product that embeds patches.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::ops::linear::in_parts;

use crate::config::VisionConfig;
use crate::layers::vision::Build;

/// The embedding of patches: a convolution whose steps are as long as its kernel, so a product.
#[derive(Module, Debug)]
pub(crate) struct PatchEmbed {
    proj: PatchProjection,
}

#[derive(Module, Debug)]
pub(crate) struct PatchProjection {
    /// `[hidden, channels, frames, side, side]`.
    weight: Param<Tensor<5>>,
    bias: Option<Param<Tensor<1>>>,
}

impl PatchEmbed {
    pub(crate) fn new(build: Build<'_>, bias: bool) -> Self {
        let VisionConfig {
            hidden_size,
            in_channels,
            temporal_patch_size,
            patch_size,
            ..
        } = *build.config;
        let shape = [
            hidden_size,
            in_channels,
            temporal_patch_size,
            patch_size,
            patch_size,
        ];
        Self {
            proj: PatchProjection {
                weight: build.weight(shape),
                bias: bias.then(|| build.bias(hidden_size)),
            },
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.proj.weight.val().dtype()
    }

    /// Returns the embedded patches `[1, n, hidden]` of their values `[1, n, channels · frames · side²]`.
    pub(crate) fn forward(&self, patches: Tensor<3>) -> Tensor<3> {
        let weight = self.proj.weight.val();
        let [hidden, ..] = weight.dims();
        let [.., values] = patches.dims();
        let weight = weight.reshape([hidden, values]);
        match &self.proj.bias {
            Some(bias) => embed_with_bias(patches, weight, bias.val()),
            None => embed(patches, weight),
        }
    }
}

#[fused_kernel("npu_fused_linear", layout = output_major, layer = "Linear")]
fn embed(patches: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    in_parts(patches, weight.transpose(), None)
}

#[fused_kernel("npu_fused_linear", layout = output_major, shift = bias, layer = "Linear")]
fn embed_with_bias(patches: Tensor<3>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<3> {
    in_parts(patches, weight.transpose(), Some(bias))
}
