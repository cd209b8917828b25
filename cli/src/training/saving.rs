//! The options of checkpoints.

use super::plan::Saving;
use serde::Serialize;
use std::time::Duration;

/// The times of checkpoints, and the number of them that stay.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
#[group(skip)]
#[serde(rename_all = "kebab-case")]
pub struct Args {
    /// The number of steps between checkpoints.
    #[arg(long, value_name = "STEPS", value_parser = above_zero)]
    save_steps: Option<usize>,
    /// The number of minutes between checkpoints; 0 for none.
    #[arg(long, value_name = "MINUTES", default_value_t = 5.0, value_parser = minutes)]
    save_minutes: f64,
    /// The number of last checkpoints that stay while a run trains, beside the one with the lowest validation loss.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = above_zero)]
    pub keep: usize,
    /// Write the metrics as events for TensorBoard too.
    #[arg(long)]
    pub tensorboard: bool,
}

impl Args {
    /// Returns the times of checkpoints.
    pub fn saving(self) -> Saving {
        let time = Duration::try_from_secs_f64(self.save_minutes * 60.0).ok();
        Saving {
            steps: self.save_steps,
            time: time.filter(|time| !time.is_zero()),
            tensorboard: self.tensorboard,
        }
    }
}

fn above_zero(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.0..1e6).contains(&minutes) => Ok(minutes),
        _ => Err("expected a number of minutes, at least 0".to_owned()),
    }
}
