//! RMSNorm over CANN's operators.
//!
//! `N` is `aclnnRmsNorm`, `G` is `aclnnRmsNormGrad`. The numbers count reads and writes of a tensor of the size of `x`.
//!
//! | key | forward | backward | why |
//! |---|---|---|---|
//! | weight, offset 0, one group | `N` | `G` | computes exactly this |
//! | offset 1 | `1 + w` in f32, `N` | the same, `G` | the mixed form, x in a half type and gamma in f32, keeps small weights, forward and backward; `aclnnGemmaRmsNorm` would save two launches over `[n]` elements, but only forward |
//! | no weight | ones, `N` | ones, `G` | CANN requires gamma |
//! | groups | ones, `N` over groups, times the gain | times the gain, `G`, sum of `dy · x̂` | gamma has one element for each element of a group, the weight one for each element of all groups: 4 reads and writes in place of 2. Half types are computed in f32 between casts, as the products with the gain, forward and backward, would round again |
//! | gate after the norm | `N`, `aclnnSilu`, product: 7 | 16 | packing both for `aclnnSwiGlu` moves as much. Half types are computed in f32 between casts, because the key's product with the gate is in f32 |
//! | gate before the norm | `aclnnSilu`, product, `N`: 7 | 17 | as above, and `rstd` enlarges errors of the norm's input |
//! | a bias | `N`, `aclnnAdd` | `G`, `aclnnReduceSum` of `dy` in f32 | 4 reads and writes in place of 2. Half types are computed in f32 between casts if the rounding is `gemma`, which rounds behind the bias |
//! | rounding `llama` | as `gemma` | as `gemma` | `N` rounds once where Llama rounds twice, so it is nearer to the exact result; `aclnnAddRmsNorm` rounds as Llama does, but reads and writes a sum that nobody needs |
//! | f64, different types | refused | | CANN computes in f32 |
//!
//! The gradient of the weight is summed in f32. On Ascend 910B and 910C, the order of the sum is not fixed unless the
//! device is configured otherwise.

mod kernel;

pub(crate) use kernel::{IMPLEMENTATION, width};

use super::{Each, Operands, RmsNorm};
use crate::npu::refused::one_float;
use crate::npu::views::{as_rows, contiguous, in_shape_of, one_per_row, rows};
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::ops::linear::npu::column_sums;
use crate::semantics::{Gating, Groups, Offset, RmsNormKey, Rounding, Scale, Shift};
use burn_cann::ops::rms_norm::{check, check_grad, rms_norm, rms_norm_grad};
use burn_cann::{DType, Layout, Platform, Spec, Stream, Tensor};

/// The gamma that is passed to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gamma {
    /// The weight as it is.
    Weight,
    /// `1 + w`, in f32.
    OnePlusWeight,
    /// Ones, in f32.
    Ones,
}

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operator's gamma.
    pub gamma: Gamma,
    /// The number of elements that are normalised together.
    pub width: usize,
    /// The offset of the weight that multiplies after the operator, if there are groups: each has its own part of it.
    pub gain: Option<Offset>,
    /// The place of the gate.
    pub gating: Gating,
    /// True if a bias is added.
    pub shifted: bool,
    /// True if the call is computed in f32, between casts.
    pub widened: bool,
}

/// Returns the operators that compute a call of these operands.
///
/// # Errors
/// Returns the reason if no operators compute it.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    let x = operands.x().spec();
    let named = [
        ("weight", operands.weight()),
        ("gate", operands.gate()),
        ("bias", operands.bias()),
    ];
    let others = named
        .into_iter()
        .filter_map(|(name, tensor)| Some((name, tensor?.spec())));
    let dtype = one_float(("x", x), others)?;
    let settings = operands.settings();
    let n = x.shape().last().copied().unwrap_or(1);
    let width = settings.group_size.unwrap_or(n);
    let plan = Plan::new(width, dtype, operands.key());
    plan.check(platform, x, settings.eps)?;
    Ok(plan)
}

impl Plan {
    fn new(width: usize, dtype: DType, key: RmsNormKey) -> Self {
        let grouped = key.groups == Groups::Many;
        let weighted = key.scale == Scale::Weight;
        Self {
            gamma: match key.offset {
                _ if grouped || !weighted => Gamma::Ones,
                Offset::Zero => Gamma::Weight,
                Offset::One => Gamma::OnePlusWeight,
            },
            width,
            gain: (grouped && weighted).then_some(key.offset),
            gating: key.gating,
            shifted: key.shift == Shift::Bias,
            widened: dtype != DType::F32 && rounds_late(key),
        }
    }

    /// Returns the operators of the forward pass, for contiguous operands in a half type. In f32, no casts are needed.
    pub fn forward(&self) -> Vec<&'static str> {
        let mut operators = self.norm();
        match self.gating {
            Gating::None => {}
            Gating::AfterNorm => operators.extend(["aclnnSilu", "aclnnMul"]),
            Gating::BeforeNorm => {
                operators.splice(0..0, ["aclnnSilu", "aclnnMul"]);
            }
        }
        if self.widened {
            operators.retain(|operator| *operator != "aclnnCast");
            let weighted = self.gamma != Gamma::Ones || self.gain.is_some();
            let casts = 1 + usize::from(weighted) + usize::from(self.gating != Gating::None);
            operators.splice(0..0, vec!["aclnnCast"; casts]);
        }
        if self.shifted {
            operators.extend(self.widened.then_some("aclnnCast"));
            operators.push("aclnnAdd");
        }
        operators.extend(self.widened.then_some("aclnnCast"));
        operators
    }

    fn norm(&self) -> Vec<&'static str> {
        let mut operators = self.gamma.operators();
        operators.push("aclnnRmsNorm");
        operators.extend(gain_operators(self.gain));
        operators
    }

    /// Checks CANN's limits, forward and backward.
    fn check(&self, platform: &Platform, x: &Spec, eps: f64) -> Result<(), Refused> {
        // Groups of strided rows are copied first.
        let layout = match x.shape().last() == Some(&self.width) {
            true => as_rows(x)?,
            false => Layout::contiguous([x.len() / self.width.max(1), self.width])?,
        };
        let (x, layout) = match self.widened {
            // The cast makes the tensor contiguous.
            true => (DType::F32, Layout::contiguous(layout.shape())?),
            false => (x.dtype, layout),
        };
        let x = Spec { dtype: x, layout };
        if self.width == 0 {
            // An empty call runs no operator, but the device must have it: a row of one element is checked instead.
            let one = Spec::contiguous(x.dtype, [1, 1])?;
            check(platform, &one, &Spec::contiguous(x.dtype, [1])?, eps)?;
            return Ok(());
        }
        let gamma = Spec::contiguous(self.gamma.dtype(x.dtype), [self.width])?;
        let outputs = check(platform, &x, &gamma, eps)?;
        if !x.is_empty() {
            check_grad(platform, &outputs.y, &x, &outputs.rstd, &gamma)?;
        }
        Ok(())
    }
}

/// Returns whether several operators would round where the key does not.
fn rounds_late(key: RmsNormKey) -> bool {
    let weighted_groups = key.groups == Groups::Many && key.scale == Scale::Weight;
    let bias_first = key.shift == Shift::Bias && key.rounding == Rounding::Gemma;
    key.gating != Gating::None || weighted_groups || bias_first
}

/// Returns the operators over tensors as large as `x` that compute a key.
pub(crate) fn operators(key: RmsNormKey, dtype: DType) -> Vec<&'static str> {
    let plan = Plan::new(1, dtype, key);
    // Gamma and the weight are vectors. In f32, no casts are needed.
    let mut vectors = match plan.widened {
        true => usize::from(key.scale == Scale::Weight) + usize::from(plan.shifted),
        false => usize::MAX,
    };
    let mut operators = plan.forward();
    operators.retain(|operator| match *operator {
        "aclnnAdds" | "aclnnInplaceFillScalar" => false,
        "aclnnCast" if vectors > 0 => {
            vectors -= 1;
            false
        }
        _ => true,
    });
    operators
}

impl Gamma {
    fn dtype(self, dtype: DType) -> DType {
        match self {
            Self::Weight => dtype,
            Self::OnePlusWeight | Self::Ones => DType::F32,
        }
    }

    fn operators(self) -> Vec<&'static str> {
        match self {
            Self::Weight => vec![],
            Self::OnePlusWeight => vec!["aclnnCast", "aclnnAdds"],
            Self::Ones => vec!["aclnnInplaceFillScalar"],
        }
    }
}

fn gain_operators(gain: Option<Offset>) -> Vec<&'static str> {
    match gain {
        None => vec![],
        Some(Offset::Zero) => vec!["aclnnMul"],
        Some(Offset::One) => vec!["aclnnMul", "aclnnAdd"],
    }
}

impl OnNpu for RmsNorm {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let norm = Norm::new(stream, operands)?;
        let Norm { x, gate, .. } = &norm;
        let (y, rstd) = match gate {
            Some(gate) if norm.plan.gating == Gating::BeforeNorm => {
                norm.of(&base::mul(stream, x, &base::silu(stream, gate)?)?)?
            }
            Some(gate) => {
                let (y, rstd) = norm.of(x)?;
                (base::mul(stream, &y, &base::silu(stream, gate)?)?, rstd)
            }
            None => norm.of(x)?,
        };
        let y = match operands.bias() {
            Some(bias) if !y.spec().is_empty() => {
                base::add(stream, &y, &base::cast(stream, bias, y.dtype())?)?
            }
            _ => y,
        };
        let rstd = match x.spec().is_empty() {
            true => base::filled(stream, DType::F32, operands.rstd().0.as_slice(), 0.0)?,
            false => rstd,
        };
        Ok(Made::new(base::cast(stream, &y, operands.x().dtype())?).saving([rstd]))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let (operands, [rstd]) = (backward.operands(), backward.saved());
        let norm = Norm::new(stream, operands)?;
        let dy = base::cast(stream, backward.dy(), norm.x.dtype())?;
        let found = norm.backward(&dy, rstd, backward.wanted().weight)?;
        let dtype = operands.x().dtype();
        let cast = |tensor: Option<Tensor>| {
            let tensor = tensor.as_ref();
            tensor
                .map(|tensor| base::cast(stream, tensor, dtype))
                .transpose()
        };
        let d_bias = backward.wanted().bias.then(|| {
            let [.., n] = *dy.shape() else {
                unreachable!("x has an axis, as was checked")
            };
            let dy = contiguous(stream, &dy)?.reshape([rows(dy.spec()), n])?;
            column_sums(stream, &dy)
        });
        Ok(Each {
            x: cast(found.x)?,
            weight: cast(found.weight)?,
            gate: cast(found.gate)?,
            bias: cast(d_bias.transpose()?)?,
        })
    }
}

/// A call, forward or backward, with its tensors in the type that it is computed in.
struct Norm<'a> {
    stream: &'a Stream,
    plan: Plan,
    x: Tensor,
    weight: Option<Tensor>,
    gate: Option<Tensor>,
    eps: f64,
}

impl<'a> Norm<'a> {
    fn new(stream: &'a Stream, operands: &Operands<Seen<Tensor>>) -> Result<Self> {
        let plan = decide(stream.device().platform(), operands)?;
        let x = operands.x();
        let dtype = if plan.widened { DType::F32 } else { x.dtype() };
        let cast = |tensor: &Seen<Tensor>| base::cast(stream, tensor, dtype);
        Ok(Self {
            stream,
            plan,
            x: cast(x)?,
            weight: operands.weight().map(cast).transpose()?,
            gate: operands.gate().map(cast).transpose()?,
            eps: operands.settings().eps,
        })
    }

    /// Returns the gradients of `x`, of the gate and, if it is wanted, of the weight.
    fn backward(&self, dy: &Tensor, rstd: &Tensor, wanted: bool) -> Result<Each<Option<Tensor>>> {
        let Self {
            stream,
            plan,
            x,
            gate,
            ..
        } = self;
        let product = |a: &Tensor, b: &Tensor| base::mul(stream, a, b);
        let Some(gate) = gate else {
            let (x, weight) = self.gradients(dy, x, rstd, wanted)?;
            return Ok(Each {
                x: Some(x),
                weight,
                ..Each::default()
            });
        };
        let silu = base::silu(stream, gate)?;
        let (x, weight, d_silu) = if plan.gating == Gating::BeforeNorm {
            let (d_gated, weight) = self.gradients(dy, &product(x, &silu)?, rstd, wanted)?;
            let d_silu = product(&d_gated, x)?;
            (product(&d_gated, &silu)?, weight, d_silu)
        } else {
            let (d_x, weight) = self.gradients(&product(dy, &silu)?, x, rstd, wanted)?;
            let (y, _) = self.of(x)?;
            (d_x, weight, product(dy, &y)?)
        };
        Ok(Each {
            x: Some(x),
            weight,
            gate: Some(base::silu_backward(stream, &d_silu, gate)?),
            bias: None,
        })
    }

    /// Returns `x` normalised and scaled, but not gated, and `rstd`.
    fn of(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let (y, rstd) = self.normalised(x)?;
        Ok((self.times_gain(&y)?, rstd))
    }

    /// Returns the result of the operator alone in the shape of `x`, and `rstd`.
    fn normalised(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        if x.spec().is_empty() {
            let y = Tensor::empty(self.stream, x.dtype(), x.shape())?;
            return Ok((y, Tensor::empty(self.stream, DType::F32, [0, 1])?));
        }
        let found = rms_norm(self.stream, &self.rows(x)?, &self.gamma()?, self.eps)?;
        Ok((found.y.reshape(x.shape())?, found.rstd))
    }

    /// Returns the gradients of `x` and, if it is wanted, of the weight.
    fn gradients(
        &self,
        dy: &Tensor,
        x: &Tensor,
        rstd: &Tensor,
        wanted: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let weight = self.weight.as_ref().filter(|_| wanted);
        if x.spec().is_empty() {
            let zero =
                |weight: &Tensor| base::filled(self.stream, weight.dtype(), weight.shape(), 0.0);
            let d_x = Tensor::empty(self.stream, x.dtype(), x.shape())?;
            return Ok((d_x, weight.map(zero).transpose()?));
        }
        let d_normalised = self.rows(&self.times_gain(dy)?)?;
        let x_rows = self.rows(x)?;
        let rstd = one_per_row(&x_rows, rstd)?;
        let found = rms_norm_grad(
            self.stream,
            &in_shape_of(self.stream, &d_normalised, &x_rows)?,
            &x_rows,
            &rstd,
            &self.gamma()?,
        )?;
        let d_weight = match weight {
            None => None,
            Some(weight) if self.plan.gain.is_some() => Some(self.weight_by_groups(dy, x, weight)?),
            Some(weight) => Some(base::cast(self.stream, &found.dgamma, weight.dtype())?),
        };
        Ok((found.dx.reshape(x.shape())?, d_weight))
    }

    /// Computes `Σ dy · x̂` over the rows. The operator's own gradient of gamma is summed over the groups too.
    fn weight_by_groups(&self, dy: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let (normalised, _) = self.normalised(x)?;
        let terms = base::mul(self.stream, dy, &normalised)?;
        let terms = terms.reshape([rows(x.spec()), weight.spec().len()])?;
        let sum = base::sum(self.stream, &terms, &[0], false)?;
        base::cast(self.stream, &sum, weight.dtype())
    }

    /// Reshapes the tensor to rows of the elements that are normalised together.
    fn rows(&self, x: &Tensor) -> Result<Tensor> {
        let n = x.shape().last().copied().unwrap_or(1);
        if self.plan.width == n {
            return Ok(x.with_layout(as_rows(x.spec())?)?);
        }
        let width = self.plan.width;
        let x = contiguous(self.stream, x)?;
        Ok(x.reshape([x.spec().len() / width, width])?)
    }

    fn gamma(&self) -> Result<Tensor> {
        let Self { stream, plan, .. } = self;
        match (plan.gamma, &self.weight) {
            (Gamma::Weight, Some(weight)) => Ok(weight.clone()),
            (Gamma::OnePlusWeight, Some(weight)) => {
                base::add_number(stream, &base::cast(stream, weight, DType::F32)?, 1.0)
            }
            _ => base::filled(stream, DType::F32, &[plan.width], 1.0),
        }
    }

    /// Multiplies by the weight if the operator's gamma is not the weight.
    fn times_gain(&self, y: &Tensor) -> Result<Tensor> {
        match (self.plan.gain, &self.weight) {
            (Some(offset), Some(weight)) => {
                let scaled = base::mul(self.stream, y, weight)?;
                match offset {
                    Offset::Zero => Ok(scaled),
                    Offset::One => base::add(self.stream, y, &scaled),
                }
            }
            _ => Ok(y.clone()),
        }
    }
}
