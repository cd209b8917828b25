use super::Settings;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{Described, Mismatch, checked, require};
use crate::ops::rms_norm;
use crate::semantics::{AddRmsNormKey, Gating, Scale};

operation! {
    /// A sum and its RMSNorm. RMSNorm computes the gradients.
    AddRmsNorm {
        name: "add_rms_norm",
        title: "AddRMSNorm",
        kernel: "npu_fused_add_rmsnorm",
        saved: 1,
        others: 1,
        no_gradient: true,
    }
    inputs Inputs<D>
    /// The checked operands of a sum and its RMSNorm.
    Operands<T> {
        /// The first term of the sum, `[.., n]`.
        x: One<D> "x",
        /// The second term, with the shape of `x`.
        residual: One<D> "the residual",
        /// The weight, `[n]`. Present exactly if the key has a weight.
        weight: Maybe<1> "the weight" if |of| of.key.scale == Scale::Weight,
        /// The gate, with the shape of `x`. Present exactly if the key has a gate.
        gate: Maybe<D> "the gate" if |of| of.key.gating != Gating::None,
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
        key: AddRmsNormKey,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        crate::ops::operands::epsilon("AddRMSNorm", self.settings.eps)?;
        require!(
            self.residual.shape() == self.x.shape(),
            "AddRMSNorm: the residual is {:?}, but x is {:?}",
            self.residual.shape().as_slice(),
            self.x.shape().as_slice()
        );
        // The sum has the shape of `x`.
        let (weight, gate) = (self.weight.as_ref(), self.gate.as_ref());
        let norm = rms_norm::fits(&self.x, weight, gate, self.settings, self.key.norm());
        norm.map_err(|mismatch| mismatch.of("AddRMSNorm"))
    }

    /// Describes the normalised sum and the sum.
    fn results(&self) -> [Like; 2] {
        [(); 2].map(|()| (self.x.shape(), self.x.dtype()))
    }

    fn saved(&self) -> [Saved; 1] {
        [Saved::exactly("rstd", self.rstd())]
    }

    /// Returns the shape and dtype of `rstd`, which are those of an RMSNorm of `x`.
    pub(crate) fn rstd(&self) -> Like {
        self.settings.rstd_of(&self.x)
    }

    /// Returns the operands of the norm of the sum. `sum` adds the two terms.
    pub(super) fn norm_of(self, sum: impl FnOnce(T, T) -> T) -> rms_norm::Operands<T> {
        let shape = self.x.shape();
        let sum = sum(self.x, self.residual);
        assert_eq!(sum.shape(), shape, "a sum is like its terms");
        let (settings, key) = (self.settings, self.key.norm());
        checked(rms_norm::Operands::new(
            sum,
            self.weight,
            self.gate,
            settings,
            key,
        ))
    }
}
