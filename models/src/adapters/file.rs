//! `adapter_model.safetensors`: the factors of all adapters, under PEFT's names.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, FloatDType, Tensor};
use kernels_io::{Staging, escape, write_new};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::attach::Factors;
use super::config::{AdapterConfig, CONFIG, Named, Stored};
use super::patterns::Each;
use super::peft;
use super::targets::{self, Target, Targets};
use crate::checkpoint::TensorFile;
use crate::parameters;
use crate::{CausalLm, ModelConfig, ModelError};

/// The file of the tensors.
const TENSORS: &str = "adapter_model.safetensors";

/// Writes the adapters of a model to the folder `dir` in PEFT's layout, in f32. `base` is the name or the folder of the
/// model that they adapt, as PEFT looks it up.
///
/// The folder appears complete or not at all.
///
/// # Errors
/// Returns [`ModelError::Adapter`] if the model has no adapter, [`ModelError::Layout`] if `dir` exists and is not empty,
/// and [`ModelError::Io`] if the system fails.
pub fn save_adapters(
    model: &CausalLm,
    config: &AdapterConfig,
    base: &str,
    dir: &Path,
) -> Result<(), ModelError> {
    crate::checkpoint::refuse_occupied(dir)?;
    let mut adapters = adapters(model);
    if adapters.is_empty() {
        let problem = "the model has no adapter to save".into();
        return Err(ModelError::Adapter { problem });
    }
    let targets = targets::all(model);
    let adapted = |target: &&Target| adapters.contains_key(&target.name);
    let adapted: Vec<&Target> = targets.values().filter(adapted).collect();
    let names = adapted.iter().map(|target| target.name.as_str());
    let text = config.to_json(&named(&targets, &adapted), names.clone(), base)?;
    let mut tensors = BTreeMap::new();
    for target in &adapted {
        let Adapter { a, b } = adapters.remove(&target.name).unwrap_or_default();
        let factor = |factor: Option<Tensor<2>>| {
            let factor = factor.expect("an adapter has two factors");
            factor.without_autodiff().cast(FloatDType::F32)
        };
        let stored = peft::tensors(target, factor(a), factor(b));
        for (name, tensor) in peft::names(target, names.clone()).into_iter().zip(stored) {
            let data = tensor.try_into_data().map_err(|error| {
                let problem = format!("an adapter can't be read from the device: {error}");
                ModelError::Adapter { problem }
            })?;
            tensors.insert(name, data);
        }
    }
    let failed = |problem: String| ModelError::Safetensors {
        file: dir.join(TENSORS),
        problem,
    };
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, data)| {
            let shape = data.shape().as_slice().to_vec();
            let view = TensorView::new(Dtype::F32, shape, data.as_bytes())?;
            Ok::<_, safetensors::SafeTensorError>((name, view))
        })
        .collect();
    // PEFT writes and transformers expects this entry.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    let bytes = views.and_then(|views| safetensors::serialize(views, Some(metadata)));
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;

    let staging = Staging::beside(dir)?;
    write_new(&staging.path().join(CONFIG), text.as_bytes())?;
    write_new(&staging.path().join(TENSORS), &bytes)?;
    Ok(staging.publish()?)
}

/// Returns names of the adapted targets: their ends if nothing else has these, and the whole names otherwise.
fn named(targets: &Targets, adapted: &[&Target]) -> Named {
    // Targets of one kind of entry, and what their entries have after their names.
    let of = |(is_module, experts): (bool, bool), end: &str| -> Vec<String> {
        let is_of =
            |target: &&Target| (target.is_module, target.experts.is_some()) == (is_module, experts);
        let adapted: Vec<&Target> = adapted.iter().copied().filter(is_of).collect();
        let mut kinds: Vec<&str> = adapted.iter().map(|target| target.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let is_nested = adapted.iter().any(|target| peft::is_nested(&target.name));
        let all = targets.values().filter(is_of);
        let named = all.filter(|target| kinds.contains(&target.kind()));
        let mut names: Vec<String> = match named.count() == adapted.len() && !is_nested {
            true => kinds
                .into_iter()
                .map(|kind| format!("{kind}{end}"))
                .collect(),
            false => adapted
                .iter()
                .map(|target| format!("{}{end}", target.name))
                .collect(),
        };
        names.sort();
        names
    };
    Named {
        modules: of((true, false), ""),
        parameters: [of((false, true), ""), of((false, false), ".weight")].concat(),
    }
}

/// The factors of an adapter, `[inputs, rank]` and `[rank, outputs]`. An axis of experts is part of the first one.
#[derive(Default)]
pub(super) struct Adapter {
    a: Option<Tensor<2>>,
    b: Option<Tensor<2>>,
}

/// Returns the adapters of a model by the names of their layers or parameters.
pub(super) fn adapters(model: &CausalLm) -> BTreeMap<String, Adapter> {
    let mut walk = Walk {
        path: parameters::Path::of(model),
        found: BTreeMap::new(),
    };
    model.visit(&mut walk);
    walk.found
}

struct Walk {
    path: parameters::Path,
    found: BTreeMap<String, Adapter>,
}

impl ModuleVisitor for Walk {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some((info, factor)) = self.path.adapted() else {
            return;
        };
        let experts = || info.experts().map(|(name, _)| name);
        let Some(name) = info.linear_layer().or_else(experts) else {
            return;
        };
        let value = param.val();
        let columns = value.dims()[D - 1];
        let rows = value.shape().num_elements() / columns;
        let name = peft::name(info.architecture, name);
        let adapter = self.found.entry(name).or_default();
        let place = match factor {
            "a" => &mut adapter.a,
            _ => &mut adapter.b,
        };
        *place = Some(value.reshape([rows, columns]));
    }
}

impl CausalLm {
    /// Attaches the adapters of a folder in PEFT's layout, and freezes all other parameters.
    ///
    /// # Errors
    /// Returns an error that names the file and the tensor or field if something there is not supported, or is not of
    /// this model.
    pub fn load_adapters(self, dir: &Path) -> Result<(AdapterConfig, Self), ModelError> {
        let targets = targets::all(&self);
        let (config, factors) = read(&targets, dir)?;
        let model = self.attach(config.dropout, &targets, factors);
        Ok((config, model))
    }
}

impl AdapterConfig {
    /// Reads the adapters of a folder in PEFT's layout for models of a configuration, without one. Returns their settings.
    ///
    /// # Errors
    /// Returns an error as [`CausalLm::load_adapters`] does.
    pub fn of_folder(dir: &Path, config: &ModelConfig) -> Result<Self, ModelError> {
        // Nothing of it is initialised.
        let model = config.init(&Device::flex());
        read(&targets::all(&model), dir).map(|(config, _)| config)
    }
}

/// Reads the adapters of a folder.
pub(super) fn read(
    all: &Targets,
    dir: &Path,
) -> Result<(AdapterConfig, BTreeMap<ParamId, Factors>), ModelError> {
    let Stored { config, parameters } = Stored::open(dir)?;
    let each = Each::of(&config)?;
    let file = open_tensors(dir)?;
    // By their names, so that of several errors it is always the same one.
    let mut targets: Vec<(ParamId, &Target)> = all.iter().map(|(id, one)| (*id, one)).collect();
    targets.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    let is_named = |target: &Target| {
        let former = peft::former(&target.name);
        let names = |entry: &String| [&target.name, &former].map(|name| peft::targets(entry, name));
        target.experts.is_some() && parameters.iter().any(|entry| names(entry).contains(&true))
    };
    let adapted = all.values().filter(|target| is_named(target));
    let adapted = adapted.map(|target| target.name.as_str());
    let mut factors: BTreeMap<ParamId, Factors> = BTreeMap::new();
    let mut adapted_names = Vec::new();
    let mut left: Vec<&str> = file.names().collect();
    for (id, target) in targets {
        let names = peft::names(target, adapted.clone());
        let found = |names: &[String; 2]| names.iter().any(|name| file.info(name).is_some());
        let names = match found(&names) {
            true => names,
            false => names.map(|name| peft::former(&name)),
        };
        let is_there = || found(&names);
        match target.experts {
            Some(_) if !is_named(target) => continue,
            Some(_) => targets::without_dropout(&config, &target.name)?,
            None if !is_there() => continue,
            None => {}
        }
        let own = each.at(&target.name)?;
        let shapes = peft::shapes(target, own.rank);
        let [a, b] = [0, 1].map(|at| tensor(&file, &names[at], shapes[at]));
        factors.insert(id, peft::factors(target, &own, [a?, b?]));
        left.retain(|name| !names.iter().any(|read| read == name));
        adapted_names.push(target.name.clone());
    }
    if let Some(name) = left.first() {
        let problem = "this base model has no linear layer of this name, and `target_parameters` names no experts of \
                       it; the adapters are of another one, or of a kind that is not supported";
        return Err(wrong(&file, name, problem.into()));
    }
    if factors.is_empty() {
        let problem = format!(
            "{}: no adapter is there",
            kernels_io::escape_path(file.path())
        );
        return Err(ModelError::Adapter { problem });
    }
    let config = AdapterConfig {
        targets: adapted_names,
        ..config
    };
    Ok((config, factors))
}

/// Opens the file of the tensors.
fn open_tensors(dir: &Path) -> Result<TensorFile, ModelError> {
    let old = "adapter_model.bin";
    if dir.join(TENSORS).exists() || !dir.join(old).exists() {
        return TensorFile::open(&dir.join(TENSORS));
    }
    let problem = format!("holds no {TENSORS}; {old} is not read, convert it to safetensors");
    Err(ModelError::Layout {
        dir: dir.into(),
        problem,
    })
}

/// Reads a tensor of this shape.
fn tensor(file: &TensorFile, name: &str, shape: [usize; 2]) -> Result<Vec<f32>, ModelError> {
    let Some(info) = file.info(name) else {
        return Err(wrong(file, name, "it is not there".into()));
    };
    if info.shape != shape {
        let problem = format!(
            "its shape is {:?}, but this base model needs {shape:?}; the adapters are of another one",
            info.shape
        );
        return Err(wrong(file, name, problem));
    }
    match file.read_f32(info)? {
        Some(values) => Ok(values),
        None => {
            let problem = format!("the type {} is not supported", info.type_name());
            Err(wrong(file, name, problem))
        }
    }
}

fn wrong(file: &TensorFile, name: &str, problem: String) -> ModelError {
    ModelError::Adapter {
        problem: format!(
            "{}: tensor `{}`: {problem}",
            kernels_io::escape_path(file.path()),
            escape(name)
        ),
    }
}
