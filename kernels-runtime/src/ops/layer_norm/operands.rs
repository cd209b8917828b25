use super::Settings;
use crate::ops::compute_dtype;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::{LayerNormKey, Shift};

operation! {
    /// LayerNorm.
    LayerNorm {
        name: "layer_norm",
        title: "LayerNorm",
        kernel: "npu_fused_layernorm",
        saved: 2,
        recomputed: true,
    }
    inputs Inputs<D>
    /// The checked operands of a LayerNorm.
    Operands<T> {
        /// The tensor to normalise, `[.., n]`.
        x: One<D> "x",
        /// The weight, `[n]`.
        weight: One<1> "the weight",
        /// The bias, `[n]`.
        bias: Maybe<1> "the bias" if |of| of.key.shift == Shift::Bias,
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
        key: LayerNormKey,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        crate::ops::operands::epsilon("LayerNorm", self.settings.eps)?;
        let shape = self.x.shape();
        let Some(n) = shape.last().copied() else {
            return Err(Mismatch::new("LayerNorm: x has no axis to normalise"));
        };
        let parameters = [
            ("the weight", Some(&self.weight)),
            ("the bias", self.bias.as_ref()),
        ];
        for (name, parameter) in parameters {
            let Some(parameter) = parameter else { continue };
            let [elements] = operands::dims("LayerNorm", name, parameter)?;
            require!(
                elements == n,
                "LayerNorm: {name} has {elements} elements, but the last axis of x, {:?}, has {n}",
                shape.as_slice()
            );
        }
        Ok(())
    }

    fn results(&self) -> [Like; 1] {
        [(self.x.shape(), self.x.dtype())]
    }

    fn saved(&self) -> [Saved; 2] {
        ["the mean", "rstd"].map(|name| Saved::exactly(name, self.statistic()))
    }

    /// Returns the shape and dtype of a statistic: one value for each row, in f32 (f64 for f64 tensors).
    pub(crate) fn statistic(&self) -> Like {
        let mut shape = self.x.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            // A row without elements has no statistic.
            *last = (*last).min(1);
        }
        (shape, compute_dtype(self.x.dtype()))
    }
}
