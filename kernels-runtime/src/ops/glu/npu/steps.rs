//! The steps before the unit: a clamp, the Gaussian top-k, an offset of up, and the factor of quick_gelu.
//!
//! With `s = 1.702`, `quick_gelu(g) · u` is `silu(s · g) · (u / s)`, so that SiLU's operators compute it. Everything is
//! in f32. The gradients are those of the [operation](crate::ops::glu).

use crate::npu::{Result, base};
use crate::ops::glu::{Settings, sparsity};
use crate::semantics::{Activation, Clamp, GluKey, Offset, TopK};
use burn_cann::backend::burn_dtype;
use burn_cann::ops::{compare, elementwise, reduce, unary};
use burn_cann::{DType, Stream, Tensor};

/// The factor of quick_gelu.
const FACTOR: f64 = 1.702;

/// The steps of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    clamp: bool,
    top_k: bool,
    offset: bool,
    factor: bool,
}

impl Steps {
    pub(super) fn of(key: GluKey) -> Self {
        Self {
            clamp: key.clamp == Clamp::Limit,
            top_k: key.topk == TopK::Gaussian,
            offset: key.up_offset == Offset::One,
            factor: key.activation == Activation::QuickGelu,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        !(self.clamp || self.top_k || self.offset || self.factor)
    }

    /// Returns the operators of [`Stepped::new`] after the casts, for a sparsity above 0.
    pub(super) fn forward_operators(self) -> impl Iterator<Item = &'static str> {
        let clamp: &[_] = if self.clamp {
            &["aclnnClampMax", "aclnnClamp"]
        } else {
            &[]
        };
        let top_k: &[_] = match self.top_k {
            true => &[
                "aclnnMean",
                "aclnnSub",
                "aclnnMul",
                "aclnnMean",
                "aclnnSqrt",
                "aclnnMuls",
                "aclnnSub",
                "aclnnRelu",
            ],
            false => &[],
        };
        let offset: &[_] = if self.offset { &["aclnnAdds"] } else { &[] };
        let factor: &[_] = if self.factor {
            &["aclnnMuls", "aclnnMuls"]
        } else {
            &[]
        };
        [clamp, top_k, offset, factor]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Returns the operators of [`Stepped::gradients`].
    pub(super) fn backward_operators(self) -> impl Iterator<Item = &'static str> {
        const CLEARED: &str = "aclnnInplaceMaskedFillScalar";
        let factor: &[_] = if self.factor {
            &["aclnnMuls", "aclnnMuls"]
        } else {
            &[]
        };
        let top_k: &[_] = match self.top_k {
            true => &[
                "aclnnLeScalar",
                CLEARED,
                "aclnnReduceSum",
                "aclnnEqScalar",
                CLEARED,
                "aclnnMuls",
                "aclnnDiv",
                "aclnnMul",
                "aclnnAdd",
                "aclnnMuls",
                "aclnnSub",
            ],
            false => &[],
        };
        let clamp: &[_] = match self.clamp {
            true => &[
                "aclnnGeScalar",
                CLEARED,
                "aclnnAbs",
                "aclnnGeScalar",
                CLEARED,
            ],
            false => &[],
        };
        [factor, top_k, clamp].into_iter().flatten().copied()
    }
}

/// Gate and up after the steps, in f32.
pub(super) struct Stepped {
    pub(super) gate: Tensor,
    pub(super) up: Tensor,
    /// The operands in f32, for the gradients of a clamp.
    before: [Tensor; 2],
    limit: Option<f64>,
    row: Option<Row>,
    steps: Steps,
}

/// The Gaussian top-k's statistics of each row.
struct Row {
    multiplier: f64,
    /// The gate less its mean.
    centred: Tensor,
    deviation: Tensor,
    /// The gate less its threshold.
    excess: Tensor,
}

impl Stepped {
    pub(super) fn new(
        stream: &Stream,
        [gate, up]: [&Tensor; 2],
        settings: Settings,
        steps: Steps,
    ) -> Result<Self> {
        let wide = |tensor: &Tensor| base::cast(stream, tensor, DType::F32);
        let before = [wide(gate)?, wide(up)?];
        let [mut kept, mut raised] = before.clone();
        if let Some(limit) = settings.limit {
            kept = elementwise::clamp_max(stream, &kept, limit)?;
            raised = elementwise::clamp(stream, &raised, -limit, limit)?;
        }
        let dtype = burn_dtype(gate.dtype());
        let multiplier = settings
            .sparsity
            .and_then(|sparsity| sparsity::multiplier(sparsity, dtype));
        let row = multiplier
            .map(|multiplier| Row::new(stream, &kept, multiplier))
            .transpose()?;
        if let Some(row) = &row {
            kept = unary::relu(stream, &row.excess)?;
        }
        if steps.offset {
            raised = base::add_number(stream, &raised, 1.0)?;
        }
        if steps.factor {
            kept = base::mul_number(stream, &kept, FACTOR)?;
            raised = base::mul_number(stream, &raised, 1.0 / FACTOR)?;
        }
        Ok(Self {
            gate: kept,
            up: raised,
            before,
            limit: settings.limit,
            row,
            steps,
        })
    }

    /// Returns the gradients of gate and up before the steps, in f32, from those after the steps, which are overwritten.
    pub(super) fn gradients(self, stream: &Stream, after: [Tensor; 2]) -> Result<[Tensor; 2]> {
        let [mut d_gate, mut d_up] = after;
        if self.steps.factor {
            d_gate = base::mul_number(stream, &d_gate, FACTOR)?;
            d_up = base::mul_number(stream, &d_up, 1.0 / FACTOR)?;
        }
        if let Some(row) = self.row {
            d_gate = row.gradient(stream, &d_gate)?;
        }
        if let Some(limit) = self.limit {
            let [gate, up] = &self.before;
            base::masked_fill(stream, &d_gate, &base::at_least(stream, gate, limit)?, 0.0)?;
            let size = unary::abs(stream, up)?;
            base::masked_fill(stream, &d_up, &base::at_least(stream, &size, limit)?, 0.0)?;
        }
        Ok([d_gate, d_up])
    }
}

impl Row {
    fn new(stream: &Stream, gate: &Tensor, multiplier: f64) -> Result<Self> {
        let axis = gate.shape().len() - 1;
        let mean = |of: &Tensor| reduce::mean(stream, of, &[axis], true);
        let centred = base::sub(stream, gate, &mean(gate)?)?;
        let variance = mean(&base::mul(stream, &centred, &centred)?)?;
        let deviation = unary::sqrt(stream, &variance)?;
        let threshold = elementwise::mul_scalar(stream, &deviation, multiplier)?;
        let excess = base::sub(stream, &centred, &threshold)?;
        Ok(Self {
            multiplier,
            centred,
            deviation,
            excess,
        })
    }

    /// Returns `[gate > c] · d − (S + S · m · (gate − μ) / σ) / n`, where `S` is the sum of the first term over the row.
    /// Overwrites `d`.
    fn gradient(self, stream: &Stream, d: &Tensor) -> Result<Tensor> {
        let axis = d.shape().len() - 1;
        let hidden = compare::lower_equal_scalar(stream, &self.excess, 0.0)?;
        base::masked_fill(stream, d, &hidden, 0.0)?;
        let sum = base::sum(stream, d, &[axis], true)?;
        // Where all gates are equal, their distance from the mean is zero and the divisor does not matter.
        let divisor = &self.deviation;
        let zero = compare::equal_scalar(stream, divisor, 0.0)?;
        base::masked_fill(stream, divisor, &zero, 1.0)?;
        let slope = elementwise::mul_scalar(stream, &sum, self.multiplier)?;
        let slope = base::div(stream, &slope, divisor)?;
        let rest = base::add(stream, &base::mul(stream, &self.centred, &slope)?, &sum)?;
        let rest = elementwise::mul_scalar(stream, &rest, 1.0 / d.shape()[axis] as f64)?;
        base::sub(stream, d, &rest)
    }
}
