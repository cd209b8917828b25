use super::Settings;
use crate::ops::compute_dtype;
use crate::ops::fused::declare::{operation, there};
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::{Gating, Groups, RmsNormKey, Scale, Shift};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

const OP: &str = "RMSNorm";

operation! {
    /// RMSNorm.
    RmsNorm {
        name: "rms_norm",
        title: "RMSNorm",
        kernel: "npu_fused_rmsnorm",
        saved: 1,
        recomputed: true,
        adds: true,
    }
    inputs Inputs<D>
    /// The checked operands of an RMSNorm.
    Operands<T> {
        /// The tensor to normalise, `[.., n]`.
        x: One<D> "x",
        /// The weight, `[n]`. Present exactly if the key has a weight.
        weight: Maybe<1> "the weight" if |of| of.key.scale == Scale::Weight,
        /// The gate, with the shape of `x`. Present exactly if the key has a gate.
        gate: Maybe<D> "the gate" if |of| of.key.gating != Gating::None,
    }
    later {
        /// The bias, `[n]`. Present exactly if the key has a bias.
        bias "the bias" if |of| of.key.shift == Shift::Bias,
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
        key: RmsNormKey,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        crate::ops::operands::epsilon("RMSNorm", self.settings.eps)?;
        let (weight, gate) = (self.weight.as_ref(), self.gate.as_ref());
        fits(&self.x, weight, gate, self.settings, self.key)?;
        let Some(bias) = &self.bias else {
            return Ok(());
        };
        require!(
            self.gate.is_none(),
            "RMSNorm: a bias does not go with a gate, but the semantics are {}",
            self.key
        );
        of_axis("the bias", bias, &self.x)
    }

    fn results(&self) -> [Like; 1] {
        [(self.x.shape(), self.x.dtype())]
    }

    fn saved(&self) -> [Saved; 1] {
        [Saved::exactly("rstd", self.rstd())]
    }

    /// Returns the shape and dtype of `rstd`: one value for each normalised group of each row, in f32 (f64
    /// for f64 tensors).
    pub(crate) fn rstd(&self) -> Like {
        self.settings.rstd_of(&self.x)
    }
}

/// Checks that the shapes fit together, and that there is a group size exactly if the key has many groups.
pub(in crate::ops) fn fits<T: Described>(
    x: &T,
    weight: Option<&T>,
    gate: Option<&T>,
    settings: Settings,
    key: RmsNormKey,
) -> Result<(), Mismatch> {
    let grouped = key.groups == Groups::Many;
    let given = settings.group_size.is_some();
    there((OP, "the group size"), (given, grouped), &key)?;
    let shape = x.shape();
    let Some(n) = shape.last().copied() else {
        return Err(Mismatch::new("RMSNorm: x has no axis to normalise"));
    };
    if let Some(weight) = weight {
        of_axis("the weight", weight, x)?;
    }
    if let Some(gate) = gate {
        require!(
            gate.shape() == shape,
            "RMSNorm: the gate is {:?}, but x is {:?}",
            gate.shape().as_slice(),
            shape.as_slice()
        );
    }
    if let Some(size) = settings.group_size {
        require!(
            size > 0 && n.is_multiple_of(size),
            "RMSNorm: the group size {size} does not divide the last axis of x, {:?}",
            shape.as_slice()
        );
    }
    Ok(())
}

/// Checks that a parameter has an element for each one of the last axis of `x`.
fn of_axis<T: Described>(name: &str, parameter: &T, x: &T) -> Result<(), Mismatch> {
    let [elements] = operands::dims(OP, name, parameter)?;
    let shape = x.shape();
    let n = shape.last().copied().unwrap_or_default();
    require!(
        elements == n,
        "RMSNorm: {name} has {elements} elements, but the last axis of x, {:?}, has {n}",
        shape.as_slice()
    );
    Ok(())
}

impl Settings {
    /// Returns the shape and dtype of the `rstd` of a tensor.
    pub(in crate::ops) fn rstd_of(self, x: &impl Described) -> Like {
        let mut shape = x.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = match self.group_size {
                Some(size) => *last / size,
                // A row without elements has no statistic.
                None => (*last).min(1),
            };
        }
        (shape, compute_dtype(x.dtype()))
    }
}

impl Operands<DispatchTensor> {
    /// Makes the operands of inputs and of a bias, if there is one.
    ///
    /// # Panics
    /// Panics if [`new`](Self::new) returns an error.
    #[track_caller]
    pub(crate) fn of_all<const D: usize>(
        inputs: Inputs<D>,
        bias: Option<Tensor<1>>,
        settings: Settings,
        key: RmsNormKey,
    ) -> Self {
        let Inputs { x, weight, gate } = inputs;
        operands::checked(Self::with_later(
            x.into_dispatch(),
            weight.map(Tensor::into_dispatch),
            gate.map(Tensor::into_dispatch),
            bias.map(Tensor::into_dispatch),
            settings,
            key,
        ))
    }
}

impl<T> Operands<T> {
    /// Returns `x`, weight, gate and bias.
    pub fn into_parts(self) -> (T, [Option<T>; 3]) {
        (self.x, [self.weight, self.gate, self.bias])
    }
}
