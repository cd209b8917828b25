//! `metrics.jsonl`, with a line for each training step and each validation, and `metrics.csv`, the same as a table.
//!
//! All points are also in memory, and in each checkpoint. If a line can't be written, training goes on; the whole file
//! is written again as soon as that is possible.

use super::events;
use super::log::{Format, Log};
use anyhow::Context;
use kernels_models::preference::Metric;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The name of a point of training.
pub const TRAIN: &str = "train";
/// The name of a point of a validation.
pub const VALID: &str = "valid";

/// A line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The number of optimiser steps so far.
    pub step: usize,
    /// The time that the training data is seen for, counted from 1.
    pub epoch: usize,
    /// `train` or `valid`.
    pub split: String,
    /// Mean cross-entropy in nats per token, of the batch or of all held-out text, or the mean loss of answers.
    pub loss: f64,
    /// The load-balancing loss of a mixture of experts, without its coefficient. `None` for a dense model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancing_loss: Option<f64>,
    /// The tokens processed per second in this step or validation.
    pub tokens_per_s: f64,
    /// The learning rate of the step. `None` for a validation.
    pub lr: Option<f64>,
    /// The norm of all gradients of the step, before it is limited. `None` for a validation.
    pub grad_norm: Option<f64>,
    /// The resident memory of the process after the step or validation, in bytes. `None` where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Seconds since training began, without the time between an interruption and its continuation.
    pub seconds: f64,
    /// Further metrics, of answers or of observed tokens, under TRL's names.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, f64>,
}

/// Returns the means of metrics by their names, and the margin of rewards.
pub fn named(metrics: &[Metric]) -> BTreeMap<String, f64> {
    let counted = metrics.iter().filter(|metric| metric.count > 0.0);
    let mean = |metric: &Metric| (metric.name.to_owned(), metric.sum / metric.count);
    let mut named: BTreeMap<String, f64> = counted.map(mean).collect();
    if let (Some(chosen), Some(rejected)) =
        (named.get("rewards/chosen"), named.get("rewards/rejected"))
    {
        named.insert("rewards/margins".into(), chosen - rejected);
    }
    named
}

/// The points of a run, and their files.
pub struct Recorder {
    logs: Vec<Log>,
    points: Vec<Point>,
}

impl Recorder {
    /// Writes the points so far to `path`, and appends to it from now on. With `tensorboard`, events for TensorBoard are
    /// beside it.
    ///
    /// # Errors
    /// Returns an error if a file can't be written.
    pub fn create(path: &Path, points: Vec<Point>, tensorboard: bool) -> anyhow::Result<Self> {
        let mut logs = vec![Log::create(path, Format::Lines, &points)?];
        if tensorboard {
            let path = path.with_file_name(events::FILE);
            logs.push(Log::create(&path, Format::events(&points), &points)?);
        }
        Ok(Self { logs, points })
    }

    /// Keeps points in memory, for a process that writes nothing.
    pub fn in_memory(points: Vec<Point>) -> Self {
        Self {
            logs: Vec::new(),
            points,
        }
    }

    /// Adds a point. If it can't be written, this is told once, and training can go on.
    pub fn record(&mut self, point: Point) {
        self.points.push(point);
        for log in &mut self.logs {
            log.record(&self.points);
        }
    }

    /// Writes the points that files lack.
    ///
    /// # Errors
    /// Returns an error if a file can't be written.
    pub fn complete(&mut self) -> anyhow::Result<()> {
        let mut each = self.logs.iter_mut();
        each.try_for_each(|log| log.complete(&self.points))
    }

    /// Returns all points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

/// Returns points as lines of JSON.
pub fn lines(points: &[Point]) -> Vec<u8> {
    points.iter().flat_map(line).collect()
}

/// Returns points as a table with a line of names, in CSV (RFC 4180). A cell without a number is empty.
pub fn csv(points: &[Point]) -> String {
    let mut table = String::from(
        "step,epoch,split,loss,load_balancing_loss,tokens_per_s,lr,grad_norm,memory_bytes,seconds",
    );
    let names: BTreeSet<&String> = points
        .iter()
        .flat_map(|point| point.metrics.keys())
        .collect();
    for name in &names {
        table.push(',');
        table.push_str(name);
    }
    table.push_str("\r\n");
    for point in points {
        let cell = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        let cells = [
            point.step.to_string(),
            point.epoch.to_string(),
            point.split.clone(),
            cell(Some(point.loss)),
            cell(point.load_balancing_loss),
            cell(Some(point.tokens_per_s)),
            cell(point.lr),
            cell(point.grad_norm),
            point
                .memory_bytes
                .map_or(String::new(), |bytes| bytes.to_string()),
            cell(Some(point.seconds)),
        ];
        let metrics = names
            .iter()
            .map(|name| cell(point.metrics.get(*name).copied()));
        let cells: Vec<String> = cells.into_iter().chain(metrics).collect();
        table.push_str(&cells.join(","));
        table.push_str("\r\n");
    }
    table
}

/// Reads lines of JSON.
///
/// # Errors
/// Returns an error with the number of the first invalid line.
pub fn parse(text: &str) -> anyhow::Result<Vec<Point>> {
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("line {}", number + 1))
    };
    text.lines().enumerate().map(parse).collect()
}

/// Returns a point as a line of JSON.
pub fn line(point: &Point) -> Vec<u8> {
    let mut line = serde_json::to_vec(point).expect("a point is JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: usize) -> Point {
        Point {
            step,
            epoch: 1,
            split: TRAIN.to_owned(),
            loss: 5.0,
            load_balancing_loss: None,
            tokens_per_s: 1.0,
            lr: Some(0.1),
            grad_norm: Some(1.0),
            memory_bytes: Some(1024),
            seconds: 0.5,
            metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn metrics_are_columns_and_come_back() {
        let metric = |name, sum, count| Metric { name, sum, count };
        let metrics = named(&[
            metric("rewards/chosen", 3.0, 2.0),
            metric("rewards/rejected", 1.0, 4.0),
            metric("logps/chosen", 0.0, 0.0),
        ]);
        assert_eq!(metrics["rewards/margins"], 1.25);
        let points = vec![
            Point {
                metrics,
                ..point(1)
            },
            point(2),
        ];
        let text = String::from_utf8(lines(&points)).unwrap();
        assert!(text.contains(r#""rewards/chosen":1.5"#), "{text}");
        assert_eq!(parse(&text).unwrap(), points);
        let table = csv(&points);
        let lines: Vec<&str> = table.split_terminator("\r\n").collect();
        assert!(lines[0].ends_with(",seconds,rewards/chosen,rewards/margins,rewards/rejected"));
        assert!(lines[1].ends_with(",0.5,1.5,1.25,0.25") && lines[2].ends_with(",0.5,,,"));
    }

    #[test]
    fn points_come_back() {
        let points = vec![point(1), point(2)];
        let text = String::from_utf8(lines(&points)).unwrap();
        assert_eq!(parse(&text).unwrap(), points);
        let error = format!("{:#}", parse(&format!("{text}{{")).unwrap_err());
        assert!(error.starts_with("line 3"), "{error}");
    }

    #[test]
    fn a_table_has_a_line_for_each_point() {
        let validation = Point {
            split: VALID.to_owned(),
            lr: None,
            grad_norm: None,
            memory_bytes: None,
            load_balancing_loss: Some(1.25),
            ..point(2)
        };
        let table = csv(&[point(1), validation]);
        let lines: Vec<&str> = table.split_terminator("\r\n").collect();
        assert_eq!(
            lines,
            [
                "step,epoch,split,loss,load_balancing_loss,tokens_per_s,lr,grad_norm,memory_bytes,seconds",
                "1,1,train,5,,1,0.1,1,1024,0.5",
                "2,1,valid,5,1.25,1,,,,0.5",
            ]
        );
    }

    #[test]
    fn a_file_that_is_removed_is_written_again_with_all_points() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/metrics.jsonl");
        let mut recorder = Recorder::create(&path, vec![point(1)], true).unwrap();
        recorder.record(point(2));
        let steps = || {
            let text = std::fs::read_to_string(&path).unwrap();
            let points = parse(&text).unwrap();
            points.iter().map(|point| point.step).collect::<Vec<_>>()
        };
        // The first record of events has no point.
        let events = || {
            let bytes = std::fs::read(path.with_file_name(events::FILE)).unwrap();
            let (mut rest, mut count) = (&bytes[..], 0);
            while let Some((length, others)) = rest.split_first_chunk::<8>() {
                let checksums_and_data = 8 + u64::from_le_bytes(*length) as usize;
                rest = &others[checksums_and_data..];
                count += 1;
            }
            assert!(rest.is_empty(), "a part of a record");
            count
        };
        assert_eq!((steps(), events()), (vec![1, 2], 3));
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        recorder.record(point(3));
        assert!(!path.exists());
        recorder.complete().unwrap();
        assert_eq!((steps(), events()), (vec![1, 2, 3], 4));
        recorder.record(point(4));
        assert_eq!((steps(), events()), (vec![1, 2, 3, 4], 5));
    }
}
