//! Models: loaded from a checkpoint, with progress of large ones on a terminal, or with random weights.

use crate::screen;
use anyhow::ensure;
use burn::module::Module;
use burn::tensor::Device;
use burn_kernels::nn::Quantized;
use burn_kernels::ops::quantized_linear::runs_on;
use burn_kernels::ops::quantized_linear_int8 as int8;
use bytesize::ByteSize;
use kernels_models::{CausalLm, ModelConfig, ModelError, Progress, QuantisedWeights};
use std::io::Write;
use std::time::{Duration, Instant};

/// The size from which the progress is shown, in bytes. Smaller checkpoints take a second or two.
const LARGE: u64 = 1 << 30;

/// The time between two updates of the line.
const EVERY: Duration = Duration::from_millis(100);

/// The options of quantised checkpoints.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
pub struct QuantisedArgs {
    /// Decode quantised weights to floats, in place of multiplying with their bytes.
    #[arg(long)]
    dequantize: bool,
    /// The form of the rows that quantised weights are multiplied with. int8 rounds them to 8 bits in blocks of 32,
    /// which is faster and costs some tenths of a percent of each product; `kernels verify` measures the error.
    #[arg(long, value_enum, default_value_t = Activations::Float, conflicts_with = "dequantize")]
    activations: Activations,
}

/// The form of the rows that quantised weights are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Activations {
    /// The rows as they are.
    Float,
    /// Rows that are rounded to 8 bits.
    Int8,
}

impl QuantisedArgs {
    /// Returns the implementation that the options ask for, if they do.
    pub fn preferred(self) -> Option<&'static str> {
        (self.activations == Activations::Int8).then_some(int8::IMPLEMENTATION)
    }

    /// Checks that `--activations` has an effect.
    ///
    /// # Errors
    /// Returns an error if the model is not on the CPU of this process, or has no quantised weights that are multiplied
    /// with rounded rows.
    pub fn check(self, model: &impl Module, device: &Device) -> anyhow::Result<()> {
        if self.activations == Activations::Float {
            return Ok(());
        }
        ensure!(
            runs_on(device),
            "--activations int8 is for the CPU; other devices decode quantised weights to floats"
        );
        ensure!(
            Quantized::is_in(model),
            "--activations int8 is for quantised weights, and the weights of this run are floats"
        );
        ensure!(
            Quantized::rounds_in(model),
            "--activations int8 has no effect: no weight of this model has integers that are stored row by row \
             (GGUF, int8 of bitsandbytes, 4 and 8 bits of compressed-tensors)"
        );
        Ok(())
    }

    /// Returns the form of quantised weights. `decodes` is true where something needs floats.
    pub fn form(self, decodes: bool) -> QuantisedWeights {
        match self.dequantize || decodes {
            true => QuantisedWeights::Decoded,
            false => QuantisedWeights::Kept,
        }
    }
}

/// Loads a checkpoint by `load`, and shows the progress that it reports.
///
/// # Errors
/// Returns the error of `load`.
pub fn shown<T>(
    load: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, ModelError>,
) -> anyhow::Result<T> {
    let mut line = Line::new(screen::moves(&std::io::stderr()));
    let loaded = load(&mut |progress| {
        if let Some(text) = line.update(progress, Instant::now()) {
            // A failure to print is ignored.
            let mut err = std::io::stderr().lock();
            let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        }
    });
    Ok(loaded?)
}

/// Returns a model with random weights. They are drawn on the CPU, so that a seed gives the same model on every device.
pub fn random(config: &ModelConfig, seed: u64, device: &Device) -> CausalLm {
    let here = match device.is_autodiff() {
        true => Device::flex().autodiff(),
        false => Device::flex(),
    };
    here.seed(seed);
    let model = config.init(&here);
    // Parameters are drawn when they are first read.
    model.named_parameters();
    model.fork(device)
}

/// A line on a terminal that shows how much has been read.
struct Line {
    terminal: bool,
    /// The time of the last update, or `None` before the first.
    drawn: Option<Instant>,
}

impl Line {
    fn new(terminal: bool) -> Self {
        Self {
            terminal,
            drawn: None,
        }
    }

    /// Returns the text to print, if it is time. The line is removed at the end.
    fn update(&mut self, progress: Progress, now: Instant) -> Option<String> {
        let Progress { read, total } = progress;
        if !self.terminal || total < LARGE {
            return None;
        }
        if read == total {
            return Some("\r\x1b[K".to_owned());
        }
        let due = self.drawn.is_none_or(|drawn| now - drawn >= EVERY);
        due.then(|| {
            self.drawn = Some(now);
            let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
            let percent = read as f64 / total as f64 * 100.0;
            format!(
                "\rloading: {} of {}, {percent:.0} %\x1b[K",
                size(read),
                size(total)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(read: u64) -> Progress {
        let total = 4 * LARGE;
        Progress { read, total }
    }

    #[test]
    fn the_line_is_updated_now_and_then_and_removed_at_the_end() {
        let (mut line, begin) = (Line::new(true), Instant::now());
        let first = line.update(at(0), begin);
        assert_eq!(first.unwrap(), "\rloading: 0 B of 4.0 GiB, 0 %\x1b[K");
        assert_eq!(line.update(at(LARGE), begin + EVERY / 2), None);
        let next = line.update(at(LARGE), begin + EVERY);
        assert_eq!(next.unwrap(), "\rloading: 1.0 GiB of 4.0 GiB, 25 %\x1b[K");
        let last = line.update(at(4 * LARGE), begin + EVERY);
        assert_eq!(last.unwrap(), "\r\x1b[K");
    }

    #[test]
    fn small_checkpoints_and_files_show_nothing() {
        let small = Progress {
            read: 0,
            total: LARGE - 1,
        };
        assert_eq!(Line::new(true).update(small, Instant::now()), None);
        assert_eq!(Line::new(false).update(at(0), Instant::now()), None);
    }
}
