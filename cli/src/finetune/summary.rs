//! The plan of a run before it, and its results after it.

use super::data::{Batches, Kind};
use super::model::Parameters;
use super::prepare::Facts;
use super::sample::Sample;
use super::settings::Settings;
use crate::training::distillation::Teacher;
use crate::training::folder::{RunFolder, SUMMARY};
use crate::training::memory::Resident;
use crate::training::metrics::{Point, TRAIN, VALID};
use crate::training::state::{Best, Progress};
use anyhow::Context;
use burn_kernels::report::Report;
use kernels_io::{Look, Page, escape_path};
use kernels_models::{CausalLm, ModelConfig, VisionConfig, VisionTower};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The plan of a run.
#[derive(Serialize)]
pub struct Plan<'a> {
    settings: &'a Settings,
    data: &'a Facts,
    parameters: Parameters,
    memory: Memory,
    example: &'a Sample,
}

/// An estimate of a run's memory, in bytes.
#[derive(Clone, Copy, Serialize)]
pub struct Memory {
    /// All parameters, and the rounded copy of them in a half type.
    pub parameters: usize,
    /// The gradients of trained parameters.
    pub gradients: usize,
    /// The moments of AdamW.
    pub optimiser: usize,
    /// The tensors that a step keeps for its gradients.
    pub activations: usize,
    /// The patches of a batch's pictures, and the activations of the vision tower.
    pub pictures: usize,
    /// The tokens of all examples.
    pub data: usize,
    /// The teacher, or the reference model, as far as it is not the trained one's frozen part.
    pub reference: usize,
}

impl Memory {
    fn new(
        settings: &Settings,
        parameters: Parameters,
        (sequences, data, patches): (usize, usize, usize),
        (teacher, tower): (usize, Option<&VisionConfig>),
    ) -> Self {
        let width = settings.dtype.dtype().size();
        let Parameters {
            all,
            trained,
            quantised: (elements, bytes),
        } = parameters;
        let frozen = all - trained;
        let copies = if width < 4 { trained * width } else { 0 };
        // Base parameters below adapters have the dtype of the losses, or stay in quantised form. The tower beside a model that
        // is trained as a whole has its dtype, f32, and a rounded copy.
        let of_frozen = match settings.adapters {
            Some(_) => width,
            None => 4 + if width < 4 { width } else { 0 },
        };
        let stored = trained * 4 + (frozen - elements) * of_frozen + bytes;
        // A batch can ask for more sequences than there are, and a pair has two.
        let answers = match settings.loss.kind() {
            Some(Kind::Pairs | Kind::Scored) => 2,
            Some(Kind::Prompts) => settings.loss.rollouts.completions(),
            _ => 1,
        };
        let tokens = settings.batch.min(sequences) * settings.seq * answers;
        let reference = match settings.loss.has_reference() {
            false => 0,
            // It is freed before gradients and the optimiser are there.
            true if settings.loss.precompute_reference => 0,
            true if settings.loss.reference.is_some() => all * width,
            true => trained * width,
        };
        let kept = match settings.gradient_checkpointing {
            true => kept_of_inputs(&settings.config),
            false => settings.config.num_hidden_layers * kept_of_layer(&settings.config),
        };
        Self {
            parameters: stored + copies,
            gradients: trained * 4 + copies,
            optimiser: trained * 8,
            activations: tokens * width * kept,
            pictures: tower.map_or(0, |tower| {
                settings.batch.min(sequences) * patches * kept_of_patch(tower, width)
            }),
            data,
            reference: reference + teacher * width,
        }
    }

    fn all(self) -> usize {
        self.parameters
            + self.gradients
            + self.optimiser
            + self.activations
            + self.pictures
            + self.data
            + self.reference
    }
}

/// Returns the number of elements that a layer keeps for each token: the inputs of norms and projections, queries, keys and
/// values before and after their rotation, and gates, ups and their products.
fn kept_of_layer(config: &ModelConfig) -> usize {
    let queries = config.num_attention_heads * config.head_dim;
    let keys = config.num_key_value_heads * config.head_dim;
    4 * config.hidden_size + 3 * queries + 4 * keys + 3 * config.intermediate_size
}

/// Returns the number of elements that a step keeps for each token if layers are computed twice: both parts of the residual
/// stream before each layer, and everything of one layer.
fn kept_of_inputs(config: &ModelConfig) -> usize {
    2 * config.num_hidden_layers * config.hidden_size + kept_of_layer(config)
}

/// Returns the bytes that a patch takes at most at once: its values as they are read and in the model's dtype, and those of a
/// block of the tower, which keeps nothing for gradients.
fn kept_of_patch(tower: &VisionConfig, width: usize) -> usize {
    let values = tower.pixels();
    4 * values + width * (values + 8 * tower.hidden_size + 3 * tower.intermediate_size)
}

impl<'a> Plan<'a> {
    /// Describes a run.
    pub fn new(
        settings: &'a Settings,
        (data, batches, example): (&'a Facts, &Batches, &'a Sample),
        (model, teacher): (&CausalLm, Option<&Teacher>),
    ) -> Self {
        let parameters = Parameters::of(model);
        let teacher = teacher.map_or(0, |teacher| Parameters::of(&teacher.model).all);
        let sizes = (data.sequences, batches.bytes(), batches.most_patches());
        let tower = model.vision_tower().map(VisionTower::config);
        Self {
            memory: Memory::new(settings, parameters, sizes, (teacher, tower)),
            settings,
            data,
            parameters,
            example,
        }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            settings,
            data,
            parameters,
            memory,
            example: _,
        } = self;
        writeln!(
            f,
            "{} examples with {} tokens, {} of them learned, in {} sequences; {} examples held out",
            data.examples, data.tokens, data.targets, data.sequences, data.held_out
        )?;
        if data.pictures > 0 {
            writeln!(
                f,
                "{} pictures, seen by the frozen vision tower",
                data.pictures
            )?;
        }
        let unit = match settings.loss.kind() {
            None => "sequences",
            Some(Kind::Pairs | Kind::Scored) => "pairs",
            Some(Kind::Single) => "single answers",
            Some(Kind::Prompts) => "prompts",
        };
        writeln!(
            f,
            "{} steps of {} × {} {unit} of at most {} tokens, in {}; a validation after every {} steps",
            settings.steps,
            settings.accumulate,
            settings.batch,
            settings.seq,
            settings.dtype.dtype().name(),
            settings.steps_per_validation
        )?;
        writeln!(
            f,
            "{} of {} parameters are trained, with a learning rate of at most {}",
            parameters.trained, parameters.all, settings.lr
        )?;
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        write!(
            f,
            "Memory, estimated: {} MiB (parameters {}, gradients {}, optimiser {}, activations {}, {}data {}{})",
            mib(memory.all()),
            mib(memory.parameters),
            mib(memory.gradients),
            mib(memory.optimiser),
            mib(memory.activations),
            match memory.pictures {
                0 => String::new(),
                bytes => format!("pictures {}, ", mib(bytes)),
            },
            mib(memory.data),
            match memory.reference {
                0 => String::new(),
                bytes if settings.loss.is_distillation() => format!(", teacher {}", mib(bytes)),
                bytes => format!(", reference {}", mib(bytes)),
            }
        )
    }
}

/// The results of a run, as written to `summary.json`.
#[derive(Serialize)]
pub struct Summary {
    /// The run folder.
    pub folder: PathBuf,
    /// The folders of the trained model.
    pub saved: Vec<PathBuf>,
    /// The number of steps after which it was this model.
    pub saved_step: usize,
    /// Facts of the data.
    pub data: Facts,
    /// The numbers of parameters.
    pub parameters: Parameters,
    /// The number of optimiser steps.
    pub steps: usize,
    /// The loss of the last batch, in nats per token, or that of answers.
    pub training_loss: f64,
    /// The items that the losses are means of, such as tokens or pairs.
    #[serde(skip)]
    pub loss_of: &'static str,
    /// The best validation. `None` without held-out data.
    pub best: Option<Best>,
    /// `exp` of its loss, if that is of tokens.
    pub perplexity: Option<f64>,
    /// The seconds of training and validation.
    pub training_seconds: f64,
    /// The seconds of the whole command.
    pub seconds: f64,
    /// The most memory that the process took so far, in bytes. `None` where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
    /// The median number of tokens per second of a step.
    pub tokens_per_s: f64,
    /// The paths that each site took in training and validation.
    pub dispatch: Report,
}

impl Summary {
    /// Collects the results.
    ///
    /// # Errors
    /// Returns an error if the run recorded no training step.
    pub fn new(
        settings: &Settings,
        (data, parameters): (&Facts, Parameters),
        folder: &RunFolder,
        (points, progress): (&[Point], &Progress),
        (saved, saved_step): (Vec<PathBuf>, usize),
        dispatch: Report,
        elapsed: Duration,
    ) -> anyhow::Result<Self> {
        let steps = points.iter().filter(|point| point.split == TRAIN);
        let last = steps
            .clone()
            .next_back()
            .context("the run recorded no step")?;
        let mut speeds: Vec<f64> = steps.map(|point| point.tokens_per_s).collect();
        speeds.sort_by(f64::total_cmp);
        let best = progress.best;
        debug_assert!(best.is_none() || points.iter().any(|point| point.split == VALID));
        debug_assert!(last.step <= settings.steps);
        Ok(Self {
            folder: folder.path().to_owned(),
            saved,
            saved_step,
            data: data.clone(),
            parameters,
            steps: last.step,
            training_loss: last.loss,
            best,
            perplexity: best
                .filter(|_| settings.loss.kind().is_none() && !settings.loss.is_distillation())
                .map(|best| best.loss.exp()),
            loss_of: settings.unit(),
            training_seconds: progress.seconds,
            seconds: elapsed.as_secs_f64(),
            peak_memory_bytes: Resident::ask().map(|memory| memory.peak),
            tokens_per_s: speeds[speeds.len() / 2],
            dispatch,
        })
    }

    /// Lays out the results for a place.
    pub fn page(&self, look: Look) -> Page {
        let mut page = Page::new(look);
        page.line("What ran");
        let file = escape_path(&self.folder.join(SUMMARY));
        let shown_by = format!("`dispatch` in {file} lists every site");
        page.page(&self.dispatch.page(look, Some(&shown_by)));
        page.line(format_args!(
            "\nTrained {} of {} parameters in {} steps, {:.0} s ({:.0} s in total), {:.0} tokens/s",
            self.parameters.trained,
            self.parameters.all,
            self.steps,
            self.training_seconds,
            self.seconds,
            self.tokens_per_s
        ));
        if let Some(bytes) = self.peak_memory_bytes {
            page.line(format_args!("Peak memory {} MiB", bytes.div_ceil(1 << 20)));
        }
        let perplexity = self.perplexity;
        let perplexity = perplexity.map(|perplexity| format!(", perplexity {perplexity:.2}"));
        match self.best {
            Some(best) => page.line(format_args!(
                "Validation loss {:.4} {} after step {}{}",
                best.loss,
                self.loss_of,
                best.step,
                perplexity.unwrap_or_default()
            )),
            None => page.line(format_args!(
                "Training loss {:.4} {}; nothing was held out",
                self.training_loss, self.loss_of
            )),
        }
        let why = match self.best {
            Some(best) if best.step == self.saved_step => "whose validation loss is the lowest",
            Some(_) => "the last, because that of the best validation could not be saved",
            None => "the last",
        };
        page.line(format_args!(
            "The saved model is that after step {}, {why}",
            self.saved_step
        ));
        for folder in &self.saved {
            page.line(format_args!("Saved in {}", escape_path(folder)));
        }
        page
    }
}
