//! Live progress on standard error: one updating line on a terminal, plain lines every few seconds elsewhere, and
//! nothing with `--quiet`.

use super::metrics::Point;
use std::io::Write;
use std::time::{Duration, Instant};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(5);

/// The style of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Terminal,
    Plain,
    Silent,
}

/// The progress of a run, as it is shown.
pub struct Display {
    style: Style,
    steps: usize,
    drawn: Option<Instant>,
    /// The time spent in training steps of this process, without validation.
    training: Duration,
    taken: usize,
    tokens: usize,
}

impl Display {
    /// Creates the display of a run of `steps` steps.
    pub fn new(steps: usize, quiet: bool) -> Self {
        let style = match (quiet, crate::screen::moves(&std::io::stderr())) {
            (true, _) => Style::Silent,
            (false, true) => Style::Terminal,
            (false, false) => Style::Plain,
        };
        Self {
            style,
            steps,
            drawn: None,
            training: Duration::ZERO,
            taken: 0,
            tokens: 0,
        }
    }

    /// Shows a step of `tokens` tokens, which took `time`.
    pub fn step(&mut self, point: &Point, tokens: usize, time: Duration) {
        self.training += time;
        self.taken += 1;
        self.tokens += tokens;
        let each = self.training.as_secs_f64() / self.taken as f64;
        let rest = self.steps.saturating_sub(point.step);
        let (left, speed) = (
            Duration::from_secs_f64(each * rest as f64),
            self.tokens as f64 / self.training.as_secs_f64(),
        );
        let width = match self.style {
            Style::Terminal => crate::screen::stderr().width,
            Style::Plain | Style::Silent => None,
        };
        self.draw(&line(point, self.steps, (speed, left), width));
    }

    /// Shows how many of some records are prepared.
    #[cfg(feature = "text")]
    pub fn preparing(&mut self, done: usize, records: usize) {
        self.draw(&format!("preparing record {done}/{records}"));
    }

    /// Shows that a validation is under way.
    pub fn validating(&mut self) {
        self.draw("validating");
    }

    /// Shows the loss of a validation, with its perplexity if it is of tokens.
    pub fn validation(&mut self, step: usize, loss: f64, is_of_tokens: bool) {
        let perplexity = match is_of_tokens {
            true => format!("  perplexity {:.2}", loss.exp()),
            false => String::new(),
        };
        self.keep(&format!(
            "step {step}/{}  validation loss {loss:.4}{perplexity}",
            self.steps
        ));
    }

    /// Prints a line that stays, also with `--quiet`.
    pub fn tell(&mut self, line: &str) {
        match self.style {
            Style::Terminal => self.keep(line),
            Style::Plain | Style::Silent => crate::output::note(line),
        }
    }

    fn draw(&mut self, line: &str) {
        let due = self
            .drawn
            .is_none_or(|drawn| drawn.elapsed() >= PLAIN_LINE_EVERY);
        match self.style {
            Style::Terminal => print(&format!("\r{line}\x1b[K")),
            Style::Plain if due => print(&format!("{line}\n")),
            Style::Plain | Style::Silent => return,
        }
        self.drawn = Some(Instant::now());
    }

    /// Prints a line that stays.
    fn keep(&mut self, line: &str) {
        let line = kernels_io::escape_lines(line);
        match self.style {
            Style::Terminal => print(&format!("\r{line}\x1b[K\n")),
            Style::Plain => print(&format!("{line}\n")),
            Style::Silent => {}
        }
        self.drawn = Some(Instant::now());
    }
}

/// Returns the line of a step. Where a terminal is narrower than the line, the parts that say least are left out.
fn line(
    point: &Point,
    steps: usize,
    (speed, left): (f64, Duration),
    width: Option<usize>,
) -> String {
    let left = left.as_secs_f64().round() as u64;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut parts = [
        Some(format!("step {}/{steps}", point.step)),
        Some(format!("loss {:.4}", point.loss)),
        point.lr.map(|rate| format!("lr {rate:.2e}")),
        point.grad_norm.map(|norm| format!("norm {norm:.2}")),
        Some(format!("{speed:.0} tokens/s")),
        point
            .memory_bytes
            .map(|bytes| format!("{:.2} GiB", gib(bytes))),
        Some(format!("about {}:{:02} left", left / 60, left % 60)),
    ];
    let mut line = joined(&parts);
    for least in [LR, NORM, MEMORY] {
        if width.is_none_or(|width| line.len() < width) {
            break;
        }
        parts[least] = None;
        line = joined(&parts);
    }
    line
}

/// The places of the parts of a line that can be left out.
const LR: usize = 2;
const NORM: usize = 3;
const MEMORY: usize = 5;

fn joined(parts: &[Option<String>]) -> String {
    let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
    parts.join("  ")
}

/// Prints progress. A failure to print is ignored.
fn print(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_terminals_show_less() {
        let point = Point {
            step: 12,
            epoch: 1,
            split: "train".to_owned(),
            loss: 2.34567,
            load_balancing_loss: None,
            metrics: Default::default(),
            tokens_per_s: 1.0,
            lr: Some(2e-4),
            grad_norm: Some(0.871),
            memory_bytes: Some(3 << 29),
            seconds: 1.0,
        };
        let line = |width| line(&point, 100, (1234.5, Duration::from_secs(83)), width);
        let whole = "step 12/100  loss 2.3457  lr 2.00e-4  norm 0.87  1234 tokens/s  1.50 GiB  about 1:23 left";
        assert_eq!(line(None), whole);
        assert_eq!(line(Some(whole.len() + 1)), whole);
        assert_eq!(
            line(Some(80)),
            "step 12/100  loss 2.3457  norm 0.87  1234 tokens/s  1.50 GiB  about 1:23 left"
        );
        assert_eq!(
            line(Some(20)),
            "step 12/100  loss 2.3457  1234 tokens/s  about 1:23 left"
        );
    }
}
