//! Gated linear units, and steps of AdamW.

use super::Results;
use super::norm::view_of;
use crate::call::{Error, refused};
use crate::made::Made;
use crate::numbers::{Beta, Epsilon, Finite, Limit};
use crate::tensor::{Tensor, in_place};
use kernels_simd::keys::{Activation, Projections};
use kernels_simd::{adam_w as adam, glu as unit};

/// A gated linear unit.
pub(super) struct Glu {
    pub(super) gate: Tensor,
    pub(super) up: Option<Tensor>,
    pub(super) activation: Activation,
    pub(super) projections: Projections,
    pub(super) limit: Option<Limit>,
    pub(super) up_offset: Finite,
    pub(super) threshold: Option<Finite>,
}

impl Glu {
    fn operands(&self) -> Result<unit::Operands<'_>, Error> {
        Ok(unit::Operands {
            gate: self.gate.view()?,
            up: view_of(&self.up)?,
            settings: unit::Settings {
                activation: self.activation,
                projections: self.projections,
                limit: self.limit.map(|limit| limit.0),
                up_offset: self.up_offset.0,
                threshold: self.threshold.map(|threshold| threshold.0),
            },
        })
    }

    pub(super) fn forward(self) -> Results<1> {
        let y = unit::forward(&self.operands()?);
        let mut sizes = self.gate.sizes().to_vec();
        if let (Some(last), false) = (sizes.last_mut(), self.projections == Projections::Separate) {
            *last /= 2;
        }
        Ok([Some(Made::new(y, &sizes))])
    }

    pub(super) fn backward(self, dy: Tensor) -> Results<2> {
        let found = unit::backward(&self.operands()?, &dy.view()?);
        Ok([
            Some(Made::new(found.gate, self.gate.sizes())),
            Made::like(found.up, &self.up),
        ])
    }
}

/// A step of AdamW.
pub(super) struct AdamW {
    pub(super) parameter: Tensor,
    pub(super) moment_1: Tensor,
    pub(super) moment_2: Tensor,
    pub(super) gradient: Tensor,
    pub(super) learning_rate: Finite,
    pub(super) beta_1: Beta,
    pub(super) beta_2: Beta,
    pub(super) epsilon: Epsilon,
    pub(super) weight_decay: Finite,
    pub(super) step: usize,
}

impl AdamW {
    /// Returns the numbers of the step.
    fn settings(&self) -> Result<adam::Settings, Error> {
        let step = match i32::try_from(self.step) {
            Ok(step) if step > 0 => step,
            _ => {
                return refused(format!(
                    "step: the number of the step must be from 1 to {}, and not {}",
                    i32::MAX,
                    self.step
                ));
            }
        };
        let (beta_1, beta_2) = (self.beta_1.0, self.beta_2.0);
        Ok(adam::Settings {
            learning_rate: self.learning_rate.0,
            beta_1,
            beta_2,
            epsilon: self.epsilon.0,
            weight_decay: self.weight_decay.0,
            corrections: [beta_1, beta_2].map(|beta| 1.0 - beta.powi(step)),
        })
    }

    /// Makes the step in the memory of the parameter and its moments.
    pub(super) fn make(mut self) -> Results<0> {
        let settings = self.settings()?;
        let sizes = [&self.parameter, &self.moment_1, &self.moment_2].map(Tensor::sizes);
        if sizes.iter().any(|sizes| *sizes != self.gradient.sizes()) {
            return refused(format!(
                "parameter and moments of shapes {sizes:?} don't go with a gradient of shape {:?}",
                self.gradient.sizes()
            ));
        }
        let gradient = self.gradient.view()?;
        let tensors = [&mut self.parameter, &mut self.moment_1, &mut self.moment_2];
        let [parameter, moment_1, moment_2] = in_place(tensors, &[&self.gradient])?;
        adam::step(settings, parameter, [moment_1, moment_2], &gradient);
        Ok([])
    }
}
