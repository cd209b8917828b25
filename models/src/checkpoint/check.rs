//! Comparison of a checkpoint's tensors with the configured model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn::module::Param;
use burn::tensor::Tensor;
use safetensors::Dtype;

use super::CONFIG;
use super::matrices::{Matrix, check_scales_of_stack};
use super::shards::{Shards, counted};
use super::storage::Storage;
use crate::config::Speech;
use crate::parameters::layout::{Encoding, Part, expert_of, in_whole_model};
use crate::parameters::{Configured, ParameterInfo, Visit, walk};
use crate::{ModelConfig, ModelError, TensorProblem, nearest};

const EMBEDDING: &str = "model.embed_tokens.weight";

/// The starts of the names of vision towers and of encoders of audio.
const TOWERS: [&str; 4] = [
    "visual.",
    "model.visual.",
    "audio_tower.",
    "model.audio_tower.",
];

/// The start of the names of a vision tower's parameters in memory.
const TOWER: &str = "visual.";

const LM_HEAD: &str = "lm_head.weight";

/// The types of GGUF files that are read.
const OF_GGUF: &str =
    "F32, F16, BF16, F64, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K or MXFP4";

/// Compares the checkpoint's list of tensors with the model's parameters. Returns remarks on the files, and on tensors that
/// are not loaded.
pub(super) fn check_tensors(
    dir: &Path,
    config: &ModelConfig,
    shards: &Shards,
    model: &impl Configured,
) -> Result<Vec<String>, ModelError> {
    let (expected, mut problems) = compared(dir, shards, model);
    let decoder = in_whole_model(config.architecture, "model.");
    let modules = expected.iter().filter_map(|name| module(&decoder, name));
    let modules: BTreeSet<&str> = modules.collect();
    let tower = in_whole_model(config.architecture, TOWER);
    let sees = expected.iter().any(|name| name.starts_with(&tower));
    // Such as a head for another task.
    let is_outside = |name: &str| {
        let own = module(&decoder, name);
        let is_vision = sees && name.starts_with(&tower);
        !is_vision && !name.starts_with("lm_head.") && own.is_none_or(|own| !modules.contains(own))
    };
    let mut unread: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    let mut outside = Vec::new();
    for name in shards.names() {
        if expected.contains(name) || is_buffer(name) {
            continue;
        }
        let why = unread_because(config, sees, name).or_else(|| beside_quantised(shards, name));
        if let Some(why) = why {
            unread.entry(why).or_default().push(name);
        } else if is_outside(name) {
            outside.push(name);
        } else if let Some(problem) = foreign(config, shards, name)? {
            problems.push(problem);
        }
    }
    if problems.is_empty() {
        unread
            .entry("the model has no such parameters")
            .or_default()
            .append(&mut outside);
        let unread = unread.into_iter();
        let own = unread
            .filter_map(|(why, names)| Some(format!("{} not loaded: {why}", counted(&names)?)));
        return Ok(shards.remarks().iter().cloned().chain(own).collect());
    }
    // One of these may be a missing parameter under a wrong name.
    let outside = outside
        .into_iter()
        .map(|name| foreign(config, shards, name));
    for problem in outside {
        problems.extend(problem?);
    }
    name_nearest(&mut problems);
    for problem in &mut problems {
        problem.tensor = shards.shown_name(&problem.tensor);
    }
    Err(ModelError::Tensors {
        dir: dir.into(),
        problems,
        remarks: shards.remarks().into(),
    })
}

/// Compares the tensors of a part of a model with its parameters. Other tensors whose names begin with `prefix` are problems.
pub(super) fn check_part(
    dir: &Path,
    shards: &Shards,
    part: &impl Configured,
    prefix: &str,
) -> Result<(), ModelError> {
    let (expected, mut problems) = compared(dir, shards, part);
    let own = shards.names().filter(|name| name.starts_with(prefix));
    for name in own.filter(|name| !expected.contains(*name) && !is_buffer(name)) {
        if let Some(file) = shards.file_of(name) {
            problems.push(TensorProblem {
                file: file.path().into(),
                tensor: name.into(),
                problem: "unexpected: this configuration has no such parameter".into(),
            });
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    name_nearest(&mut problems);
    Err(ModelError::Tensors {
        dir: dir.into(),
        problems,
        remarks: shards.remarks().into(),
    })
}

/// Returns the names of the tensors that hold a model, and the problems with them.
fn compared(
    dir: &Path,
    shards: &Shards,
    model: &impl Configured,
) -> (BTreeSet<String>, Vec<TensorProblem>) {
    let mut check = Check {
        dir,
        shards,
        expected: BTreeSet::new(),
        problems: Vec::new(),
    };
    walk(model, &mut check);
    (check.expected, check.problems)
}

/// Returns the module of the decoder that a tensor belongs to: `layers` of `model.layers.0.mlp.down_proj.weight`.
fn module<'a>(decoder: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(decoder)?.split('.').next()
}

/// Returns the reason why a tensor is rightly not loaded, if there is one.
fn unread_because(config: &ModelConfig, sees: bool, name: &str) -> Option<&'static str> {
    let is_tower = |start: &&str| name.starts_with(*start);
    if config.family().nested.is_some() && !sees && TOWERS.iter().any(is_tower) {
        Some("only the text model is")
    } else if config.family().speech == Some(Speech::Talker) && name.starts_with("code_predictor.")
    {
        Some("the code predictor is a part of its own")
    } else if is_shared(config, name) {
        Some("their layers have the keys and values of others")
    } else if predicts_further(config, name) {
        Some("they predict tokens after the next one")
    } else {
        None
    }
}

/// Returns the reason why a tensor of a quantised layer is rightly not loaded, if there is one: a scale of activations, which
/// stay floats, or a bias of zeros, which AutoGPTQ writes for layers without one.
fn beside_quantised(shards: &Shards, name: &str) -> Option<&'static str> {
    const OF_ACTIVATIONS: [&str; 6] = [
        "input_scale",
        "input_zero_point",
        "output_scale",
        "activation_scale",
        "k_scale",
        "v_scale",
    ];
    let (layer, part) = name.rsplit_once('.')?;
    if shards.is_quantised() && OF_ACTIVATIONS.contains(&part) {
        return Some("activations are not rounded");
    }
    shards.matrix(&format!("{layer}.weight"))?;
    let (file, info) = shards.find(name).filter(|_| part == "bias")?;
    let zeros = file.read(info).ok()?.iter().all(|&byte| byte == 0);
    zeros.then_some("these biases are zero, and the model has none")
}

/// Returns `true` for tables that follow from the configuration, such as `model.layers.3.self_attn.rotary_emb.inv_freq`,
/// which old versions wrote.
fn is_buffer(name: &str) -> bool {
    name.contains("rotary_emb.") || name.ends_with(".masked_bias") || name.ends_with("position_ids")
}

/// Returns `true` for a projection or norm of keys or values in a layer that uses those of a layer below. Published files
/// have them, and `transformers` leaves them out, too.
fn is_shared(config: &ModelConfig, name: &str) -> bool {
    let Some(altup) = &config.altup else {
        return false;
    };
    let rest = name.strip_prefix("model.layers.");
    let layer = rest.and_then(|rest| rest.split_once(".self_attn."));
    layer.is_some_and(|(layer, rest)| {
        let layers = config.num_hidden_layers;
        let unused = ["k_proj.", "v_proj.", "k_norm.", "v_norm."];
        let shares = |layer| layer < layers && altup.shares(layer, layers);
        layer.parse().is_ok_and(shares) && unused.iter().any(|own| rest.starts_with(own))
    })
}

/// Returns `true` for a tensor of the layers after the last, with which some models predict several tokens at once.
/// `transformers` leaves them out, too.
fn predicts_further(config: &ModelConfig, name: &str) -> bool {
    let layer = name.strip_prefix("model.layers.");
    let layer = layer.and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    let first = config.num_hidden_layers;
    layer.is_some_and(|layer| layer >= first && layer - first < config.further_layers())
}

/// Returns the problem with a tensor that is not a parameter of the model. Returns `None` for a stored output
/// projection that equals the embedding of a tied model.
fn foreign(
    config: &ModelConfig,
    shards: &Shards,
    name: &str,
) -> Result<Option<TensorProblem>, ModelError> {
    let Some((file, _)) = shards.find(name) else {
        return Ok(None);
    };
    let tied = config.tie_word_embeddings && name == LM_HEAD;
    let embedding = in_whole_model(config.architecture, EMBEDDING);
    if tied && same_values(shards, &embedding, LM_HEAD)? {
        return Ok(None);
    }
    let problem = if tied {
        format!(
            "differs from `{embedding}`, though `tie_word_embeddings` in {CONFIG} says that they are one"
        )
    } else {
        surplus(config, name)
    };
    Ok(Some(TensorProblem {
        file: file.path().into(),
        tensor: name.into(),
        problem,
    }))
}

/// Adds to each unexpected tensor the missing one with the nearest name. A checkpoint with many of both is of another
/// family, and gets no such hints.
fn name_nearest(problems: &mut [TensorProblem]) {
    const MOST: usize = 100;
    let of = |start: &str, problems: &[TensorProblem]| {
        let own = problems.iter().filter(|own| own.problem.starts_with(start));
        own.map(|own| own.tensor.clone()).collect::<Vec<_>>()
    };
    let (missing, unexpected) = (of("missing", problems), of("unexpected", problems));
    if missing.len().max(unexpected.len()) > MOST {
        return;
    }
    for problem in problems {
        if problem.problem.starts_with("unexpected") {
            let missing = missing.iter().map(String::as_str);
            problem.problem += &nearest::missing(&problem.tensor, missing);
        }
    }
}

fn surplus(config: &ModelConfig, name: &str) -> String {
    match (expert_of(name), &config.moe) {
        (Some(expert), Some(moe)) if expert >= moe.num_experts => format!(
            "unexpected: expert {expert}, but {CONFIG} says that there are {}, counted from 0",
            moe.num_experts
        ),
        _ => format!(
            "unexpected: {} of this configuration has no such parameter",
            config.architecture
        ),
    }
}

/// Returns `true` if two tensors have the same type, shape and bytes. It reads them in pieces.
fn same_values(shards: &Shards, left: &str, right: &str) -> Result<bool, ModelError> {
    const PIECE: usize = 4 << 20;
    let (Some((left_file, left)), Some((right_file, right))) =
        (shards.find(left), shards.find(right))
    else {
        return Ok(false);
    };
    if left.storage != right.storage || left.shape != right.shape {
        return Ok(false);
    }
    for at in (0..left.bytes).step_by(PIECE) {
        let piece = PIECE.min(left.bytes - at);
        let left = left_file.read_range(left.begin + at as u64, piece)?;
        let right = right_file.read_range(right.begin + at as u64, piece)?;
        if left != right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A visitor that looks up every parameter in the checkpoint's list.
struct Check<'a> {
    dir: &'a Path,
    shards: &'a Shards,
    expected: BTreeSet<String>,
    problems: Vec<TensorProblem>,
}

impl Visit for Check<'_> {
    fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape();
        let mut ways = stored_ways(self.shards, info, shape.as_slice());
        let Some(way) = ways.pop() else {
            return self.missing(info.alternatives(shape.as_slice()));
        };
        for other in ways {
            self.stored_twice(&other, &way);
        }
        for part in way {
            self.part(&part);
        }
    }
}

impl Check<'_> {
    /// Compares one tensor with the expected shape and the supported dtypes.
    fn part(&mut self, part: &Part) {
        if let Some(matrix) = self.shards.matrix(&part.name) {
            return self.matrix(part, &matrix);
        }
        let (file, problem) = match self.shards.find(&part.name) {
            None => (
                self.shards.whole(self.dir),
                Some(format!("missing; expected shape {:?}", part.shape)),
            ),
            Some((file, info)) if info.shape != part.shape => {
                let problem = format!("expected shape {:?}, found {:?}", part.shape, info.shape);
                (file.path().into(), Some(problem))
            }
            Some((file, info)) if !is_readable(info.storage, part.encoding) => {
                let expected = match (part.encoding, info.storage) {
                    (_, Storage::Unread(_)) => OF_GGUF,
                    (Encoding::Floats | Encoding::Transposed, _) => "F16, BF16, F32 or F64",
                    (Encoding::Mxfp4, _) => "U8",
                };
                let problem = format!("expected dtype {expected}, found {}", info.storage);
                (file.path().into(), Some(problem))
            }
            Some((file, info)) if part.encoding == Encoding::Mxfp4 => {
                let problem = check_scales_of_stack(file, info).err();
                (file.path().into(), problem)
            }
            Some((file, _)) => (file.path().into(), None),
        };
        if let Some(problem) = problem {
            self.problem(file, &part.name, problem);
        }
        self.expected.insert(part.name.clone());
    }

    /// Compares a quantised weight with the expected shape, and its parts with each other.
    fn matrix(&mut self, part: &Part, matrix: &Matrix<'_>) {
        self.expected.extend(matrix.names().map(str::to_owned));
        // In some encodings, one of the parts has the weight's name.
        let floats = self.shards.find(&part.name);
        let twice = floats.is_some() && self.expected.insert(part.name.clone());
        let checked = match part.shape.as_slice() {
            _ if twice => Err(format!(
                "is stored in {} as well; keep one",
                matrix.encoding
            )),
            &[rows, columns] => matrix.check([rows, columns]),
            _ => Err("expected floats, as only matrices are quantised".into()),
        };
        if let Err(problem) = checked {
            self.problem(matrix.file().path().into(), &part.name, problem);
        }
    }

    /// Records that no tensor of a parameter exists.
    fn missing(&mut self, ways: Vec<Vec<Part>>) {
        let firsts: Vec<&Part> = ways.iter().filter_map(|way| way.first()).collect();
        let Some((usual, others)) = firsts.split_first() else {
            return;
        };
        let mut problem = format!("missing; expected shape {:?}", usual.shape);
        if ways[0].len() > 1 {
            problem += &format!(", and so on: {} tensors", ways[0].len());
        }
        for other in others {
            problem += &format!("; or `{}` of shape {:?}", other.name, other.shape);
        }
        self.problem(self.shards.whole(self.dir), &usual.name, problem);
    }

    /// Records that a parameter is stored in two layouts.
    fn stored_twice(&mut self, one: &[Part], other: &[Part]) {
        let stored = |way: &[Part]| {
            let mut parts = way.iter();
            let found = parts.find(|part| self.shards.file_of(&part.name).is_some());
            found.map(|part| part.name.clone())
        };
        if let (Some(first), Some(second)) = (stored(one), stored(other))
            && let Some(file) = self.shards.file_of(&second)
        {
            let problem = format!(
                "holds what `{first}` holds as well; keep the experts stacked or one by one, under \
                 one of the names"
            );
            self.problem(file.path().into(), &second, problem);
        }
        for part in one {
            let matrix = self.shards.matrix(&part.name);
            let parts = matrix.iter().flat_map(Matrix::names).map(str::to_owned);
            self.expected.extend(parts);
            self.expected.insert(part.name.clone());
        }
    }

    fn problem(&mut self, file: PathBuf, tensor: &str, problem: String) {
        self.problems.push(TensorProblem {
            file,
            tensor: tensor.into(),
            problem,
        });
    }
}

fn is_readable(stored: Storage, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Floats | Encoding::Transposed => stored.is_supported(),
        Encoding::Mxfp4 => stored == Storage::Plain(Dtype::U8),
    }
}

/// Returns the layouts of a parameter of which the checkpoint has at least one tensor.
pub(super) fn stored_ways(
    shards: &Shards,
    info: &ParameterInfo,
    param_shape: &[usize],
) -> Vec<Vec<Part>> {
    let is_there = |part: &Part| shards.file_of(&part.name).is_some();
    let stored = |way: &Vec<Part>| way.iter().any(is_there);
    let ways = info.alternatives(param_shape);
    let mut ways: Vec<Vec<Part>> = ways.into_iter().filter(stored).collect();
    // Two layouts under one name differ by their shapes. Of a square matrix, the first is the usual one.
    let shaped = |part: &Part| shards.find(&part.name).map(|(_, info)| &info.shape);
    let fits = |way: &[Part]| way.iter().all(|part| shaped(part) == Some(&part.shape));
    if let [first, second] = ways.as_slice()
        && first
            .iter()
            .map(|part| &part.name)
            .eq(second.iter().map(|part| &part.name))
    {
        let other = usize::from(fits(first) || !fits(second));
        ways.remove(other);
    }
    ways
}
