//! The targets of adapters: the linear layers of a model, and the projections of its experts.

use std::collections::BTreeMap;

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;

use super::{AdapterConfig, peft};
use crate::config::family::Axes;
use crate::parameters::{ParameterInfo, Visit, walk};
use crate::{CausalLm, ModelError};

/// A linear layer, or one projection of all experts of a layer.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The name that `transformers` gives to the layer, or to the parameter of the experts.
    pub(super) name: String,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// The experts, if it is a projection of some.
    pub(super) experts: Option<Experts>,
    /// True if PEFT adapts it as a module. Otherwise it adapts its weight as a parameter, without dropout.
    pub(super) is_module: bool,
}

/// The experts of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Experts {
    pub(super) count: usize,
    pub(super) axes: Axes,
}

/// The targets of a model by the ids of their weights.
pub(super) type Targets = BTreeMap<ParamId, Target>;

/// The names of the output projection and of the head of reward models, which are adapted only if they are named.
const HEADS: [&str; 3] = ["lm_head", "codec_head", "score"];

impl Target {
    fn of(info: &ParameterInfo, shape: &[usize]) -> Option<Self> {
        if let (Some(name), &[inputs, outputs]) = (info.linear_layer(), shape) {
            return Some(Self {
                name: peft::name(info.architecture, name),
                inputs,
                outputs,
                experts: None,
                is_module: peft::is_module(info.architecture, name),
            });
        }
        let ((name, axes), &[count, rows, columns]) = (info.experts()?, shape) else {
            return None;
        };
        let (inputs, outputs) = match axes {
            Axes::OutIn => (columns, rows),
            Axes::InOut | Axes::InOutUntold => (rows, columns),
        };
        Some(Self {
            name: peft::name(info.architecture, name),
            inputs,
            outputs,
            experts: Some(Experts { count, axes }),
            is_module: false,
        })
    }

    /// Returns the end of the name that tells targets of different kinds apart.
    pub(super) fn kind(&self) -> &str {
        let end = last(&self.name);
        // A number alone is the end of a layer's name too.
        let is_number = end.bytes().all(|byte| byte.is_ascii_digit());
        match self.experts.is_some() || is_number {
            false => end,
            true => {
                let module = self.name.rsplit_once('.').map_or("", |(module, _)| module);
                let start = module.len() - last(module).len();
                &self.name[start..]
            }
        }
    }
}

/// Returns the targets of a model.
pub(super) fn all(model: &CausalLm) -> Targets {
    struct Collect(Targets);
    impl Visit for Collect {
        fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
            if let Some(target) = Target::of(info, param.lazy_shape().as_slice()) {
                self.0.insert(param.id, target);
            }
        }
    }
    let mut collect = Collect(Targets::new());
    walk(model, &mut collect);
    collect.0
}

/// Returns the targets that settings name, in the order of their names.
///
/// # Errors
/// Returns an error if a name matches none, or if experts shall have a dropout.
pub(super) fn chosen<'a>(
    targets: &'a Targets,
    config: &AdapterConfig,
) -> Result<Vec<(ParamId, &'a Target)>, ModelError> {
    let is_named = |target: &Target| match config.targets.as_slice() {
        [] => target.is_module && !HEADS.contains(&target.name.as_str()),
        patterns => patterns
            .iter()
            .any(|pattern| matches(pattern, &target.name)),
    };
    for pattern in &config.targets {
        if !targets
            .values()
            .any(|target| matches(pattern, &target.name))
        {
            return Err(no_target(pattern, targets));
        }
    }
    let named = targets.iter().filter(|(_, target)| is_named(target));
    let mut chosen: Vec<_> = named.map(|(id, target)| (*id, target)).collect();
    chosen.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    let experts = chosen.iter().find(|(_, target)| target.experts.is_some());
    match experts {
        Some((_, target)) => without_dropout(config, &target.name).map(|()| chosen),
        None => Ok(chosen),
    }
}

/// Returns the targets of new adapters, in the order of their names.
///
/// # Errors
/// Returns an error as [`chosen`] does, and if the rank is larger than all layers.
pub(super) fn for_new<'a>(
    targets: &'a Targets,
    config: &AdapterConfig,
) -> Result<Vec<(ParamId, &'a Target)>, ModelError> {
    let chosen = chosen(targets, config)?;
    let sizes = chosen
        .iter()
        .map(|(_, target)| target.inputs.max(target.outputs));
    let widest = sizes.max().unwrap_or(0);
    if config.rank <= widest {
        return Ok(chosen);
    }
    let problem = format!(
        "the rank is {}, but the widest adapted layer has {widest} features, and no larger rank is of use",
        config.rank
    );
    Err(ModelError::Adapter { problem })
}

/// Refuses dropout, which adapters of experts can't have.
pub(super) fn without_dropout(config: &AdapterConfig, name: &str) -> Result<(), ModelError> {
    if config.dropout == 0.0 {
        return Ok(());
    }
    let problem = format!(
        "the dropout is {}, but adapters of experts, such as `{name}`, have none, as in PEFT; leave the dropout out, or \
         target linear layers only",
        config.dropout
    );
    Err(ModelError::Adapter { problem })
}

fn no_target(pattern: &str, targets: &Targets) -> ModelError {
    let mut kinds: Vec<&str> = targets.values().map(Target::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let problem = format!(
        "the target `{pattern}` matches no linear layer of this model, and no experts; those that it has are named {}",
        kinds.join(", ")
    );
    ModelError::Adapter { problem }
}

/// Returns the last part of a name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns `true` if a target is the end of a name, from a dot on, or a pattern of the whole name.
fn matches(target: &str, name: &str) -> bool {
    let is_end = name.strip_suffix(target);
    is_end.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        || is_like(target.as_bytes(), name.as_bytes())
}

/// Returns `true` if a text is like a pattern, in which `*` stands for any text and `?` for one character.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    // The last `*`, and the place in the text that it reaches to.
    let (mut star, mut at, mut read) = (None, 0, 0);
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&c) if c == b'?' || c == text[read] => (at, read) = (at + 1, read + 1),
            _ => match star {
                Some((before, reached)) => {
                    star = Some((before, reached + 1));
                    (at, read) = (before + 1, reached + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_ends_of_names_or_patterns() {
        let name = "model.layers.11.self_attn.q_proj";
        for target in [
            "q_proj",
            "self_attn.q_proj",
            name,
            "*",
            "*.q_proj",
            "*.layers.1?.*",
            "model.*.q_????",
            "*layers*11*proj",
        ] {
            assert!(matches(target, name), "{target}");
        }
        for target in [
            "proj",
            "k_proj",
            "*.layers.1.*",
            "model.?",
            "",
            "?",
            "*.layers.1?",
        ] {
            assert!(!matches(target, name), "{target}");
        }
    }
}
