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
//! | biases | refused | their gradients are sums by expert, for which CANN has no operator |
//! | a clamp, an offset of up, an activation that the gated unit refuses | refused | |
//! | lists of more than 128 experts, more than 1024 stacked, more than 512 choices | refused | CANN's limits |
//!
//! An index below 0 or above `E` is counted on the device and taken for nobody's; the next read of the session is an
//! error (`npu/mistakes`).

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::super::grouped_matmul::npu::{Over, Weights, limits, sizes};
use super::super::permute::Sort;
use super::super::permute::npu::{by_row, by_slot, counts, decide_sort};
use super::operands::{DOWN, GATE, UP};
use super::{Backward, Gradients, Operands, Wanted};
use crate::npu::mistakes::{Counts, without_mistakes};
use crate::npu::refused::one_float;
use crate::npu::views::contiguous;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::glu::{self, Projected};
use crate::ops::operands::array;
use crate::reason::Reason;
use crate::semantics::{Clamp, ExpertBias, GluKey, MoeExpertsKey, Projections};
use burn::tensor::IntDType;
use burn_cann::ops::grouped_matmul::check_grad;
use burn_cann::ops::moe::{
    check_permute, check_permute_grad, check_unpermute, permute, permute_grad, unpermute,
};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The arguments of the operators besides the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The gated unit of packed rows, which are all that the backward pass keeps.
    pub unit: GluKey,
    /// True if gate and up are two products.
    pub separate: bool,
    /// The number of experts.
    pub experts: usize,
    /// The width of an expert.
    pub width: usize,
}

/// Returns the key of the gated unit of packed rows, or an error if no operators compute experts of this key.
pub(crate) fn unit_of_key(key: MoeExpertsKey) -> Result<GluKey, Refused> {
    if key.bias == ExpertBias::All || key.clamp == Clamp::Limit {
        let why = format!("CANN has no operators with gradients for {key}");
        return Err(Refused::new(Reason::Semantics, why));
    }
    let mut unit = key.unit();
    if unit.projections == Projections::Separate {
        unit.projections = Projections::Chunked;
    }
    glu::npu::of_key(unit).map(|_| unit)
}

/// Returns the arguments with which the operators compute these operands.
///
/// # Errors
/// Returns the reason if no operators compute them.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>, Seen<T>>,
) -> Result<Plan, Refused> {
    let key = operands.settings().key;
    let unit = unit_of_key(key)?;
    let (x, routing) = (operands.x().spec(), operands.routing().spec());
    let weights = operands.weights().iter().flatten();
    let dtype = one_float(("x", x), weights.map(|weight| ("a weight", weight.spec())))?;
    if one_float(("routing", routing), [])? != dtype && routing.dtype != DType::F32 {
        let why = format!(
            "the routing weights are of type {}, x of {dtype}",
            routing.dtype
        );
        return Err(Refused::new(Reason::MixedDtypes, why));
    }
    let [experts, width, _] = sizes(&operands.weights()[DOWN], key.layout);
    let plan = Plan {
        unit,
        separate: key.projections == Projections::Separate,
        experts,
        width,
    };
    plan.check(platform, operands)?;
    Ok(plan)
}

impl Plan {
    /// Checks CANN's limits, forward and backward.
    fn check<T: Specified>(
        &self,
        platform: &Platform,
        operands: &Operands<Seen<T>, Seen<T>>,
    ) -> Result<(), Refused> {
        let (x, indices) = (operands.x().spec(), operands.indices().spec());
        let (dtype, hidden) = (x.dtype, x.shape()[1]);
        let layout = operands.settings().key.layout;
        let [tokens, k] = array(indices.shape().iter().copied());
        let rows = (tokens * k).max(1);
        let of = |shape: [usize; 2]| Spec::contiguous(dtype, shape);
        let packed = of([rows, 2 * self.width])?;
        glu::npu::decide(
            platform,
            &unit(Projected::Packed(packed.clone()), self.unit)?,
        )?;
        for group in operands.weights().iter().filter(|group| !group.is_empty()) {
            limits(platform, dtype, rows, group, layout, Over::Inputs)?;
            limits(platform, dtype, rows, group, layout, Over::Features)?;
        }
        let groups = Spec::contiguous(DType::I64, [self.experts])?;
        check_grad(platform, &of([rows, hidden])?, &packed, &groups)?;
        let slots = Seen(indices.clone());
        let slots = Sort::<Seen<Spec>, _>::new(slots, self.experts, tokens * k, IntDType::I64)?;
        decide_sort(platform, &slots)?;
        if tokens * k > 0 {
            let (permuted, map) = check_permute(platform, x, indices, None)?;
            check_permute_grad(platform, &permuted, &map, k)?;
            let probs = of([tokens, k])?;
            check_unpermute(platform, &permuted, &map, Some(&probs))?;
        }
        Ok(())
    }
}

/// Returns the operands of the gated unit.
fn unit<T: Specified>(
    projected: Projected<T>,
    key: GluKey,
) -> Result<glu::Operands<Seen<T>>, Refused> {
    let settings = glu::Settings::default();
    Ok(glu::Operands::new(projected.map(Seen), settings, key)?)
}

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

/// Returns the result, with the shape and dtype of `x`. If `keep`, also returns gate and up of every slot in the order
/// of the experts, `[T · k, 2I]`, which [`backward`] needs. Rows of slots without an expert are zeros in it, because a
/// client of a server can read them.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(
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
    let (unit, kept) = pass.unit(&rows, &counts, keep)?;
    drop(rows);
    let rows = pass
        .weights(DOWN)
        .cleared_product(stream, &unit, &counts, Over::Inputs)?;
    let probs = base::cast(stream, operands.routing(), x.dtype())?;
    Ok((unpermute(stream, &rows, &row_of_slot, Some(&probs))?, kept))
}

/// Returns the wanted gradients.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(
    stream: &Stream,
    backward: &Backward<Seen<Tensor>, Seen<Tensor>>,
) -> Result<Gradients<Tensor>> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let pass = Pass::new(stream, operands, Counts::Nothing)?;
    let (x, indices) = (operands.x(), &pass.indices);
    let kept = || Projected::Packed(Tensor::clone(backward.kept()));
    if indices.spec().is_empty() || x.spec().is_empty() {
        return pass.nothing(wanted);
    }
    let Sorted {
        rows: dy,
        row_of_slot,
        counts,
    } = pass.sort(backward.dy())?;
    let q = pass
        .weights(DOWN)
        .product(stream, &dy, &counts, Over::Features)?;
    let p = by_row(
        stream,
        &base::cast(stream, operands.routing(), x.dtype())?,
        &row_of_slot,
    )?;
    let mut gradients = Gradients {
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
        let packed = unit(kept(), pass.plan.unit)?;
        let a = glu::npu::forward(stream, &packed)?;
        if wanted.routing {
            gradients.routing = Some(pass.routing_gradient(&a, &q, &row_of_slot)?);
        }
        if of_group(DOWN) {
            let weighed = base::mul(stream, &a, &p)?;
            let wanted = &wanted.weights[DOWN];
            let found = pass
                .weights(DOWN)
                .gradients(stream, &weighed, &dy, &counts, wanted)?;
            gradients.weights[DOWN] = found;
        }
    }
    if !(wanted.x || of_group(GATE) || of_group(UP)) {
        return Ok(gradients);
    }
    let d_unit = base::mul(stream, &q, &p)?;
    drop((q, dy));
    let packed = unit(kept(), pass.plan.unit)?;
    let packed = packed.backward(Seen(d_unit)).map_err(Refused::from)?;
    let Projected::Packed(d_kept) = glu::npu::backward(stream, &packed)? else {
        unreachable!("gradients are laid out as the tensors")
    };
    drop(packed);
    let parts = pass.by_projection(&d_kept)?;
    if of_group(GATE) || of_group(UP) {
        let rows = permute(stream, x, indices, None)?.tokens;
        for (group, part) in &parts {
            let wanted = &wanted.weights[*group];
            let found = pass
                .weights(*group)
                .gradients(stream, &rows, part, &counts, wanted)?;
            gradients.weights[*group] = found;
        }
    }
    if wanted.x {
        gradients.x = Some(pass.x_gradient(&parts, &row_of_slot, &counts)?);
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
        let operands = self.operands;
        Weights::new(&operands.weights()[group], operands.settings().key.layout)
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
    fn unit(&self, rows: &Tensor, counts: &Tensor, keep: bool) -> Result<(Tensor, Option<Tensor>)> {
        let Self { stream, plan, .. } = self;
        // A kept tensor leaves the operation, so it must hold only bytes that the operation wrote.
        let product = |group: usize| match keep {
            true => self
                .weights(group)
                .cleared_product(stream, rows, counts, Over::Inputs),
            false => self
                .weights(group)
                .product(stream, rows, counts, Over::Inputs),
        };
        let gate = product(GATE)?;
        let packed = if plan.separate {
            let up = product(UP)?;
            if !keep {
                let key = GluKey {
                    projections: Projections::Separate,
                    ..plan.unit
                };
                let operands = unit(Projected::Separate { gate, up }, key)?;
                return Ok((glu::npu::forward(stream, &operands)?, None));
            }
            base::cat(stream, &[&gate, &up], 1)?
        } else {
            gate
        };
        let operands = unit(Projected::Packed(packed.clone()), plan.unit)?;
        let unit = glu::npu::forward(stream, &operands)?;
        Ok((unit, keep.then_some(packed)))
    }

    /// Returns `Σ a · q` for each slot, zero for slots without an expert, whose rows are undefined.
    fn routing_gradient(&self, a: &Tensor, q: &Tensor, row_of_slot: &Tensor) -> Result<Tensor> {
        let Self {
            stream,
            operands,
            indices,
            plan,
        } = self;
        let routing = operands.routing();
        let products = base::mul(stream, a, q)?;
        let sums = base::sum(stream, &products, &[1], true)?;
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
        counts: &Tensor,
    ) -> Result<Tensor> {
        let stream = self.stream;
        let mut rows: Option<Tensor> = None;
        for (group, part) in parts {
            let weights = self.weights(*group);
            let one = weights.cleared_product(stream, part, counts, Over::Features)?;
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
    fn nothing(&self, wanted: &Wanted) -> Result<Gradients<Tensor>> {
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
        Ok(Gradients {
            x: zeros(operands.x(), wanted.x)?,
            routing: zeros(operands.routing(), wanted.routing)?,
            weights: groups.map(of_group).collect::<Result<_>>()?,
        })
    }
}
