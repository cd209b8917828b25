//! The data and the model of a run, read and checked before a step is taken.

use super::Args;
use super::answers;
use super::data::{self, Batches, Encoded, Ends, Example, Row, Sizes};
use super::distill;
use super::model::{self, Trained};
use super::reading::{self, Data};
use super::reward;
use super::rollouts::{self, Rollouts};
use super::sample::Sample;
use super::settings::Settings;
use super::sums::Sums;
use crate::devices::Devices;
use crate::output;
use crate::text::Tokenizer;
use crate::training::distillation::Teacher;
use crate::training::folder::CONFIG;
use crate::training::identity::Fingerprint;
use crate::training::preference::Preference;
use anyhow::{Context, bail, ensure};
use kernels_io::{escape, escape_path};
use kernels_models::{AdapterConfig, CausalLm, Generation, ModelConfig};
use serde::Serialize;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

/// Facts of the data.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The number of examples to train on.
    pub examples: usize,
    /// The number of examples to validate on.
    pub held_out: usize,
    /// The number of sequences to train on.
    pub sequences: usize,
    /// The number of tokens in them.
    pub tokens: usize,
    /// The number of tokens in them that are learned.
    pub targets: usize,
    /// The number of pictures in all examples.
    #[serde(skip_serializing_if = "is_zero")]
    pub pictures: usize,
    /// The number of examples whose end was cut off.
    pub cut: usize,
    /// The number of examples that were left out, because no learned token was left, or no difference of two answers.
    pub left_out: usize,
    /// The tokens that end answers but are missing among the checkpoint's end tokens.
    pub new_ends: Vec<u32>,
    /// A number that tells data apart.
    pub fingerprint: String,
    /// The date in all conversations, if the chat template writes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Everything that a run needs.
pub struct Prepared {
    /// The settings.
    pub settings: Settings,
    /// The data.
    pub batches: Batches,
    /// The way in which the prompts of the data become batches, if the loss is of completions with rewards.
    pub rollouts: Option<Rollouts>,
    /// The model, on the device.
    pub model: CausalLm,
    /// The loss of answers, if the run has one.
    pub preference: Option<Preference>,
    /// The teacher, if the loss is a divergence from one.
    pub teacher: Option<Teacher>,
    /// Facts of the data.
    pub facts: Facts,
    /// The first example, as the model sees it.
    pub sample: Sample,
}

/// Reads and checks everything, before a step is taken.
///
/// # Errors
/// Returns an error if anything is missing, can't be read, or does not go together.
pub fn prepare(args: &Args) -> anyhow::Result<Prepared> {
    let folder = args.model.as_ref();
    let folder = folder.with_context(|| match &args.resume {
        Some(run) => format!(
            "{} does not say what to train; give the options of the run here, or remove the folder and begin it again",
            escape_path(&run.join(CONFIG))
        ),
        None => "--model DIR names the checkpoint to begin with".to_owned(),
    })?;
    ensure!(
        !args.data.is_empty(),
        "--data FILE names the data to train on"
    );
    let folder = std::path::absolute(folder)?;
    let file = folder.join("config.json");
    let config = ModelConfig::of_checkpoint(&folder)?;
    if let Some((field, value)) = config.dropout().filter(|_| !args.no_dropout) {
        bail!(
            "{}: field `{field}`: {value} asks for dropout in training, which is not supported; --no-dropout trains \
             without it",
            escape_path(&file)
        );
    }
    ensure!(args.seq >= 2, "--seq is 1, but a token needs one before it");
    ensure!(
        args.seq <= config.max_position_embeddings,
        "--seq is {}, but the model has {} positions (max_position_embeddings)",
        args.seq,
        config.max_position_embeddings
    );
    if args.gradient_checkpointing
        && let Some(reason) = config.recomputes_no_layers()
    {
        bail!("--gradient-checkpointing: {reason}; train without it");
    }
    let objective = args.loss.objective()?;
    let distillation = args.loss.distillation()?;
    let devices = args.devices.chosen();
    devices.check_batch(args.batch)?;
    let trained = args.lora.trained()?;
    model::check_base(&folder, &trained, &args.lora)?;
    let reference = match objective {
        Some(_) => answers::check(args, &devices, &config)?,
        None => None,
    };
    reward::check(&args.loss, &args.lora, &trained)?;
    rollouts::check(args)?;
    let taught = match distillation {
        Some((teacher, _)) => {
            distill::check_devices(&devices)?;
            Some(distill::check(teacher, (&folder, &config, args.seq))?)
        }
        None => None,
    };
    if let Trained::New(adapters) = &trained {
        adapters.check_for(&config)?;
        check_dropout(adapters, &devices)?;
    }
    let (data, encoder) = reading::read(args, &folder, &config)?;
    let sees = data.has_pictures();
    let date = encoder.writes_date().then(|| args.date.to_string());
    tell_date(date.as_deref());
    let tokenizer = encoder.into_tokenizer();
    let is_known = data.reference_is_known()?;
    answers::check_known(args, is_known, &tokenizer)?;
    // A reward model writes no text, and completions have the ends that the model knows.
    let none = Ends::default();
    let (sample, ends) = match &data {
        Data::Tokens(train, _) => (Sample::new(&train.examples[0], &tokenizer)?, &train.ends),
        Data::Answers(train, _) => (
            Sample::of_answers(&train.groups[0].answers, &tokenizer)?,
            if args.loss.is_reward() {
                &none
            } else {
                &train.ends
            },
        ),
        Data::Prompts(train) => (
            Sample::new(&train.rows[0].examples()[0], &tokenizer)?,
            &none,
        ),
    };
    let new_ends = new_ends(ends, &folder, &config)?;
    tell_ends(ends, &new_ends, &tokenizer);
    let packs = packs(args, [Some(&config), reference.as_ref(), taught.as_ref()]);
    let padding = match &data {
        Data::Answers(train, _) if args.loss.is_reward() => {
            reward::padding(train, &config, &tokenizer)
        }
        _ => None,
    };
    let device = devices.first().device()?.autodiff();
    let dtype = args.dtype.float_dtype();
    let mut written = None;
    let (batches, mut facts) = match data {
        Data::Tokens(train, valid) => batches(args, train, valid, (packs, new_ends)),
        Data::Answers(train, valid) => answers::batches(args, train, valid, (packs, new_ends))?,
        Data::Prompts(train) => {
            let made = rollouts::batches(args, &train, packs);
            let options = (&args.loss.rollouts, args.loss.temperature(), args.seed);
            let checkpoint = (&*folder, &config, tokenizer);
            let place = (dtype, device.clone().inner());
            written = Some(Rollouts::new(train.rows, options, checkpoint, place)?);
            made
        }
    };
    facts.date = date;
    let adapts = !matches!(trained, Trained::Whole);
    let frozen = args.lora.frozen();
    let mut settings = Settings::new(args, (folder.clone(), config, adapts), packs, &batches)?;
    let refers = objective.is_some() && args.loss.has_reference() && !is_known;
    let (loaded, sums) = thread::scope(|scope| {
        let sums = || Sums::new(args, (&folder, &trained), refers);
        let sums = (!args.dry_run).then(|| scope.spawn(sums));
        let place = (&device, args.seed);
        let loaded = match args.loss.is_reward() {
            true => reward::load(&folder, &trained, dtype, place, padding),
            false => {
                let place = (&device, args.seed, sees);
                model::load(&folder, (&trained, frozen), dtype, place)
            }
        };
        let sums = sums.map(|sums| sums.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (loaded, sums)
    });
    let (config, model, adapters) = loaded?;
    if let Some(adapters) = &adapters {
        check_dropout(adapters, &devices)?;
        ensure!(
            objective.is_none() || adapters.dropout == 0.0,
            "the adapters drop inputs (lora_dropout in adapter_config.json is {}), but a loss of answers trains without; \
             write 0 there",
            adapters.dropout
        );
        tell_of_peft(adapters, &config, args.lora.merge)?;
    }
    let preference = match objective {
        Some(objective) => Some(Preference {
            objective,
            reference: answers::reference(args, &model, dtype, (&device, is_known))?,
            device: device.clone().inner(),
        }),
        None => None,
    };
    let teacher = distillation
        .map(|(teacher, divergence)| distill::load(teacher, divergence, (&device, dtype)));
    let sums = sums.transpose()?.unwrap_or_default();
    settings.base = sums.base;
    settings.reference = sums.reference;
    settings.config = config;
    settings.adapters = adapters;
    Ok(Prepared {
        settings,
        batches,
        rollouts: written,
        model,
        preference,
        teacher: teacher.transpose()?,
        facts,
        sample,
    })
}

/// Refuses dropout on several devices. They draw from one generator, so that the numbers of each would depend on time.
fn check_dropout(adapters: &AdapterConfig, devices: &Devices) -> anyhow::Result<()> {
    ensure!(
        adapters.dropout == 0.0 || !devices.are_several(),
        "adapters with a dropout of {} train on one device; give one, by --device {}, or no dropout",
        adapters.dropout,
        devices.first()
    );
    Ok(())
}

/// Tells of adapters that PEFT can't load.
fn tell_of_peft(
    adapters: &AdapterConfig,
    config: &ModelConfig,
    merges: bool,
) -> anyhow::Result<()> {
    if let Some(name) = adapters.refused_by_peft(config)? {
        let way = match merges {
            true => "the merged model is for other programs",
            false => "--merge writes the merged model for other programs",
        };
        output::note(format_args!(
            "PEFT can't load these adapters, because it has no dropout for those of layers such as `{name}`; {way}"
        ));
    }
    Ok(())
}

/// Tells which date all conversations have.
fn tell_date(date: Option<&str>) {
    if let Some(date) = date {
        output::note(format_args!(
            "the chat template writes the date, which is {date} in all conversations of this run; --date sets another"
        ));
    }
}

/// Returns the tokens that end answers but are missing among the checkpoint's end tokens.
fn new_ends(ends: &Ends, folder: &Path, config: &ModelConfig) -> anyhow::Result<Vec<u32>> {
    let known = Generation::open(folder, config)?.end_tokens;
    let new = ends.tokens.iter().copied();
    Ok(new.filter(|end| !known.contains(end)).collect())
}

/// Tells how answers will end, where that is not as usual.
fn tell_ends(ends: &Ends, new: &[u32], tokenizer: &Tokenizer) {
    for id in new {
        let token = tokenizer.decode_all(&[*id]).unwrap_or_default();
        output::note(format_args!(
            "answers end with `{}` (token {id}), which is not an end token of this checkpoint; generation_config.json of the \
             trained model or adapter names it, and other programs that run the adapter have to be told",
            escape(&token)
        ));
    }
    if ends.missing > 0 {
        let advice = match ends.are_marked {
            true => {
                "the chat template closes `{% generation %}` before the token that ends an answer; move \
                 `{% endgeneration %}` behind that token"
            }
            false => "use a chat template or a tokenizer with an `eos_token` behind answers",
        };
        output::note(format_args!(
            "warning: {} answers have no token that ends them, so the trained model will not end its own; {advice}",
            ends.missing
        ));
    }
}

/// Returns `true` if a sequence can hold several examples in all models of a run.
fn packs(args: &Args, models: [Option<&ModelConfig>; 3]) -> bool {
    let mut models = models.into_iter().flatten();
    match models.find_map(ModelConfig::packs_no_documents) {
        _ if args.no_packing => false,
        None => true,
        Some(reason) => {
            output::note(format_args!(
                "each example has a sequence of its own, because {reason}"
            ));
            false
        }
    }
}

fn batches(
    args: &Args,
    train: Encoded,
    valid: Vec<Example>,
    (packs, new_ends): (bool, Vec<u32>),
) -> (Batches, Facts) {
    let rows = |examples: &[Example]| match packs {
        true => data::pack(examples, args.seq),
        false => (0..examples.len()).map(|number| vec![number]).collect(),
    };
    let (train_rows, valid_rows): (Vec<Row>, Vec<Row>) = (rows(&train.examples), rows(&valid));
    let count = train.examples.len();
    // Held-out examples follow the others.
    let shifted = |row: Row| row.into_iter().map(|number| number + count).collect();
    let valid_rows = valid_rows.into_iter().map(shifted).collect();
    let pictures = |example: &Example| example.pictures.list.len();
    let facts = Facts {
        examples: count,
        held_out: valid.len(),
        sequences: train_rows.len(),
        tokens: train.examples.iter().map(|example| example.ids.len()).sum(),
        targets: train.examples.iter().map(Example::targets).sum(),
        cut: train.cut,
        left_out: train.left_out,
        new_ends,
        fingerprint: fingerprint(train.examples.iter().chain(&valid)),
        date: None,
        pictures: train.examples.iter().chain(&valid).map(pictures).sum(),
    };
    let sizes = Sizes {
        batch: args.batch,
        accumulate: args.accumulate,
        packs,
        length: args.seq,
        mismatches: false,
        scores: false,
    };
    let examples = train.examples.into_iter().chain(valid).collect();
    let batches = Batches::new(examples, [train_rows, valid_rows], args.seed, sizes);
    (batches, facts)
}

/// Returns a number that tells examples apart.
pub fn fingerprint<'a>(examples: impl Iterator<Item = &'a Example>) -> String {
    let mut fingerprint = Fingerprint::default();
    for example in examples {
        for id in &example.ids {
            fingerprint.add(&id.to_le_bytes());
        }
        for range in &example.learned {
            fingerprint.add(&(range.start as u64).to_le_bytes());
            fingerprint.add(&(range.end as u64).to_le_bytes());
        }
        for placed in &example.pictures.list {
            fingerprint.add(placed.picture.fingerprint().as_bytes());
        }
    }
    fingerprint.to_string()
}
