//! Live progress on standard error: one updating line on a terminal, plain lines every few seconds elsewhere, and
//! nothing with `--quiet`.

use super::metrics::LOSS;
use super::settings::Settings;
use burn::train::LearnerSummary;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(5);

/// The style of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Terminal,
    Plain,
    Silent,
}

/// The program's renderer for burn-train.
pub struct Progress {
    style: Style,
    steps: usize,
    tokens_per_step: usize,
    loss_metric: MetricId,
    step: usize,
    /// The latest loss, or `None` before the first.
    loss: Option<f64>,
    validating: bool,
    /// The time spent in training steps, without validation.
    training: Duration,
    split_started: Instant,
    drawn: Instant,
}

impl Progress {
    /// Creates the renderer for a run.
    pub fn new(settings: &Settings, quiet: bool) -> Self {
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Silent,
            (false, true) => Style::Terminal,
            (false, false) => Style::Plain,
        };
        let now = Instant::now();
        Self {
            style,
            steps: settings.steps,
            tokens_per_step: settings.tokens_per_step(),
            loss_metric: MetricId::new(LOSS.to_owned().into()),
            step: 0,
            loss: None,
            validating: false,
            training: Duration::ZERO,
            split_started: now,
            drawn: now,
        }
    }

    fn step_line(&self) -> String {
        let seconds = (self.training + self.split_started.elapsed()).as_secs_f64();
        let each = seconds / self.step as f64;
        let left = (each * (self.steps - self.step) as f64).round() as u64;
        let loss = self.loss.map(|loss| format!("  loss {loss:.4}"));
        format!(
            "step {}/{}{}  {:.0} tokens/s  about {}:{:02} left",
            self.step,
            self.steps,
            loss.unwrap_or_default(),
            self.tokens_per_step as f64 / each,
            left / 60,
            left % 60,
        )
    }

    fn draw(&mut self, line: &str) {
        let due = self.drawn.elapsed() >= PLAIN_LINE_EVERY || self.step == 1;
        match self.style {
            Style::Terminal => print(&format!("\r{line}\x1b[K")),
            Style::Plain if due => print(&format!("{line}\n")),
            Style::Plain | Style::Silent => return,
        }
        self.drawn = Instant::now();
    }

    /// Prints a line that stays.
    fn keep(&mut self, line: &str) {
        match self.style {
            Style::Terminal => print(&format!("\r{line}\x1b[K\n")),
            Style::Plain => print(&format!("{line}\n")),
            Style::Silent => {}
        }
        self.drawn = Instant::now();
    }
}

/// Prints progress. A failure to print is ignored.
fn print(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

impl MetricsRendererTraining for Progress {
    fn update_train(&mut self, state: MetricState) {
        if let MetricState::Numeric(
            entry,
            Some(NumericEntry::Aggregated {
                aggregated_value, ..
            }),
        ) = state
            && entry.metric_id == self.loss_metric
        {
            self.loss = Some(aggregated_value);
        }
    }

    fn update_valid(&mut self, state: MetricState) {
        if let MetricState::Numeric(entry, Some(NumericEntry::Final(loss))) = state
            && entry.metric_id == self.loss_metric
        {
            let line = format!(
                "step {}/{}  validation loss {loss:.4}  perplexity {:.2}",
                self.step,
                self.steps,
                loss.exp()
            );
            self.keep(&line);
        }
    }

    fn on_train_end(&mut self, _summary: Option<LearnerSummary>) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
}

impl TrainingProgressLogger for Progress {
    fn start(
        &mut self,
        _epochs: usize,
        _first: usize,
        _items: Option<usize>,
        _label: Option<&str>,
    ) {
    }

    fn start_split(&mut self, split: &str, _total_items: usize) {
        self.validating = split == "valid";
        self.split_started = Instant::now();
    }

    fn update_split(&mut self, _items_processed: usize) {
        if self.validating {
            self.draw("validating");
        } else {
            self.step += 1;
            let line = self.step_line();
            self.draw(&line);
        }
    }

    fn end_split(&mut self) {
        if !self.validating {
            self.training += self.split_started.elapsed();
        }
    }

    fn update_epoch(&mut self, _epoch: usize) {}

    fn end(&mut self) {}

    fn log_event_training(&mut self, _event: String) {}
}

/// Required by burn-train's renderer trait and unused: no run is evaluated through burn-train.
impl MetricsRendererEvaluation for Progress {
    fn update_test(&mut self, _name: EvaluationName, _state: MetricState) {}
}

impl EvaluationProgressLogger for Progress {
    fn start_global_progress(&mut self, _total_tests: usize) {}

    fn start_test(&mut self, _name: &str, _total_items: usize) {}

    fn update_test_progress(&mut self, _items_processed: usize) {}

    fn end_test(&mut self) {}

    fn end_global_progress(&mut self) {}

    fn log_event_evaluation(&mut self, _event: String) {}
}

impl MetricsRenderer for Progress {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, _definition: MetricDefinition) {}
}
