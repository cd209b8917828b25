use crate::ops::operands::{Mismatch, require};
use crate::semantics::LogitCap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The numbers of one loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The target of tokens that don't count. -100 by default.
    pub ignore_index: i64,
    /// The part of the target distribution that is spread evenly over all classes, from 0 to 1. 0 by default.
    pub label_smoothing: f64,
    /// The limit of the logits, above 0. Present exactly if the key has a cap.
    pub cap: Option<f64>,
    /// The factor of the z-loss, `lse²` of each token. 0 by default.
    pub z_loss: f64,
}

impl Settings {
    /// The target that does not count unless another one is set.
    pub const IGNORE_INDEX: i64 = -100;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ignore_index: Self::IGNORE_INDEX,
            label_smoothing: 0.0,
            cap: None,
            z_loss: 0.0,
        }
    }
}

impl Settings {
    /// Checks that the numbers match the key and are in their ranges.
    pub(in crate::ops) fn check(
        self,
        op: &str,
        cap: LogitCap,
        key: impl fmt::Display,
    ) -> Result<(), Mismatch> {
        require!(
            self.cap.is_some() == (cap == LogitCap::Tanh),
            "{op}: a cap is {}, but the semantics are {key}",
            if self.cap.is_some() {
                "given"
            } else {
                "missing"
            }
        );
        if let Some(cap) = self.cap {
            require!(
                cap > 0.0 && (cap as f32).is_normal(),
                "{op}: the cap is {cap}, but must be a number above 0 in the normal range of f32"
            );
        }
        require!(
            (0.0..=1.0).contains(&self.label_smoothing),
            "{op}: the label smoothing is {}, but must be from 0 to 1",
            self.label_smoothing
        );
        require!(
            self.z_loss.is_finite(),
            "{op}: the factor of the z-loss is {}, but must be a finite number",
            self.z_loss
        );
        Ok(())
    }
}
