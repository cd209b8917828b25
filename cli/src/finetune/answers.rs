//! Batches, checks and the reference model of a run with a loss of answers.

use super::Args;
use super::data::{Batches, Example, Group, Groups, Kind, Label, Row, Sizes};
use super::loss::LossArgs;
use super::precomputed::is_precomputed;
use super::prepare::{Facts, fingerprint};
use crate::devices::Devices;
use crate::output;
use crate::text::Tokenizer;
use crate::training::identity::Fingerprint;
use crate::training::step::without_gradients;
use anyhow::{bail, ensure};
use burn::tensor::{Device, FloatDType};
use burn_kernels::optim::rounded;
use kernels_io::{escape, escape_path};
use kernels_models::{CausalLm, ModelConfig};
use std::path::Path;

/// Refuses options that losses of answers don't have, and a model of --reference that can't score the answers. Returns the
/// configuration of that model.
///
/// # Errors
/// Returns an error that names the option.
pub fn check(
    args: &Args,
    devices: &Devices,
    config: &ModelConfig,
) -> anyhow::Result<Option<ModelConfig>> {
    ensure!(
        !devices.are_several(),
        "a loss of answers trains on one device; give one, by --device {}",
        devices.first()
    );
    ensure!(
        !args.all_tokens,
        "--all-tokens is an option of --loss sft: a loss of answers counts the tokens of answers"
    );
    ensure!(
        !args.lora.drops(),
        "--lora-dropout: a loss of answers trains without dropout, as that of the reference would differ"
    );
    let Some(folder) = folder(args) else {
        return Ok(None);
    };
    let reference = ModelConfig::of_checkpoint(folder)?;
    let name = escape_path(folder);
    ensure!(
        reference.vocab_size == config.vocab_size,
        "--reference {name}: its vocabulary has {} tokens, and that of the model {}",
        reference.vocab_size,
        config.vocab_size
    );
    ensure!(
        args.seq <= reference.max_position_embeddings,
        "--seq is {}, but the model of --reference {name} has {} positions (max_position_embeddings)",
        args.seq,
        reference.max_position_embeddings
    );
    Ok(Some(reference))
}

/// Refuses a model of --reference whose tokenizer has other tokens. A folder may lack a tokenizer.
fn check_tokens(folder: &Path, tokenizer: &Tokenizer) -> anyhow::Result<()> {
    if !kernels_io::is_there(&folder.join("tokenizer.json")) {
        return Ok(());
    }
    let Some((token, id, theirs)) = tokenizer.difference(folder)? else {
        return Ok(());
    };
    let theirs = theirs.map_or_else(|| "none".to_owned(), |id| id.to_string());
    bail!(
        "--reference {}: its tokenizer is another one: the token `{}` has the id {id} in that of the model, and \
         {theirs} there",
        escape_path(folder),
        escape(&token)
    )
}

/// Refuses a reference where the records have its log-probabilities, and one of other tokens.
///
/// # Errors
/// Returns that error.
pub fn check_known(args: &Args, is_known: bool, tokenizer: &Tokenizer) -> anyhow::Result<()> {
    let has_reference = args.loss.has_reference();
    ensure!(
        !is_known || !args.loss.has_baseline()?,
        "the records have log-probabilities of a reference, but --loss kto also compares with answers behind other prompts, \
         which no record has; remove them, so that a model computes all"
    );
    ensure!(
        has_reference || !is_known,
        "the records have log-probabilities of a reference, but --loss and its options ask for none; remove them"
    );
    ensure!(
        args.loss.reference.is_none() && !args.loss.precompute_reference || !is_known,
        "--reference names a model or --precompute-reference asks for one, but the records have its log-probabilities; remove \
         them, or the option"
    );
    match folder(args) {
        Some(folder) => check_tokens(folder, tokenizer),
        None => Ok(()),
    }
}

/// Returns the folder of --reference. A run that goes on with precomputed log-probabilities does without it.
pub fn folder(args: &Args) -> Option<&Path> {
    let folder = args.loss.reference.as_deref();
    folder.filter(|folder| folder.exists() || !is_precomputed(args))
}

/// Returns the reference model, if one is needed: that of --reference, or a copy of the model as the run begins.
///
/// # Errors
/// Returns an error if the checkpoint can't be read.
pub fn reference(
    args: &Args,
    model: &CausalLm,
    dtype: FloatDType,
    (device, is_known): (&Device, bool),
) -> anyhow::Result<Option<CausalLm>> {
    if !args.loss.has_reference() || is_known || is_precomputed(args) {
        return Ok(None);
    }
    let Some(folder) = &args.loss.reference else {
        let model = without_gradients(model);
        return Ok(Some(match dtype {
            FloatDType::F32 => model,
            half => rounded(&model, half),
        }));
    };
    let (_, reference) = kernels_models::load(folder, &device.clone().inner(), dtype)?;
    Ok(Some(reference))
}

/// Tells how many answers are cut off or left out by the limit of their tokens.
pub fn tell_lost(found: &Groups, seq: usize) {
    if found.cut > 0 {
        output::note(format_args!(
            "{} answers end after {seq} tokens with their prompts, and their ends are cut off; a larger --seq keeps more",
            found.cut
        ));
    }
    const SHOWN: usize = 5;
    for (places, what) in [
        (&found.left_out, "have no room for an answer"),
        (&found.equal, "have two answers that are equal"),
    ] {
        if places.is_empty() {
            continue;
        }
        let shown: Vec<&str> = places.iter().take(SHOWN).map(String::as_str).collect();
        let more = if places.len() > SHOWN { ", …" } else { "" };
        output::note(format_args!(
            "{} records {what} within {seq} tokens, and are left out: {}{more}",
            places.len(),
            shown.join(", ")
        ));
    }
}

/// Returns the batches of answers, which have a row for each prompt.
///
/// # Errors
/// Returns an error if the loss compares with other records or with undesirable answers, and the data has none.
pub fn batches(
    args: &Args,
    train: Groups,
    valid: Vec<Group>,
    (packs, new_ends): (bool, Vec<u32>),
) -> anyhow::Result<(Batches, Facts)> {
    let mismatches = args.loss.has_baseline()?;
    let prompts = || train.groups.iter().chain(&valid).map(|group| group.prompt);
    ensure!(
        !mismatches || prompts().any(|prompt| Some(prompt) != prompts().next()),
        "--loss kto compares with answers to other prompts, but all records have one prompt"
    );
    let held_out = valid.len();
    let trained = train.groups.len();
    let (mut examples, mut labels, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for group in train.groups.into_iter().chain(valid) {
        let first = examples.len();
        for (at, answer) in group.answers.into_iter().enumerate() {
            examples.push(answer);
            labels.push(Label {
                prompt: group.prompt,
                desirable: group.desirable,
                reference: group.reference.as_ref().map(|known| known[at]),
                margin: group.margin,
            });
        }
        rows.push((first..examples.len()).collect());
    }
    let valid_rows: Vec<Row> = rows.split_off(trained);
    let of_training = rows
        .iter()
        .flatten()
        .map(|number: &usize| &examples[*number]);
    let facts = Facts {
        examples: trained,
        held_out,
        sequences: trained,
        tokens: of_training
            .clone()
            .map(|example: &Example| example.ids.len())
            .sum(),
        targets: of_training.map(Example::targets).sum(),
        cut: train.cut,
        left_out: train.left_out.len() + train.equal.len(),
        new_ends,
        fingerprint: fingerprint_of(&examples, &labels),
        date: None,
        pictures: 0,
    };
    check_kinds(&args.loss, &labels)?;
    let sizes = Sizes {
        batch: args.batch,
        accumulate: args.accumulate,
        packs,
        length: args.seq,
        mismatches,
        scores: args.loss.kind() == Some(Kind::Scored),
    };
    let batches = Batches::new(examples, [rows, valid_rows], args.seed, sizes).of_answers(labels);
    Ok((batches, facts))
}

/// Refuses single answers if all are desirable, and warns if all are undesirable: a loss compares both kinds.
fn check_kinds(loss: &LossArgs, labels: &[Label]) -> anyhow::Result<()> {
    if loss.kind() != Some(Kind::Single) {
        return Ok(());
    }
    let count = labels.len();
    let is_desirable = |label: &&Label| label.desirable == Some(true);
    let desirable = labels.iter().filter(is_desirable).count();
    ensure!(
        desirable < count,
        "all {count} answers are desirable, but this loss compares them with undesirable ones; add records whose `label` is \
         false, or learn these with --loss sft"
    );
    if desirable == 0 {
        output::note(format_args!(
            "warning: all {count} answers are undesirable; the loss compares both kinds"
        ));
    }
    Ok(())
}

/// Returns a number that tells answers apart, with all that is known of them.
fn fingerprint_of(examples: &[Example], labels: &[Label]) -> String {
    let mut known = Fingerprint::default();
    known.add(fingerprint(examples.iter()).as_bytes());
    for label in labels {
        known.add(&[label.desirable.map_or(2, u8::from)]);
        known.add(&label.reference.unwrap_or(f64::NAN).to_le_bytes());
        known.add(&label.margin.unwrap_or(0.0).to_le_bytes());
    }
    known.to_string()
}
