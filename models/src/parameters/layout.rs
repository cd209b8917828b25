//! The tensors of a checkpoint that hold a parameter.
//!
//! Most parameters are one tensor of the same name. The experts of a layer are one stacked parameter, in the model and
//! in the memory of `transformers` 5. Files have a tensor for each projection of each expert, and Mixtral's use other
//! names. The files of gpt-oss hold the stacks of its own shapes, or `….gate_up_proj_blocks` and `….gate_up_proj_scales` in
//! place of `….gate_up_proj`:
//!
//! | parameter | stacked | per expert | Mixtral, per expert |
//! |---|---|---|---|
//! | `mlp.gate.weight` | the same | the same | `block_sparse_moe.gate.weight` |
//! | `mlp.e_score_correction_bias` `[E]` | `mlp.gate.e_score_correction_bias` | the same | |
//! | `mlp.experts.gate_up_proj` `[E, 2I, H]` | the same | `mlp.experts.N.gate_proj.weight`, `….up_proj.weight` `[I, H]` | `block_sparse_moe.experts.N.w1.weight`, `….w3.weight` |
//! | `mlp.experts.down_proj` `[E, H, I]` | the same | `mlp.experts.N.down_proj.weight` `[H, I]` | `block_sparse_moe.experts.N.w2.weight` |

use crate::config::Architecture;
use crate::config::family::{BLOCK, ExpertNames};

/// The storage of a layer's experts in a checkpoint. Both kinds are read. Mixtral's router has a different name in
/// each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpertStorage {
    /// One tensor for each projection of each expert, named as in the architecture's published checkpoints.
    /// `save_pretrained` writes this kind.
    #[default]
    PerExpert,
    /// One tensor for all gate and up projections, `mlp.experts.gate_up_proj` `[E, 2I, H]`, and one for the down
    /// projections, `mlp.experts.down_proj` `[E, H, I]`. `transformers` 5 holds experts in this form in memory and also
    /// reads it.
    Stacked,
}

/// The form of the numbers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// One float for each element.
    Floats,
    /// One float for each element, each matrix of a stack transposed.
    Transposed,
    /// Bytes of MXFP4: the blocks of a parameter, or their scales. Both hold the whole parameter together, each of its
    /// matrices transposed.
    Mxfp4,
}

/// A tensor of a checkpoint that holds a parameter, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The tensor's name.
    pub(crate) name: String,
    /// The tensor's shape.
    pub(crate) shape: Vec<usize>,
    /// The first row of the parameter that the tensor holds. Rows run along the last axis.
    pub(crate) row: usize,
    pub(crate) encoding: Encoding,
}

impl Part {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        let axes = self.shape.len().saturating_sub(1);
        self.shape[..axes].iter().product()
    }
}

/// A parameter: its name in memory and its shape in the checkpoint's orientation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter<'a> {
    pub(crate) architecture: Architecture,
    pub(crate) name: &'a str,
    pub(crate) shape: &'a [usize],
}

impl Parameter<'_> {
    /// Returns the tensors that hold the parameter in a checkpoint of the given kind, in the order of their rows.
    pub(crate) fn parts(self, storage: ExpertStorage) -> Vec<Part> {
        let storage = match self.names().published_stacked {
            true => ExpertStorage::Stacked,
            false => storage,
        };
        let block = match storage {
            ExpertStorage::PerExpert => self.names().block,
            ExpertStorage::Stacked => BLOCK,
        };
        self.parts_in(block, storage)
    }

    /// Returns every set of tensors that may hold the parameter, the usual one first.
    pub(crate) fn alternatives(self) -> Vec<Vec<Part>> {
        let mut ways: Vec<Vec<Part>> = Vec::new();
        let mut add = |way: Vec<Part>| {
            if !ways.contains(&way) {
                ways.push(way);
            }
        };
        add(self.parts(ExpertStorage::default()));
        for storage in [ExpertStorage::PerExpert, ExpertStorage::Stacked] {
            for block in [self.names().block, BLOCK] {
                add(self.parts_in(block, storage));
            }
        }
        ways.extend(self.quantised());
        ways.extend(self.transposed());
        let others: Vec<_> = ways
            .iter()
            .filter_map(|way| self.under_other(way))
            .collect();
        ways.extend(others);
        ways
    }

    /// Returns the same tensors under the other beginning of names, in a family whose files may have it.
    fn under_other(self, way: &[Part]) -> Option<Vec<Part>> {
        let parts = way.iter().map(|part| {
            Some(Part {
                name: under_other_prefix(self.architecture, &part.name)?,
                ..part.clone()
            })
        });
        parts.collect()
    }

    /// Returns the tensors of a stack of matrices in MXFP4, in a family that has such files.
    fn quantised(self) -> Option<Vec<Part>> {
        let &[experts, columns, rows] = self.shape else {
            return None;
        };
        if !self.names().mxfp4 || !columns.is_multiple_of(MXFP4_BLOCK) {
            return None;
        }
        let part = |what: &str, shape: Vec<usize>| Part {
            name: format!("{}_{what}", self.name),
            shape,
            row: 0,
            encoding: Encoding::Mxfp4,
        };
        let blocks = columns / MXFP4_BLOCK;
        Some(vec![
            part("blocks", vec![experts, rows, blocks, MXFP4_BLOCK_BYTES]),
            part("scales", vec![experts, rows, blocks]),
        ])
    }

    /// Returns the tensor of a stack of transposed matrices, in a family that has files of both kinds.
    fn transposed(self) -> Option<Vec<Part>> {
        let &[experts, rows, columns] = self.shape else {
            return None;
        };
        let usual = self.parts_in(BLOCK, ExpertStorage::Stacked).pop()?;
        self.names().transposed.then(|| {
            vec![Part {
                shape: vec![experts, columns, rows],
                encoding: Encoding::Transposed,
                ..usual
            }]
        })
    }

    fn names(self) -> ExpertNames {
        let experts = self.architecture.family().experts;
        experts.map_or(ExpertNames::USUAL, |experts| experts.files)
    }

    fn parts_in(self, block: &str, storage: ExpertStorage) -> Vec<Part> {
        // The router's bias is part of the block in memory, which reads it.
        let name = self.name.replace(CORRECTION, GATE_CORRECTION);
        let name = name.replace(DECAY, FILED_DECAY);
        let name = name.replace(BLOCK, block);
        let name = in_whole_model(self.architecture, &name);
        if storage == ExpertStorage::PerExpert
            && let (Some(stack), &[experts, rows, columns]) = (self.stack(), self.shape)
        {
            let prefix = name.strip_suffix(stack.name()).unwrap_or(&name).to_owned();
            let projections = stack.projections(self.names());
            return split(&prefix, projections, [experts, rows, columns]);
        }
        vec![Part {
            name,
            shape: self.shape.to_vec(),
            row: 0,
            encoding: Encoding::Floats,
        }]
    }

    fn stack(self) -> Option<Stack> {
        let mut stacks = [Stack::GateUp, Stack::Down].into_iter();
        let split = !self.names().gate_up.is_empty();
        stacks.find(|stack| {
            let experts = self.name.strip_suffix(stack.name());
            split && experts.is_some_and(|prefix| prefix.ends_with(".mlp.experts."))
        })
    }
}

/// The number of elements of MXFP4 with a common exponent.
pub(crate) const MXFP4_BLOCK: usize = 32;

/// The number of bytes of a block of MXFP4.
pub(crate) const MXFP4_BLOCK_BYTES: usize = MXFP4_BLOCK / 2;

/// The bias of the choice of experts, in memory and in checkpoints.
const CORRECTION: &str = ".mlp.e_score_correction_bias";
const GATE_CORRECTION: &str = ".mlp.gate.e_score_correction_bias";

/// The parameter of a linear layer's decay, in memory and in checkpoints.
const DECAY: &str = ".linear_attn.a_log";
const FILED_DECAY: &str = ".linear_attn.A_log";

/// The stacked projections of a layer's experts.
#[derive(Clone, Copy)]
enum Stack {
    /// Gate and up projections: the rows of gate come first.
    GateUp,
    Down,
}

impl Stack {
    fn name(self) -> &'static str {
        match self {
            Self::GateUp => "gate_up_proj",
            Self::Down => "down_proj",
        }
    }

    /// Returns the projections of one expert, in the order of their rows.
    fn projections(self, names: ExpertNames) -> &'static [&'static str] {
        match self {
            Self::GateUp => names.gate_up,
            Self::Down => names.down,
        }
    }
}

/// Splits `[experts, rows, columns]` into one matrix for each projection of each expert.
fn split(prefix: &str, projections: &[&str], [experts, rows, columns]: [usize; 3]) -> Vec<Part> {
    let height = rows / projections.len();
    let mut parts = Vec::with_capacity(experts * projections.len());
    for expert in 0..experts {
        for projection in projections {
            parts.push(Part {
                name: format!("{prefix}{expert}.{projection}.weight"),
                shape: vec![height, columns],
                row: parts.len() * height,
                encoding: Encoding::Floats,
            });
        }
    }
    parts
}

/// Returns the name in a checkpoint of a parameter, whose name begins with `model.` unless it is the output projection or
/// part of the vision tower.
pub(crate) fn in_whole_model(architecture: Architecture, name: &str) -> String {
    let family = architecture.family();
    if let (Some(vision), Some(rest)) = (family.vision, name.strip_prefix("visual.")) {
        return format!("{}{rest}", vision.prefix);
    }
    for (own, stored) in family.names {
        if let Some(rest) = name.strip_prefix(own) {
            return format!("{stored}{rest}");
        }
    }
    let nested = family.nested;
    match (nested, name.strip_prefix("model.")) {
        (Some(nested), Some(rest)) => format!("{}{rest}", nested.prefix),
        _ => name.to_owned(),
    }
}

/// Returns the name of a parameter in a checkpoint under the other beginning of names, if files of this class may
/// have it.
pub(crate) fn under_other_prefix(architecture: Architecture, name: &str) -> Option<String> {
    let other = architecture.family().other_prefix?;
    Some(format!("{other}{}", name.strip_prefix("model.")?))
}

/// Returns the number of the expert that a tensor belongs to, if its name contains one.
pub(crate) fn expert_of(name: &str) -> Option<usize> {
    let (_, rest) = name.split_once(".experts.")?;
    rest.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parts: &[Part]) -> Vec<&str> {
        parts.iter().map(|part| part.name.as_str()).collect()
    }

    #[test]
    fn experts_are_split_where_their_rows_begin() {
        let parts = Parameter {
            architecture: Architecture::Qwen3Moe,
            name: "model.layers.7.mlp.experts.gate_up_proj",
            shape: &[2, 6, 5],
        }
        .parts(ExpertStorage::PerExpert);
        assert_eq!(
            names(&parts),
            [
                "model.layers.7.mlp.experts.0.gate_proj.weight",
                "model.layers.7.mlp.experts.0.up_proj.weight",
                "model.layers.7.mlp.experts.1.gate_proj.weight",
                "model.layers.7.mlp.experts.1.up_proj.weight",
            ]
        );
        let rows: Vec<_> = parts.iter().map(|part| (part.row, part.rows())).collect();
        assert_eq!(rows, [(0, 3), (3, 3), (6, 3), (9, 3)]);
    }

    #[test]
    fn mixtral_has_names_of_its_own() {
        let router = Parameter {
            architecture: Architecture::Mixtral,
            name: "model.layers.0.mlp.gate.weight",
            shape: &[8, 4],
        };
        assert_eq!(
            names(&router.parts(ExpertStorage::PerExpert)),
            ["model.layers.0.block_sparse_moe.gate.weight"]
        );
        assert_eq!(router.parts(ExpertStorage::Stacked)[0].name, router.name);
        assert_eq!(router.alternatives().len(), 2);
        let down = Parameter {
            name: "model.layers.0.mlp.experts.down_proj",
            shape: &[1, 4, 3],
            ..router
        };
        assert_eq!(
            names(&down.parts(ExpertStorage::PerExpert)),
            ["model.layers.0.block_sparse_moe.experts.0.w2.weight"]
        );
        assert_eq!(down.alternatives().len(), 4);
    }

    /// The projections of a dense MLP and of a shared expert are not split.
    #[test]
    fn only_stacks_of_experts_are_split() {
        for name in [
            "model.layers.0.mlp.down_proj.weight",
            "model.layers.0.mlp.shared_expert.down_proj.weight",
        ] {
            let parameter = Parameter {
                architecture: Architecture::Qwen2Moe,
                name,
                shape: &[4, 3],
            };
            assert_eq!(names(&parameter.parts(ExpertStorage::PerExpert)), [name]);
            assert_eq!(parameter.alternatives().len(), 1);
        }
    }

    #[test]
    fn experts_are_known_by_number() {
        assert_eq!(
            expert_of("model.layers.0.mlp.experts.12.w1.weight"),
            Some(12)
        );
        assert_eq!(expert_of("model.layers.0.mlp.experts.gate_up_proj"), None);
        assert_eq!(expert_of("model.norm.weight"), None);
    }
}
