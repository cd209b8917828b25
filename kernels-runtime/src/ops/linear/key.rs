use crate::semantics::{Dtypes, OutputLayout, Shift};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a linear layer, `y = x · weight + bias`.
///
/// On half types products are summed in f32, the bias is added to the sum, and the result is rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinearKey {
    /// The order of the axes of the weight.
    pub layout: OutputLayout,
    /// The learned bias that is added to the result, if there is one.
    pub shift: Shift,
}

impl LinearKey {
    /// Burn's `Linear` with a bias.
    pub const BURN: Self = Self {
        layout: OutputLayout::InputMajor,
        shift: Shift::Bias,
    };

    /// Burn's `Linear` without a bias, as the projections of most language models are.
    pub const PROJECTION: Self = Self {
        layout: OutputLayout::InputMajor,
        shift: Shift::None,
    };
}

impl Dtypes for LinearKey {}

impl fmt::Display for LinearKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = match self.layout {
            OutputLayout::InputMajor => "input_major",
            OutputLayout::OutputMajor => "output_major",
        };
        write!(f, "linear(layout={layout}")?;
        if self.shift == Shift::Bias {
            f.write_str(", shift=bias")?;
        }
        f.write_str(")")
    }
}
