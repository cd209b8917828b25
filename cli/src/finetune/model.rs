//! The checkpoint that a run begins with, its adapters, and the files that it saves.

use super::settings::Settings;
use crate::companions::{GENERATION, copy_companions};
use anyhow::{Context, ensure};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::nn::Quantized;
use kernels_io::{Limit, escape_path};
use kernels_models::{
    AdapterConfig, CausalLm, Generation, ModelConfig, QuantisedWeights, gguf, inspect, load_as,
    load_with_vision,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The options of adapters.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[group(skip)]
#[serde(rename_all = "kebab-case")]
pub struct LoraArgs {
    /// Train low-rank adapters of this rank, in place of the whole model.
    #[arg(long, value_name = "RANK", value_parser = super::parse::count)]
    lora_rank: Option<usize>,
    /// The factor of the adapters, before it is divided by the rank [default: twice the rank].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::above_zero)]
    lora_alpha: Option<f64>,
    /// The probability with which an input of an adapter is left out in training. Adapters of experts have none.
    #[arg(long, value_name = "PART", value_parser = super::parse::part)]
    lora_dropout: Option<f64>,
    /// An adapted layer: its name, or a pattern of its whole name with `*` and `?`. The experts of a mixture are
    /// `experts.gate_up_proj` and `experts.down_proj`. Can be given several times [default: all linear layers but the output
    /// projection and routers, and in some mixtures those of attention alone; see the book].
    #[arg(long, value_name = "NAME")]
    lora_target: Vec<String>,
    /// Divide by the root of the rank (rsLoRA).
    #[arg(long)]
    rslora: bool,
    /// Go on training the adapters in this folder, in PEFT's layout.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["lora_rank", "lora_alpha", "lora_dropout", "lora_target", "rslora"])]
    #[serde(serialize_with = "crate::options::as_absolute")]
    adapter: Option<PathBuf>,
    /// Quantise the frozen weights of linear layers in NF4 while they are read (QLoRA): a quarter of the memory of bf16. The
    /// weights of a quantised checkpoint stay as they are without this.
    #[arg(long, conflicts_with = "dequantize")]
    load_in_4bit: bool,
    /// Decode the weights of a quantised checkpoint to floats, in place of multiplying with their bytes. Without adapters, these
    /// floats are trained.
    #[arg(long)]
    dequantize: bool,
    /// Write the merged model too. Adapters of quantised weights are added to the floats that these decode to, which
    /// needs the memory of the whole model in floats at the end.
    #[arg(long)]
    pub merge: bool,
}

/// The parameters that a run trains.
#[derive(Clone, Debug)]
pub enum Trained {
    /// All parameters.
    Whole,
    /// New adapters.
    New(AdapterConfig),
    /// The adapters of a folder.
    Old(PathBuf),
}

impl LoraArgs {
    /// Returns `true` if inputs of new adapters are left out at random.
    pub fn drops(&self) -> bool {
        self.lora_dropout.is_some_and(|part| part > 0.0)
    }

    /// Returns the form of the frozen weights below adapters.
    pub fn frozen(&self) -> QuantisedWeights {
        match (self.load_in_4bit, self.dequantize) {
            (true, _) => QuantisedWeights::Nf4,
            (_, true) => QuantisedWeights::Decoded,
            _ => QuantisedWeights::Kept,
        }
    }

    /// Returns the name of this form in `finetune.json`. Decoded weights have none, as in runs of versions that decoded all.
    pub fn frozen_name(&self) -> Option<&'static str> {
        match self.frozen() {
            QuantisedWeights::Nf4 => Some("nf4"),
            QuantisedWeights::Kept => Some("as stored"),
            QuantisedWeights::Decoded => None,
        }
    }

    /// Returns the weights that a run trains.
    ///
    /// # Errors
    /// Returns an error if an option needs `--lora-rank`.
    pub fn trained(&self) -> anyhow::Result<Trained> {
        if let Some(folder) = &self.adapter {
            return Ok(Trained::Old(folder.clone()));
        }
        let Some(rank) = self.lora_rank else {
            let others = [
                ("--lora-alpha", self.lora_alpha.is_some()),
                ("--lora-dropout", self.lora_dropout.is_some()),
                ("--lora-target", !self.lora_target.is_empty()),
                ("--rslora", self.rslora),
                ("--load-in-4bit", self.load_in_4bit),
                ("--merge", self.merge),
            ];
            let given = others.iter().find(|(_, given)| *given);
            if let Some((option, _)) = given {
                anyhow::bail!(
                    "{option} is an option of adapters, which --lora-rank or --adapter asks for"
                );
            }
            return Ok(Trained::Whole);
        };
        Ok(Trained::New(AdapterConfig {
            rank,
            alpha: self.lora_alpha.unwrap_or(2.0 * rank as f64),
            dropout: self.lora_dropout.unwrap_or(0.0),
            rank_stabilised: self.rslora,
            targets: self.lora_target.clone(),
            patterns: Default::default(),
        }))
    }
}

/// Refuses to train quantised weights themselves, which have no gradients, and GGUF files where a folder in Hugging
/// Face layout would have to be written.
///
/// # Errors
/// Returns that error, and one if the checkpoint can't be read.
pub fn check_base(folder: &Path, trained: &Trained, lora: &LoraArgs) -> anyhow::Result<()> {
    let shown = escape_path(folder);
    let adapts = !matches!(trained, Trained::Whole);
    ensure!(
        adapts && !lora.merge || gguf::find(folder)?.is_none(),
        "--model {shown} is a GGUF file, and only adapters of it can be trained: give --lora-rank or --adapter, \
         without --merge, or begin with a folder in Hugging Face layout"
    );
    if adapts {
        return Ok(());
    }
    let found = inspect(folder, &Device::flex())?.quantised;
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    ensure!(
        names.is_empty() || lora.dequantize,
        "--model {shown}: its weights are quantised ({}), and a quantised weight has no gradient of its own; --lora-rank \
         trains adapters of such weights (QLoRA), and --dequantize trains the floats that they decode to",
        names.join(", ")
    );
    ensure!(
        !names.is_empty() || !lora.dequantize,
        "--dequantize decodes quantised weights, but --model {shown} has none"
    );
    Ok(())
}

/// Reads the checkpoint, and attaches adapters. Whole models are in f32; the frozen parameters below adapters have the
/// dtype that losses are computed in, or stay in quantised form. A model that `sees` has its vision tower, which is frozen with
/// its merger and has no adapters.
///
/// # Errors
/// Returns an error if the checkpoint or the adapters can't be read, or if a target matches no layer.
pub fn load(
    folder: &Path,
    (trained, frozen): (&Trained, QuantisedWeights),
    dtype: FloatDType,
    (device, seed, sees): (&Device, u64, bool),
) -> anyhow::Result<(ModelConfig, CausalLm, Option<AdapterConfig>)> {
    let (stored, form) = match trained {
        Trained::Whole => (FloatDType::F32, QuantisedWeights::Decoded),
        _ => (dtype, frozen),
    };
    let read = if sees { load_with_vision } else { load_as };
    let (config, model) = read(folder, device, stored, form, &mut |_| {})?;
    let mut adapters = None;
    let model = model.beside_frozen_vision(|model| -> anyhow::Result<CausalLm> {
        let (model, own) = adapt(model, trained, seed)?;
        adapters = own;
        Ok(model)
    })?;
    Ok((config, model, adapters))
}

/// Attaches the adapters of a run, if it trains some.
///
/// # Errors
/// Returns an error if they can't be read, or if a target matches no layer.
pub fn adapt(
    model: CausalLm,
    trained: &Trained,
    seed: u64,
) -> anyhow::Result<(CausalLm, Option<AdapterConfig>)> {
    Ok(match trained {
        Trained::Whole => (model, None),
        Trained::New(adapters) => (model.with_adapters(adapters, seed)?, Some(adapters.clone())),
        Trained::Old(dir) => {
            let (adapters, model) = model.load_adapters(dir)?;
            (model, Some(adapters))
        }
    })
}

/// The numbers of a model's parameters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Parameters {
    /// All parameters, those of adapters too.
    pub all: usize,
    /// The trained ones.
    pub trained: usize,
    /// The elements and the bytes of quantised weights, which are among all parameters.
    #[serde(skip)]
    pub quantised: (usize, usize),
}

impl Parameters {
    /// Counts the parameters of a model.
    pub fn of(model: &CausalLm) -> Self {
        struct Count(Parameters);
        impl ModuleVisitor for Count {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let value = param.base();
                let count = value.shape().num_elements();
                self.0.all += count;
                self.0.trained += if value.is_require_grad() { count } else { 0 };
            }
        }
        let mut count = Count(Self::default());
        model.visit(&mut count);
        Self {
            quantised: Quantized::size_in(model),
            ..count.0
        }
    }
}

/// A folder that receives a trained model.
pub enum Output {
    /// A whole model in Hugging Face layout.
    Model(PathBuf),
    /// Adapters in PEFT's layout.
    Adapter(PathBuf),
}

impl Output {
    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Model(folder) | Self::Adapter(folder) => folder,
        }
    }

    /// Returns `true` if the folder is there. It appeared as a whole.
    pub fn is_written(&self) -> bool {
        self.folder().exists()
    }

    /// Writes a model to a folder.
    ///
    /// # Errors
    /// Returns an error if the system or the device fails.
    pub fn write(&self, model: &CausalLm, settings: &Settings, to: &Path) -> anyhow::Result<()> {
        match self {
            Self::Model(_) => kernels_models::save(model, &settings.config, to, None)?,
            Self::Adapter(_) => {
                let adapters = settings.adapters.as_ref();
                let adapters = adapters.context("only a model with adapters has this output")?;
                let base = settings.model.to_string_lossy();
                kernels_models::save_adapters(model, adapters, &base, to)?;
            }
        }
        Ok(())
    }
}

impl Output {
    /// Copies the files of the base that a whole model needs to the folder that it was written to, and adds end tokens to
    /// its `generation_config.json`. An adapter has this file if there are any.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or written.
    pub fn complete(&self, settings: &Settings, new_ends: &[u32], to: &Path) -> anyhow::Result<()> {
        let base = &settings.model;
        if let Self::Model(_) = self {
            copy_companions(base, to)?;
        }
        if settings.loss.is_reward() {
            super::reward::complete(&settings.config, to)?;
        }
        match new_ends {
            [] => Ok(()),
            ends => add_ends(base, &settings.config, ends, &to.join(GENERATION)),
        }
    }
}

/// Writes the generation settings of a base with more end tokens.
fn add_ends(base: &Path, config: &ModelConfig, new: &[u32], to: &Path) -> anyhow::Result<()> {
    let known = Generation::open(base, config)?.end_tokens;
    let mut fields = Map::<String, Value>::new();
    let from = base.join(GENERATION);
    if from.exists() {
        let text = kernels_io::read_text(&from, Limit::mib("a generation_config.json", 16))?;
        fields = serde_json::from_str(&text).with_context(|| escape_path(&from))?;
    }
    fields.insert("eos_token_id".into(), json!([&known[..], new].concat()));
    let text = serde_json::to_string_pretty(&fields)?;
    crate::output::write_file(to, text.as_bytes())
}
