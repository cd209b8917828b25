//! The experts of a mixture over CANN's operators.
//!
//! Forward: `aclnnMoeTokenPermute`, a grouped product with gate and up, the [gated unit](crate::ops::glu::npu), a
//! grouped product with down, `aclnnMoeTokenUnpermute` with the routing weights. The number of rows of each expert is
//! counted on the device and stays there, so nothing waits for the host.
//!
//! | case | computation | why |
//! |---|---|---|
//! | gate and up in one weight | one grouped product | |
//! | gate and up in two weights | two; packed by `aclnnCat` if a gradient is wanted | backward needs both, and packed |
//! | index `E` | sorts after all experts, so its rows come after the last group; results that are added by token (of down, and of the gradient of the rows) are cleared before the product | CANN leaves rows after the last group unwritten, and only the device knows whether there are any. A mask would read and write as much as clearing |
//! | `dp` | `a · q` summed over each row, `q = W_downᵀ dy` | `aclnnMoeTokenUnpermuteGrad` would need the rows of down again, which costs a product |
//! | `dW_down` | `p` multiplies `a`, not `dy` | `dp` needs `a` too, and in most models the rows of `a` are narrower |
//! | routing weights in f32 beside half types | rounded to the half type | CANN's have the type of the rows |
//! | biases | added by the grouped products; `dp` has another grouped product, of `dy` and the bias of down, and is summed in f32 | CANN adds them in f32. The two parts of `dp` may cancel: with terms rounded to f16, `dp` was further off than the key allows |
//! | gradients of biases | grouped products with ones, and with `p` for that of down | CANN has no sum by expert |
//! | a clamp, an offset of up | as the gated unit, in f32 | |
//! | an activation that the gated unit refuses | refused | |
//! | lists of experts, one tensor of rows for each (`groupType` −1) | not used here, but by [grouped products](crate::ops::moe::grouped_matmul::fused_of_rows) of rows that the host has counted | the router's choice is on the device: the host would have to wait for the number of rows of each expert. Lists share the rows and the counts of stacked weights |
//! | lists of more than 128 experts | a grouped product for every 128 of them, see [`grouped_matmul_of_list`] | CANN's limit on lists |
//! | more than 1024 experts, more than 512 choices | refused | CANN's limits |
//!
//! An index below 0 or above `E` is counted on the device and taken for nobody's; the next read of the session is an
//! error (`npu/mistakes`).
//!
//! [`grouped_matmul_of_list`]: burn_cann::ops::grouped_matmul::grouped_matmul_of_list

mod kernel;
mod plan;

pub(crate) use kernel::IMPLEMENTATION;
pub use plan::{Plan, decide};
pub(crate) use plan::{operators, unit_of_key};

use super::super::grouped_matmul::npu::{Over, Parts, Weights};
use super::super::permute::npu::{by_row, by_slot, counts};
use super::operands::{BIASES, DOWN, GATE, UP};
use super::{Each, Experts, Operands};
use crate::npu::mistakes::{Counts, without_mistakes};
use crate::npu::views::contiguous;
use crate::npu::{OnNpu, Refused, Result, Seen, base};
use crate::ops::fused::{Backward, Made};
use crate::ops::glu::{self, Projected};
use crate::semantics::{ExpertBias, GluKey, Projections};
use burn_cann::ops::grouped_matmul::Groups;
use burn_cann::ops::moe::{permute, permute_grad, unpermute};
use burn_cann::{DType, Stream, Tensor};
use plan::unit;

/// Tokens in the order of their experts.
struct Sorted {
    /// The rows, `[R, H]`.
    rows: Tensor,
    /// The row of each slot, `[T · k]`. Slots without an expert have the last rows.
    row_of_slot: Tensor,
    /// The number of rows of each expert, in i64.
    counts: Tensor,
}

/// A pass over the experts, forward or backward.
struct Pass<'a> {
    stream: &'a Stream,
    operands: &'a Operands<Seen<Tensor>, Seen<Tensor>>,
    /// The operands' indices, with nobody's in place of those outside `0..=E`.
    indices: Tensor,
    plan: Plan,
}

impl OnNpu for Experts {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
        wanted: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let (y, kept) = forward(stream, operands, wanted.is_some())?;
        Ok(Made::new(y).saving(kept))
    }

    fn backward(
        stream: &Stream,
        given: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        backward(stream, given)
    }
}

/// Returns the result, with the shape and dtype of `x`. If `keep`, also returns gate and up of every slot in the order
/// of the experts, `[T · k, 2I]`, which [`backward`] needs. Rows of slots without an expert are zeros in it, because a
/// client of a server can read them.
fn forward(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    keep: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let pass = Pass::new(stream, operands, Counts::Mistakes)?;
    let (x, indices) = (operands.x(), &pass.indices);
    if indices.spec().is_empty() || x.spec().is_empty() {
        let kept = [indices.spec().len(), 2 * pass.plan.width];
        let kept = keep
            .then(|| base::filled(stream, x.dtype(), &kept, 0.0))
            .transpose()?;
        return Ok((base::filled(stream, x.dtype(), x.shape(), 0.0)?, kept));
    }
    let Sorted {
        rows,
        row_of_slot,
        counts,
    } = pass.sort(x)?;
    let groups = (&counts, Groups::Counts);
    let (unit, kept) = pass.unit(&rows, groups, keep)?;
    drop(rows);
    let rows = pass
        .weights(DOWN)
        .cleared_product(stream, &unit, groups, Over::Inputs)?;
    let probs = base::cast(stream, operands.routing(), x.dtype())?;
    Ok((unpermute(stream, &rows, &row_of_slot, Some(&probs))?, kept))
}

fn backward(
    stream: &Stream,
    backward: &Backward<Experts, Seen<Tensor>>,
) -> Result<Each<Option<Tensor>>> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let pass = Pass::new(stream, operands, Counts::Nothing)?;
    let (x, indices) = (operands.x(), &pass.indices);
    let kept = || Projected::Packed(Tensor::clone(&backward.saved::<1>()[0]));
    if indices.spec().is_empty() || x.spec().is_empty() {
        return pass.nothing(wanted);
    }
    let Sorted {
        rows: dy,
        row_of_slot,
        counts,
    } = pass.sort(backward.dy())?;
    let groups = (&counts, Groups::Counts);
    let q = pass
        .weights(DOWN)
        .product(stream, &dy, groups, Over::Features)?;
    let p = by_row(
        stream,
        &base::cast(stream, operands.routing(), x.dtype())?,
        &row_of_slot,
    )?;
    let mut gradients = Each {
        x: None,
        routing: None,
        weights: wanted
            .weights
            .iter()
            .map(|group| vec![None; group.len()])
            .collect(),
    };
    let of_group = |group: usize| wanted.weights[group].contains(&true);
    if wanted.routing || of_group(DOWN) {
        let packed = unit(kept(), pass.plan.unit, operands.settings())?;
        let a = glu::npu::forward(stream, &packed)?;
        if wanted.routing {
            let of_bias = match pass.is_biased() {
                true => Some(pass.weights(DOWN).times_bias(stream, &dy, groups)?),
                false => None,
            };
            let of_bias = of_bias.as_ref();
            gradients.routing = Some(pass.routing_gradient(&a, &q, of_bias, &row_of_slot)?);
        }
        if of_group(DOWN) {
            let weighed = base::mul(stream, &a, &p)?;
            let wanted = &wanted.weights[DOWN];
            let found = pass
                .weights(DOWN)
                .gradients(stream, &weighed, &dy, groups, wanted)?;
            gradients.weights[DOWN] = found;
        }
    }
    let wanted_bias = &wanted.weights[BIASES + DOWN];
    gradients.weights[BIASES + DOWN] =
        pass.weights(DOWN)
            .bias_gradients(stream, Some(&p), &dy, groups, wanted_bias)?;
    let of_inputs = [GATE, UP, BIASES + GATE, BIASES + UP];
    if !(wanted.x || of_inputs.into_iter().any(of_group)) {
        return Ok(gradients);
    }
    let d_unit = base::mul(stream, &q, &p)?;
    drop((q, dy));
    let packed = unit(kept(), pass.plan.unit, operands.settings())?;
    let packed = packed.backward(Seen(d_unit)).map_err(Refused::from)?;
    let Projected::Packed(d_kept) = glu::npu::backward(stream, &packed)? else {
        unreachable!("gradients are laid out as the tensors")
    };
    drop(packed);
    let parts = pass.by_projection(&d_kept)?;
    for (group, part) in &parts {
        let wanted = &wanted.weights[BIASES + group];
        gradients.weights[BIASES + group] = pass
            .weights(*group)
            .bias_gradients(stream, None, part, groups, wanted)?;
    }
    if of_group(GATE) || of_group(UP) {
        let rows = permute(stream, x, indices, None)?.tokens;
        for (group, part) in &parts {
            let wanted = &wanted.weights[*group];
            let found = pass
                .weights(*group)
                .gradients(stream, &rows, part, groups, wanted)?;
            gradients.weights[*group] = found;
        }
    }
    if wanted.x {
        gradients.x = Some(pass.x_gradient(&parts, &row_of_slot, groups)?);
    }
    Ok(gradients)
}

impl<'a> Pass<'a> {
    fn new(
        stream: &'a Stream,
        operands: &'a Operands<Seen<Tensor>, Seen<Tensor>>,
        counts: Counts,
    ) -> Result<Self> {
        let plan = decide(stream.device().platform(), operands)?;
        let indices = operands.indices();
        let indices = match indices.spec().is_empty() {
            true => Tensor::clone(indices),
            false => without_mistakes(stream, indices, plan.experts, counts)?,
        };
        Ok(Self {
            stream,
            operands,
            indices,
            plan,
        })
    }

    fn weights(&self, group: usize) -> Weights<'a> {
        let (all, layout) = (self.operands.weights(), self.operands.settings().key.layout);
        Weights::new(&all[group], layout).biased(&all[BIASES + group])
    }

    /// Returns `true` if the projections have biases.
    fn is_biased(&self) -> bool {
        self.operands.settings().key.bias == ExpertBias::All
    }

    fn sort(&self, tokens: &Tensor) -> Result<Sorted> {
        let indices = &self.indices;
        let permuted = permute(self.stream, tokens, indices, None)?;
        Ok(Sorted {
            rows: permuted.tokens,
            row_of_slot: permuted.row_of_slot,
            counts: counts(self.stream, indices, self.plan.experts)?,
        })
    }

    /// Returns the gated unit of the rows, and gate and up if they are kept.
    fn unit(
        &self,
        rows: &Tensor,
        groups: Parts<'_>,
        keep: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let Self { stream, plan, .. } = self;
        let settings = self.operands.settings();
        // A kept tensor leaves the operation, so it must hold only bytes that the operation wrote.
        let product = |group: usize| match keep {
            true => self
                .weights(group)
                .cleared_product(stream, rows, groups, Over::Inputs),
            false => self
                .weights(group)
                .product(stream, rows, groups, Over::Inputs),
        };
        let gate = product(GATE)?;
        let packed = if plan.separate {
            let up = product(UP)?;
            if !keep {
                let key = GluKey {
                    projections: Projections::Separate,
                    ..plan.unit
                };
                let operands = unit(Projected::Separate { gate, up }, key, settings)?;
                return Ok((glu::npu::forward(stream, &operands)?, None));
            }
            base::cat(stream, &[&gate, &up], 1)?
        } else {
            gate
        };
        let operands = unit(Projected::Packed(packed.clone()), plan.unit, settings)?;
        let unit = glu::npu::forward(stream, &operands)?;
        Ok((unit, keep.then_some(packed)))
    }

    /// Returns `Σ a · q` for each slot, zero for slots without an expert, whose rows are undefined.
    /// `of_bias` is the term of the bias of down in each row. It may cancel the rest, so the sum with it is in f32.
    fn routing_gradient(
        &self,
        a: &Tensor,
        q: &Tensor,
        of_bias: Option<&Tensor>,
        row_of_slot: &Tensor,
    ) -> Result<Tensor> {
        let Self {
            stream,
            operands,
            indices,
            plan,
        } = self;
        let routing = operands.routing();
        let sum = |a: &Tensor, q: &Tensor| {
            let products = base::mul(stream, a, q)?;
            base::sum(stream, &products, &[1], true)
        };
        let sums = match of_bias {
            None => sum(a, q)?,
            Some(of_bias) => {
                let wide = |tensor: &Tensor| base::cast(stream, tensor, DType::F32);
                base::add(stream, &sum(&wide(a)?, &wide(q)?)?, &wide(of_bias)?)?
            }
        };
        let sums = by_slot(stream, &sums, row_of_slot)?.reshape(routing.shape())?;
        let nobody = base::at_least(stream, indices, plan.experts as f64)?;
        base::masked_fill(stream, &sums, &nobody, 0.0)?;
        base::cast(stream, &sums, routing.dtype())
    }

    /// Splits the gradient of gate and up by the weights that they come from.
    fn by_projection(&self, packed: &Tensor) -> Result<Vec<(usize, Tensor)>> {
        if !self.plan.separate {
            return Ok(vec![(GATE, packed.clone())]);
        }
        let n = self.plan.width;
        let half = |at: usize| contiguous(self.stream, &packed.slice(1, at..at + n)?);
        Ok(vec![(GATE, half(0)?), (UP, half(n)?)])
    }

    /// Returns the gradient of `x`: for each token, the sum over its slots of the gradients of the rows.
    fn x_gradient(
        &self,
        parts: &[(usize, Tensor)],
        row_of_slot: &Tensor,
        groups: Parts<'_>,
    ) -> Result<Tensor> {
        let stream = self.stream;
        let mut rows: Option<Tensor> = None;
        for (group, part) in parts {
            let weights = self.weights(*group);
            let one = weights.cleared_product(stream, part, groups, Over::Features)?;
            rows = Some(match rows {
                None => one,
                Some(before) => base::add(stream, &before, &one)?,
            });
        }
        let rows = rows.expect("there is at least one projection");
        Ok(permute_grad(
            stream,
            &rows,
            row_of_slot,
            self.operands.indices().shape()[1],
        )?)
    }

    /// Returns the gradients for no slots.
    fn nothing(&self, wanted: &Each<bool>) -> Result<Each<Option<Tensor>>> {
        let Self {
            stream, operands, ..
        } = self;
        let zeros = |tensor: &Tensor, wanted: bool| {
            wanted
                .then(|| base::filled(stream, tensor.dtype(), tensor.shape(), 0.0))
                .transpose()
        };
        let groups = operands.weights().iter().zip(&wanted.weights);
        let of_group = |(group, wanted): (&Vec<Seen<Tensor>>, &Vec<bool>)| {
            let pairs = group.iter().zip(wanted);
            pairs
                .map(|(tensor, wanted)| zeros(tensor, *wanted))
                .collect::<Result<_>>()
        };
        Ok(Each {
            x: zeros(operands.x(), wanted.x)?,
            routing: zeros(operands.routing(), wanted.routing)?,
            weights: groups.map(of_group).collect::<Result<_>>()?,
        })
    }
}
