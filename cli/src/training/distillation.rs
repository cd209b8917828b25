//! The loss of a student that learns the probabilities of a teacher.

use kernels_models::preference::Divergence;
use kernels_models::{CausalLm, Distilled};

/// The model that another one learns from.
pub struct Teacher {
    /// The teacher, without gradients.
    pub model: CausalLm,
    /// The divergence of the student from it.
    pub divergence: Divergence,
}

impl Teacher {
    /// Returns this teacher for the tokens at these places.
    pub fn of<'a>(&'a self, places: &'a [usize]) -> Distilled<'a> {
        Distilled {
            teacher: &self.model,
            places,
            divergence: self.divergence,
        }
    }
}
