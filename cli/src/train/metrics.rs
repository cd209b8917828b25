//! Writing of `metrics.jsonl`, with a line for each training step and each validation.

use super::balance::LOAD_BALANCING;
use anyhow::{Context, anyhow};
use burn::train::Interrupter;
use burn::train::logger::MetricLogger;
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The name of burn-train's loss metric.
pub const LOSS: &str = "Loss";
const LEARNING_RATE: &str = "Learning Rate";

/// A line of `metrics.jsonl`.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The number of optimiser steps so far.
    pub step: usize,
    /// The round of training and validation, counted from 1.
    pub epoch: usize,
    /// `train` or `valid`.
    pub split: &'static str,
    /// Mean cross-entropy in nats per token, of the batch or of all held-out text.
    pub loss: f64,
    /// The load-balancing loss of a mixture of experts, without its coefficient. `None` for a dense model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancing_loss: Option<f64>,
    /// The tokens processed per second in this step or validation.
    pub tokens_per_s: f64,
    /// The learning rate of the step. `None` for a validation.
    pub lr: Option<f64>,
    /// Seconds since training began.
    pub seconds: f64,
}

/// The points so far, and the first error of recording.
#[derive(Default)]
pub struct History {
    points: Vec<Point>,
    failure: Option<anyhow::Error>,
}

/// A shared [`History`], because burn-train records on its own thread.
#[derive(Clone, Default)]
pub struct SharedHistory(Arc<Mutex<History>>);

impl SharedHistory {
    fn with<T>(&self, look: impl FnOnce(&mut History) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns every point so far.
    ///
    /// # Errors
    /// Returns an error if the loss was not a finite number or the file could not be written.
    pub fn take(&self) -> anyhow::Result<Vec<Point>> {
        self.with(|history| match history.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut history.points)),
        })
    }
}

/// The number of tokens between two points.
#[derive(Clone, Copy, Debug)]
pub struct TokenCounts {
    /// The tokens of a training step.
    pub step: usize,
    /// The tokens of a validation.
    pub validation: usize,
}

/// A logger that records burn-train's metrics as [`Point`]s.
pub struct Recorder {
    file: File,
    history: SharedHistory,
    interrupter: Interrupter,
    metrics: Vec<MetricDefinition>,
    tokens: TokenCounts,
    step: usize,
    started: Instant,
    last: Instant,
}

impl Recorder {
    /// Creates a recorder that writes to `path`. It stops training through `interrupter` on an error.
    ///
    /// # Errors
    /// Returns an error if the file can't be created.
    pub fn create(
        path: &Path,
        tokens: TokenCounts,
        interrupter: Interrupter,
    ) -> anyhow::Result<(Self, SharedHistory)> {
        let file = File::create_new(path)
            .with_context(|| format!("cannot write {}", kernels_io::escape_path(path)))?;
        let history = SharedHistory::default();
        let now = Instant::now();
        let recorder = Self {
            file,
            history: history.clone(),
            interrupter,
            metrics: Vec::new(),
            tokens,
            step: 0,
            started: now,
            last: now,
        };
        Ok((recorder, history))
    }

    fn name(&self, id: &MetricId) -> Option<&str> {
        let definition = self.metrics.iter().find(|metric| metric.metric_id == *id)?;
        Some(definition.name.as_str())
    }

    fn values(&self, update: &MetricsUpdate) -> Values {
        let mut values = Values::default();
        for metric in &update.entries_numeric {
            match (self.name(&metric.entry.metric_id), &metric.numeric_entry) {
                (Some(LOSS), Some(NumericEntry::Final(mean))) => values.mean_loss = Some(*mean),
                (Some(LOSS), Some(entry)) => values.loss = Some(entry.current()),
                (Some(LOAD_BALANCING), Some(entry)) => {
                    values.load_balancing = Some(entry.current());
                }
                (Some(LEARNING_RATE), Some(entry)) => values.lr = Some(entry.current()),
                _ => {}
            }
        }
        values
    }

    /// Returns the point for an update: one for each training step, and one for the mean of each validation.
    fn point(&mut self, values: &Values, epoch: usize, split: &Split) -> Option<Point> {
        let (name, loss, tokens, lr) = match split {
            Split::Train => ("train", values.loss?, self.tokens.step, values.lr),
            Split::Valid => ("valid", values.mean_loss?, self.tokens.validation, None),
            Split::Test(_) => return None,
        };
        self.step += usize::from(*split == Split::Train);
        let now = Instant::now();
        let tokens_per_s = tokens as f64 / now.duration_since(self.last).as_secs_f64();
        self.last = now;
        Some(Point {
            step: self.step,
            epoch,
            split: name,
            loss,
            load_balancing_loss: values.load_balancing,
            tokens_per_s,
            lr,
            seconds: now.duration_since(self.started).as_secs_f64(),
        })
    }

    fn record(&mut self, point: Point) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&point)?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .context("cannot write metrics.jsonl")?;
        if !point.loss.is_finite() {
            let kind = if point.split == "train" {
                "training"
            } else {
                "validation"
            };
            return Err(anyhow!(
                "the {kind} loss is {} at step {}: training diverged, try a smaller --lr",
                point.loss,
                point.step
            ));
        }
        self.history.with(|history| history.points.push(point));
        Ok(())
    }
}

#[derive(Default)]
struct Values {
    loss: Option<f64>,
    mean_loss: Option<f64>,
    load_balancing: Option<f64>,
    lr: Option<f64>,
}

impl MetricLogger for Recorder {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        let failed = self.history.with(|history| history.failure.is_some());
        let values = self.values(&update);
        let Some(point) = self.point(&values, epoch, split).filter(|_| !failed) else {
            return;
        };
        if let Err(failure) = self.record(point) {
            self.interrupter.stop(Some("recording failed"));
            self.history.with(|history| history.failure = Some(failure));
        }
    }

    /// Returns nothing. burn-train reads metrics only for early stopping and to select checkpoints, which runs don't
    /// use.
    fn read_numeric(
        &mut self,
        _name: &str,
        _epoch: usize,
        _split: &Split,
    ) -> Result<Vec<NumericEntry>, String> {
        Ok(Vec::new())
    }

    fn log_metric_definition(&mut self, definition: MetricDefinition) {
        self.metrics.push(definition);
    }

    fn log_epoch_summary(&mut self, _summary: EpochSummary) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::train::metric::store::NumericMetricUpdate;
    use burn::train::metric::{LossMetric, MetricEntry, SerializedEntry};

    fn update(entry: NumericEntry) -> MetricsUpdate {
        let id = MetricId::new(LOSS.to_owned().into());
        let text = SerializedEntry::new(String::new(), String::new());
        let metric = NumericMetricUpdate::new(MetricEntry::new(id, text), Some(entry), None);
        MetricsUpdate::new(Vec::new(), vec![metric])
    }

    fn recorder(path: &Path) -> (Recorder, SharedHistory, Interrupter) {
        let interrupter = Interrupter::new();
        let tokens = TokenCounts {
            step: 10,
            validation: 20,
        };
        let (mut recorder, history) = Recorder::create(path, tokens, interrupter.clone()).unwrap();
        let id = MetricId::new(LOSS.to_owned().into());
        recorder.log_metric_definition(MetricDefinition::new(id, &LossMetric::new()));
        (recorder, history, interrupter)
    }

    #[test]
    fn steps_and_validations_become_points() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut recorder, history, interrupter) = recorder(&path);
        recorder.log(update(NumericEntry::Value(5.0)), 1, &Split::Train);
        // The mean over a round of training and the single batches of a validation give no point.
        recorder.log(update(NumericEntry::Final(5.0)), 1, &Split::Train);
        recorder.log(update(NumericEntry::Value(4.0)), 1, &Split::Valid);
        recorder.log(update(NumericEntry::Final(4.5)), 1, &Split::Valid);
        assert!(!interrupter.should_stop());
        let points = history.take().unwrap();
        let seen: Vec<_> = points.iter().map(|p| (p.step, p.split, p.loss)).collect();
        assert_eq!(seen, [(1, "train", 5.0), (1, "valid", 4.5)]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_loss_that_is_no_number_stops_training() {
        let folder = tempfile::tempdir().unwrap();
        let (mut recorder, history, interrupter) = recorder(&folder.path().join("metrics.jsonl"));
        recorder.log(update(NumericEntry::Value(f64::NAN)), 1, &Split::Train);
        assert!(interrupter.should_stop());
        recorder.log(update(NumericEntry::Value(1.0)), 1, &Split::Train);
        let error = history.take().err().unwrap().to_string();
        assert!(error.contains("training loss is NaN at step 1"), "{error}");
        assert!(error.contains("--lr"), "{error}");
    }
}
