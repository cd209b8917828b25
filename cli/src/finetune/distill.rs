//! The options of distillation, and the teacher.

use crate::devices::Devices;
use crate::text::Tokenizer;
use crate::training::distillation::Teacher;
use anyhow::{Context, bail, ensure};
use burn::tensor::{Device, FloatDType};
use kernels_io::escape_path;
use kernels_models::ModelConfig;
use kernels_models::preference::Divergence;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The options of distillation.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[group(skip)]
#[serde(rename_all = "kebab-case")]
pub struct DistillArgs {
    /// The checkpoint of the teacher, for distill: of the same tokenizer. Its vocabulary may have other padding.
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "crate::options::as_absolute")]
    pub teacher: Option<PathBuf>,
    /// The mixture of the divergence, for distill: 0 is KL(teacher‖student), 1 is KL(student‖teacher), and between is
    /// the generalised Jensen-Shannon divergence [default: 0.5].
    #[arg(long, value_name = "NUMBER", value_parser = mixture)]
    mixture: Option<f64>,
}

fn mixture(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

impl DistillArgs {
    /// Returns the names of all options, and whether each is given.
    pub fn given(&self) -> [(&'static str, bool); 2] {
        [
            ("--teacher", self.teacher.is_some()),
            ("--mixture", self.mixture.is_some()),
        ]
    }

    /// Returns the folder of the teacher and the divergence.
    ///
    /// # Errors
    /// Returns an error without a teacher.
    pub fn parts(&self, temperature: f64) -> anyhow::Result<(&Path, Divergence)> {
        let folder = self.teacher.as_deref();
        let folder =
            folder.context("--loss distill learns from --teacher DIR, which is not given")?;
        let mixture = self.mixture.unwrap_or(0.5);
        Ok((
            folder,
            Divergence {
                mixture,
                temperature,
            },
        ))
    }
}

/// Refuses several devices.
///
/// # Errors
/// Returns that error.
pub fn check_devices(devices: &Devices) -> anyhow::Result<()> {
    ensure!(
        !devices.are_several(),
        "--loss distill trains on one device; give one, by --device {}",
        devices.first()
    );
    Ok(())
}

/// Reads and checks the configuration of a teacher for a student on sequences of `seq` tokens.
///
/// # Errors
/// Returns an error if its tokenizer or its positions are not those that the student needs.
pub fn check(
    folder: &Path,
    (student, config, seq): (&Path, &ModelConfig, usize),
) -> anyhow::Result<ModelConfig> {
    let shown = escape_path(folder);
    let teacher = ModelConfig::of_checkpoint(folder)?;
    ensure!(
        seq <= teacher.max_position_embeddings,
        "--teacher {shown} has {} positions (max_position_embeddings), but --seq is {seq}",
        teacher.max_position_embeddings
    );
    // Vocabularies may differ by padding, which no tokenizer has.
    for ((own, size, whose), (other, others)) in [
        ((student, config.vocab_size, "model"), (folder, "teacher")),
        ((folder, teacher.vocab_size, "teacher"), (student, "model")),
    ] {
        let tokenizer = Tokenizer::open(own, size)?;
        if let Some((token, id, theirs)) = tokenizer.difference(other)? {
            let theirs = theirs.map_or_else(|| "none".to_owned(), |id| id.to_string());
            bail!(
                "--teacher {shown}: a divergence needs the same tokens, but the token `{}` has the id {id} in the \
                 {whose}'s tokenizer, and {theirs} in the {others}'s",
                kernels_io::escape(&token)
            );
        }
    }
    Ok(teacher)
}

/// Reads a teacher.
///
/// # Errors
/// Returns an error if the checkpoint can't be read.
pub fn load(
    folder: &Path,
    divergence: Divergence,
    (device, dtype): (&Device, FloatDType),
) -> anyhow::Result<Teacher> {
    let (_, model) = kernels_models::load(folder, &device.clone().inner(), dtype)?;
    Ok(Teacher { model, divergence })
}
