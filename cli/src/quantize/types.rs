//! The types that llama.cpp chooses for the tensors of a model.

use super::kind::Kind;
use kernels_quant::Dtype;
use kernels_quant::gguf::Block;

/// A mixture of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// No blocks: all matrices in one type of floats.
    Floats(Dtype),
    Q8_0,
    Q4_0,
    Q4KM,
}

impl Target {
    /// Returns the value of `general.file_type`.
    pub fn file_type(self) -> u32 {
        match self {
            Self::Floats(Dtype::F16) => 1,
            Self::Floats(Dtype::BF16) => 32,
            Self::Floats(_) => 0,
            Self::Q4_0 => 2,
            Self::Q8_0 => 7,
            Self::Q4KM => 15,
        }
    }

    /// Returns the type of most tensors.
    fn usual(self) -> Kind {
        match self {
            Self::Floats(dtype) => Kind::Float(dtype),
            Self::Q8_0 => Kind::Block(Block::Q8_0),
            Self::Q4_0 => Kind::Block(Block::Q4_0),
            Self::Q4KM => Kind::Block(Block::Q4K),
        }
    }
}

/// The facts that the choice of a type depends on.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub architecture: String,
    pub layers: usize,
    pub experts: usize,
    pub heads: usize,
    pub key_value_heads: usize,
    /// True if there is an `output.weight`. Otherwise the embedding is the output projection, too.
    pub has_output: bool,
    /// The number of projections of values.
    pub values: usize,
}

impl Model {
    /// Returns whether llama.cpp takes it for a model of 70 billion parameters, whose values several heads share.
    fn is_70b(&self) -> bool {
        self.layers == 80
            && match self.architecture.as_str() {
                "llama" => self.heads != self.key_value_heads,
                "qwen2" | "qwen2vl" | "deci" => true,
                _ => false,
            }
    }
}

/// Chooses types for tensors in the order of the layers.
#[derive(Debug)]
pub struct Chooser<'a> {
    model: &'a Model,
    target: Target,
    /// The numbers of projections of values and of down projections before.
    values: usize,
    downs: usize,
}

/// Parts of the names of matrices that are never quantised: they are small, or no rows are multiplied by them.
const KEPT: [&str; 24] = [
    "_norm.weight",
    "ffn_gate_inp.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd.",
];

/// Names of matrices that are never quantised.
const KEPT_WHOLE: [&str; 2] = ["position_embd.weight", "token_types.weight"];

/// Returns whether a tensor is quantised at all. `dims` are those of the file, the length of rows first.
pub fn is_quantised(name: &str, dims: &[u64]) -> bool {
    name.ends_with("weight")
        && dims.iter().skip(1).any(|&side| side > 1)
        && !KEPT.iter().any(|part| name.contains(part))
        && !KEPT_WHOLE.contains(&name)
}

impl<'a> Chooser<'a> {
    pub fn new(model: &'a Model, target: Target) -> Self {
        Self {
            model,
            target,
            values: 0,
            downs: 0,
        }
    }

    /// Returns the type of a tensor that is quantised, whose rows have `columns` elements.
    ///
    /// Rows that are not whole blocks get another type.
    pub fn choose(&mut self, name: &str, columns: u64) -> Kind {
        let chosen = match self.target.usual() {
            Kind::Block(usual) => self.of_name(name, columns, usual),
            floats => return floats,
        };
        let fits = |block: Block| columns.is_multiple_of(block.elements() as u64);
        let smaller = match chosen {
            Block::Q4K => Block::Q5_0,
            Block::Q5K => Block::Q5_1,
            Block::Q6K => Block::Q8_0,
            other => other,
        };
        match [chosen, smaller].into_iter().find(|&block| fits(block)) {
            Some(block) => Kind::Block(block),
            None => Kind::Float(Dtype::F16),
        }
    }

    fn of_name(&mut self, name: &str, columns: u64, usual: Block) -> Block {
        let is_output =
            name == "output.weight" || !self.model.has_output && name == "token_embd.weight";
        if is_output {
            let whole = columns.is_multiple_of(usual.elements() as u64);
            return match usual {
                Block::Q8_0 => Block::Q8_0,
                _ if !whole || self.model.architecture == "falcon" => Block::Q8_0,
                _ => Block::Q6K,
            };
        }
        if name == "token_embd.weight" || name == "per_layer_token_embd.weight" {
            return usual;
        }
        if name.contains("attn_v.weight") {
            return self.of_values(usual);
        }
        if name.contains("attn_k.weight") {
            return match self.model.experts {
                8 => Block::Q8_0,
                _ => usual,
            };
        }
        if name.contains("ffn_down") {
            return self.of_down(name, usual);
        }
        let few = self.target == Target::Q4KM;
        if few && name.contains("attn_output.weight") && self.model.experts == 8 {
            return match self.model.architecture.as_str() {
                "falcon" => usual,
                _ => Block::Q5K,
            };
        }
        match few && name.contains("attn_qkv.weight") {
            true => Block::Q5K,
            false => usual,
        }
    }

    fn of_values(&mut self, usual: Block) -> Block {
        let at = self.values;
        self.values += 1;
        if self.model.experts == 8 {
            return Block::Q8_0;
        }
        match self.target == Target::Q4KM {
            true if needs_more_bits(at, self.model.values) => Block::Q6K,
            true if self.model.is_70b() => Block::Q5K,
            _ => usual,
        }
    }

    fn of_down(&mut self, name: &str, usual: Block) -> Block {
        let layers = self.model.layers;
        // The layers of a mixture may have dense ones between them.
        let of_name = layer(name).filter(|_| self.model.experts > 1);
        let at = of_name.unwrap_or(self.downs);
        self.downs += 1;
        let more = needs_more_bits(at, layers);
        match (self.target, self.model.architecture.as_str()) {
            (Target::Q4KM, "falcon") if at < layers / 16 => Block::Q6K,
            (Target::Q4KM, "falcon") if more => Block::Q5K,
            (Target::Q4KM, "falcon") => usual,
            (Target::Q4KM, _) if more => Block::Q6K,
            _ => usual,
        }
    }
}

/// The first and the last eighth of the layers, and every third between them.
fn needs_more_bits(layer: usize, layers: usize) -> bool {
    // Seven eighths. A file can claim so many layers that a product has no place in a number.
    let last = layers - layers.div_ceil(8);
    layer < layers / 8 || layer >= last || (layer - layers / 8) % 3 == 2
}

/// Returns the number of the layer of a tensor `blk.N.…`.
pub fn layer(name: &str) -> Option<usize> {
    let (number, _) = name.strip_prefix("blk.")?.split_once('.')?;
    number.parse().ok()
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
