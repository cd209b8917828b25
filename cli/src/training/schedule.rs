//! The learning rate as a function of the step, so that a run can go on from any step.

use clap::ValueEnum;
use serde::Serialize;
use std::f64::consts::PI;

/// The course of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Half a wave down to the lowest rate.
    Cosine,
    /// A straight line down to the lowest rate.
    Linear,
    /// The highest rate to the end.
    Constant,
}

/// A learning rate that rises along a line over the first steps, and then falls.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The rate at the end of the warm-up.
    pub highest: f64,
    /// The rate after the last step.
    pub lowest: f64,
    /// The number of steps of the warm-up. The rate of the first is `highest / warmup`.
    pub warmup: usize,
    /// The number of all steps.
    pub steps: usize,
    /// The course after the warm-up.
    pub decay: Decay,
}

impl Schedule {
    /// Returns the rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        if step < self.warmup {
            return self.highest * (step + 1) as f64 / self.warmup as f64;
        }
        let falling = self.steps.saturating_sub(self.warmup).max(1);
        let done = ((step - self.warmup) as f64 / falling as f64).min(1.0);
        let left = match self.decay {
            Decay::Cosine => (1.0 + (PI * done).cos()) / 2.0,
            Decay::Linear => 1.0 - done,
            Decay::Constant => return self.highest,
        };
        self.lowest + (self.highest - self.lowest) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(decay: Decay) -> Vec<f64> {
        let schedule = Schedule {
            highest: 1.0,
            lowest: 0.5,
            warmup: 2,
            steps: 6,
            decay,
        };
        (0..7).map(|step| schedule.rate(step)).collect()
    }

    #[test]
    fn rates_rise_and_fall() {
        let expected = [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5];
        assert_eq!(rates(Decay::Linear), expected);
        let cosine = rates(Decay::Cosine);
        let quarter = (PI / 4.0).cos() / 4.0;
        let expected = [0.5, 1.0, 1.0, 0.75 + quarter, 0.75, 0.75 - quarter, 0.5];
        for (found, expected) in cosine.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{cosine:?}");
        }
        assert_eq!(rates(Decay::Constant)[2..], [1.0; 5]);
    }

    #[test]
    fn one_step_without_a_warmup_has_the_highest_rate() {
        let schedule = Schedule {
            highest: 2.0,
            lowest: 0.0,
            warmup: 0,
            steps: 1,
            decay: Decay::Cosine,
        };
        assert_eq!(schedule.rate(0), 2.0);
    }
}
