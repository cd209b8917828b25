//! Divergences of a teacher's and a student's tokens.

use super::numbers::{above_zero, input, log_sigmoid, part};
use crate::error::ModelError;
use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;

/// A divergence of a student `S` from a teacher `T` (Agarwal et al., arXiv:2306.13649; Wen et al., arXiv:2307.15190).
///
/// With `mixture` 0 it is `KL(T‖S)`, and with 1 `KL(S‖T)`. Between, it is the generalised Jensen–Shannon divergence
/// `β·KL(T‖M) + (1 − β)·KL(S‖M)` with `M = (1 − β)·S + β·T`, which vanishes towards the ends: they are cases of their own, and
/// not its limits.
///
/// The logits of both are divided by `temperature`, as TRL's `DistillationTrainer` does; its `GKDTrainer` does not. No factor
/// `temperature²` is applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// `β`, from 0 to 1.
    pub mixture: f64,
    /// The temperature, above 0.
    pub temperature: f64,
}

impl Divergence {
    /// Checks the numbers.
    pub(crate) fn check(self) -> Result<(), ModelError> {
        part("mixture", self.mixture)?;
        above_zero("temperature", self.temperature)
    }

    /// Returns the divergence of each token, `[tokens]`, for logits `[tokens, vocabulary]` of one vocabulary. Gradients flow to
    /// the student alone. It holds several tensors of this size: pass as many tokens at a time as there is memory for.
    ///
    /// # Errors
    /// Returns [`ModelError::Setting`] for a number out of its range, and [`ModelError::Input`] if the shapes differ.
    pub fn per_token(
        self,
        student: Tensor<2>,
        teacher: Tensor<2>,
    ) -> Result<Tensor<1>, ModelError> {
        self.check()?;
        let (shape, found) = (student.dims(), teacher.dims());
        if shape != found {
            let problem = format!("expected shape {shape:?}, found {found:?}");
            return Err(input("teacher", problem));
        }
        let cooling = 1.0 / self.temperature;
        let student = log_softmax(student * cooling, 1);
        let teacher = log_softmax(teacher.detach() * cooling, 1);
        let kl = |of: &Tensor<2>, from: &Tensor<2>| {
            let terms = of.clone().exp() * (of.clone() - from.clone());
            terms.sum_dim(1).squeeze_dim::<1>(1)
        };
        Ok(match self.mixture {
            0.0 => kl(&teacher, &student),
            1.0 => kl(&student, &teacher),
            b => {
                // log(eˣ + eʸ) = x − log σ(x − y)
                let (x, y) = (student.clone() + (1.0 - b).ln(), teacher.clone() + b.ln());
                let mixture = x.clone() - log_sigmoid(x - y);
                kl(&teacher, &mixture) * b + kl(&student, &mixture) * (1.0 - b)
            }
        })
    }
}
