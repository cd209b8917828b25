//! The positions of the tokens of one pass, as each layer takes them.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::config::{ModelConfig, Temperature};
use crate::layers::cache::Cache;
use crate::layers::place::{AxisTables, Place, Rotation};
use crate::layers::rope::{RotaryEmbedding, RotaryTables};
use crate::model::batch::{Batch, Padding, PositionIds};

/// The rotary frequencies of a model.
#[derive(Debug, Clone)]
pub(crate) struct Rotary {
    global: RotaryEmbedding,
    /// The frequencies of layers with a window, if they have their own.
    local: Option<RotaryEmbedding>,
}

/// The places of all layers in one pass.
pub(crate) struct Places {
    global: RotaryTables,
    local: Option<RotaryTables>,
    axes: Option<AxisTables>,
    query_factor: Option<Tensor<4>>,
    lengths: Option<Vec<usize>>,
    documents: Option<Arc<[usize]>>,
}

/// Consecutive positions of several sequences.
struct Positions<'a> {
    range: Range<usize>,
    /// The number of positions before the first token of each sequence, or that pictures share.
    padding: &'a [usize],
}

impl Rotary {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let of = |rope| RotaryEmbedding::new(rope, config.head_dim);
        Self {
            global: of(&config.rope),
            local: config.local_rope.as_ref().map(of),
        }
    }

    /// Returns the places of the tokens of a batch, for hidden states like `hidden`, `[b, s, hidden]`.
    pub(crate) fn places(
        &self,
        config: &ModelConfig,
        hidden: &Tensor<3>,
        batch: &Batch,
        cache: Option<&Cache>,
    ) -> Places {
        self.places_at(config, hidden, &batch.position_ids, cache)
            .with_padding(&batch.padding)
    }

    /// Returns the places of hidden states at the positions `0..s`.
    pub(crate) fn places_in_order(&self, config: &ModelConfig, hidden: &Tensor<3>) -> Places {
        self.places_at(config, hidden, &None, None)
    }

    fn places_at(
        &self,
        config: &ModelConfig,
        hidden: &Tensor<3>,
        position_ids: &Option<PositionIds>,
        cache: Option<&Cache>,
    ) -> Places {
        let [_, seq, _] = hidden.dims();
        let device = hidden.device();
        let dtype = match hidden.dtype() {
            DType::F16 | DType::BF16 if config.family().positions.wide_tables => DType::F32,
            dtype => dtype,
        };
        let (first, padding) = cache.map_or((0, &[][..]), |cache| {
            (cache.positions(), cache.subtracted())
        });
        let positions = Positions {
            range: first..first + seq,
            padding: if padding.is_empty() { &[0] } else { padding },
        };
        let tables = |rotary: &RotaryEmbedding| match position_ids {
            Some(PositionIds::One(ids)) => rotary.tables_at(ids.clone(), dtype),
            Some(PositionIds::Axes(ids)) => {
                // Three rows for each sequence.
                let [axes, batch, seq] = ids.dims();
                rotary.tables_at(ids.clone().reshape([axes * batch, seq]), dtype)
            }
            None => {
                let range = positions.range.clone();
                rotary.padded_tables(range, positions.padding, &device, dtype)
            }
        };
        let temperature = config.mixed.as_ref().and_then(|mixed| mixed.temperature);
        let global = tables(&self.global);
        let axes = config
            .rope
            .sections
            .map(|sections| axis_tables(&global, sections, position_ids));
        Places {
            global,
            axes,
            local: self.local.as_ref().map(tables),
            // As in `transformers`, explicit positions have no effect on it.
            query_factor: temperature.map(|own| positions.query_factor(own, &device, dtype)),
            lengths: None,
            documents: None,
        }
    }
}

/// Returns tables of three positions, of tables with a row for each sequence or for each position of each.
fn axis_tables(
    tables: &RotaryTables,
    sections: [usize; 3],
    position_ids: &Option<PositionIds>,
) -> AxisTables {
    let has_axes = matches!(position_ids, Some(PositionIds::Axes(_)));
    let of_axes = |table: &Tensor<3>| -> Tensor<4> {
        let [rows, seq, width] = table.dims();
        match has_axes {
            true => table.clone().reshape([3, rows / 3, seq, width]),
            false => table.clone().unsqueeze_dim::<4>(0).repeat_dim(0, 3),
        }
    };
    AxisTables {
        cos: of_axes(&tables.cos),
        sin: of_axes(&tables.sin),
        sections,
    }
}

impl Positions<'_> {
    /// Returns the factor of the queries at each position.
    fn query_factor(&self, temperature: Temperature, device: &Device, dtype: DType) -> Tensor<4> {
        let Temperature {
            attn_scale,
            floor_scale,
        } = temperature;
        let shape = [self.padding.len(), self.range.len(), 1, 1];
        let counted = self.padding.iter().flat_map(|before| {
            let positions = self.range.clone();
            positions.map(move |position| position.saturating_sub(*before))
        });
        let data = if dtype == DType::F64 {
            let factor = |position| {
                let steps = ((position as f64 + 1.0) / floor_scale).floor();
                steps.ln_1p() * attn_scale + 1.0
            };
            TensorData::new(counted.map(factor).collect::<Vec<f64>>(), shape)
        } else {
            let factor = |position| {
                let steps = ((position as f32 + 1.0) / floor_scale as f32).floor();
                steps.ln_1p() * attn_scale as f32 + 1.0
            };
            TensorData::new(counted.map(factor).collect::<Vec<f32>>(), shape)
        };
        Tensor::from_data(data, (device, dtype))
    }
}

impl Places {
    /// Adds the padding of a batch.
    fn with_padding(mut self, padding: &Option<Padding>) -> Self {
        self.lengths = padding.as_ref().and_then(Padding::lengths);
        self
    }

    /// Adds the lengths of documents.
    pub(crate) fn with_documents(mut self, documents: Option<Arc<[usize]>>) -> Self {
        self.documents = documents;
        self
    }

    /// Returns the place of a layer, counted from 0.
    pub(crate) fn of(&self, config: &ModelConfig, layer: usize) -> Place<'_> {
        let window = config.window(layer);
        let tables = match &self.local {
            Some(local) if window.is_some() => local,
            _ => &self.global,
        };
        let rotates = config.rotates(layer);
        Place {
            rotation: rotates.then_some(match &self.axes {
                Some(axes) => Rotation::Axes(axes),
                None => Rotation::One(tables),
            }),
            query_factor: self.query_factor.as_ref().filter(|_| !rotates),
            window,
            lengths: self.lengths.as_deref(),
            documents: self.documents.as_ref(),
        }
    }
}
