//! Grouped products over CANN's operators: `aclnnGroupedMatmulV5`, or V4 where the toolkit has no V5.
//!
//! | case | computation | why |
//! |---|---|---|
//! | forward | groups of rows (`groupType` 0), whose ends stay on the device: sums of the counts, none below 0 or beyond the rows | a caller may give any counts; the next read of the session is then an error (`npu/mistakes`) |
//! | `dx` | the same, summed over the weights' other axis | |
//! | `dW` | groups of the summed axis (`groupType` 2), `xᵀ dy` or `dyᵀ x` by the layout | an expert without rows gets zeros |
//! | biases, of [experts](crate::ops::moe::experts::npu) | the operator's own; bf16 are cast to f32 | CANN's rule |
//! | gradients of biases | groups of the summed axis, of ones or factors of two columns | CANN has no sum by group. A view of one column would look contiguous, and CANN tells by the strides that the view is exchanged |
//! | weights of the other layout | a view with exchanged axes | CANN reads the view without a copy |
//! | weights with other strides | refused | a copy would be as large as the weights: make them contiguous once |
//! | a list of weights | a list of tensors; the parts of a stacked `dW` are views | there is no copy |
//! | more than 128 of them | a product for every 128, from the last to the first: each also writes the rows before its own, which the next one writes again | CANN's limit on lists. Row numbers that only the device knows can't offset a view, and the product of two lists is half as much work again |
//! | a list of weights, and counts that the host knows | `groupType` −1: lists of rows and weights, for every 128 experts that have rows; `dW` as above | nothing is computed twice, and no count is read from the device. For `dW`, CANN takes no list of views with exchanged axes, so each expert's rows would be copied |
//! | rows beyond the sum of the counts | the result is cleared first | CANN leaves such rows unwritten |
//! | more than 1024 experts, an axis of 65,536 elements and more | refused | CANN's limits |
//!
//! Sums are computed in f32. CANN does not document whether f32 operands keep all their bits on a device.

mod kernel;

pub(crate) use kernel::takes;

use super::{Each, GroupedMatmul, Operands};
use crate::npu::mistakes::{Counts, Mistake, nearest};
use crate::npu::refused::one_float;
use crate::npu::views::contiguous;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::reason::Reason;
use crate::semantics::ExpertLayout;
use burn_cann::ops::grouped_matmul::{
    Groups, check, check_grad, check_list, grouped_matmul_each_into, grouped_matmul_grad,
    grouped_matmul_into, grouped_matmul_of_list,
};
use burn_cann::ops::reduce;
use burn_cann::{DType, Layout, Platform, Spec, Stream, Tensor};
use smallvec::SmallVec;

/// The rows of each expert.
pub(crate) type Parts<'a> = (&'a Tensor, Groups);

/// The axis of the weights that a product sums over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The inputs, for the product itself.
    Inputs,
    /// The features, for the gradient of the rows.
    Features,
}

/// The weights of one product of all experts: one stacked tensor, or one tensor for each expert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights<'a> {
    tensors: &'a [Seen<Tensor>],
    /// The biases of the features, one stacked tensor or one for each expert, or none.
    bias: &'a [Seen<Tensor>],
    layout: ExpertLayout,
}

/// Checks that CANN's operators compute a product of these operands.
///
/// # Errors
/// Returns the reason if they don't.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>, Seen<T>>,
) -> Result<(), Refused> {
    let (x, weights, layout) = (operands.x().spec(), operands.weights(), operands.layout());
    let named = weights.iter().map(|weight| ("weight", weight.spec()));
    let dtype = one_float(("x", x), named)?;
    integers("counts", operands.counts().spec())?;
    let [experts, inputs, features] = sizes(weights, layout);
    let rows = x.shape()[0].max(1);
    limits(platform, dtype, rows, weights, layout, Over::Inputs)?;
    limits(platform, dtype, rows, weights, layout, Over::Features)?;
    let groups = Spec::contiguous(DType::I64, [experts])?;
    let x = Spec::contiguous(dtype, [rows, inputs])?;
    let dy = Spec::contiguous(dtype, [rows, features])?;
    check_grad(platform, &x, &dy, &groups)?;
    check_grad(platform, &dy, &x, &groups)?;
    Ok(())
}

/// Checks that CANN takes integers of this type.
pub(crate) fn integers(name: &str, spec: &Spec) -> Result<(), Refused> {
    if [DType::I32, DType::I64].contains(&spec.dtype) {
        return Ok(());
    }
    let why = format!("{name} are of type {}; CANN takes i32 and i64", spec.dtype);
    Err(Refused::new(Reason::Dtype, why))
}

/// Returns the number of experts, and the numbers of inputs and features of one expert.
pub(crate) fn sizes<T: Specified>(weights: &[Seen<T>], layout: ExpertLayout) -> [usize; 3] {
    let (experts, [a, b]) = match *weights[0].spec().shape() {
        [experts, a, b] => (experts, [a, b]),
        [a, b] => (weights.len(), [a, b]),
        _ => unreachable!("weights have two axes or three"),
    };
    match layout {
        ExpertLayout::Linear => [experts, b, a],
        ExpertLayout::Matmul => [experts, a, b],
    }
}

/// Checks CANN's limits on a product of `rows` contiguous rows with these weights.
pub(crate) fn limits<T: Specified>(
    platform: &Platform,
    dtype: DType,
    rows: usize,
    weights: &[Seen<T>],
    layout: ExpertLayout,
    over: Over,
) -> Result<(), Refused> {
    let [experts, inputs, features] = sizes(weights, layout);
    let width = match over {
        Over::Inputs => inputs,
        Over::Features => features,
    };
    let x = Spec::contiguous(dtype, [rows.max(1), width])?;
    let groups = Spec::contiguous(DType::I64, [experts])?;
    let seen: SmallVec<[Spec; 1]> = weights
        .iter()
        .map(|weight| {
            let Spec { dtype, layout: lie } = weight.spec();
            let (dtype, layout) = (*dtype, seen(lie, layout, over)?);
            Ok(Spec { dtype, layout })
        })
        .collect::<Result<_, Refused>>()?;
    match seen.as_slice() {
        [stacked] if stacked.rank() == 3 => check(platform, &x, stacked, &groups, None)?,
        list => check_list(platform, &x, &list.iter().collect::<Vec<_>>(), &groups, &[])?,
    };
    Ok(())
}

/// Returns the layout of a weight as `[.., the summed axis, the other axis]`.
fn seen(
    weight: &Layout,
    layout: ExpertLayout,
    over: Over,
) -> Result<Layout, burn_cann::LayoutError> {
    let rank = weight.rank();
    match (layout, over) {
        (ExpertLayout::Matmul, Over::Inputs) | (ExpertLayout::Linear, Over::Features) => {
            Ok(weight.clone())
        }
        _ => weight.clone().transpose(rank - 2, rank - 1),
    }
}

impl<'a> Weights<'a> {
    pub(crate) fn new(tensors: &'a [Seen<Tensor>], layout: ExpertLayout) -> Self {
        Self {
            tensors,
            bias: &[],
            layout,
        }
    }

    /// Adds biases, which products over the inputs add to their results.
    pub(crate) fn biased(self, bias: &'a [Seen<Tensor>]) -> Self {
        Self { bias, ..self }
    }

    /// Returns `true` if there is one tensor for all experts.
    fn is_stacked(self) -> bool {
        self.tensors[0].shape().len() == 3
    }

    /// Returns the number of elements of a result's row.
    fn width(self, over: Over) -> usize {
        let shape = self.tensors[0].shape();
        let [a, b] = [shape[shape.len() - 2], shape[shape.len() - 1]];
        match (self.layout, over) {
            (ExpertLayout::Linear, Over::Inputs) | (ExpertLayout::Matmul, Over::Features) => a,
            _ => b,
        }
    }

    /// Multiplies rows with their weights. Rows after the last group of the result have undefined contents.
    pub(crate) fn product(
        self,
        stream: &Stream,
        x: &Tensor,
        groups: Parts<'_>,
        over: Over,
    ) -> Result<Tensor> {
        let y = Tensor::empty(stream, x.dtype(), [x.shape()[0], self.width(over)])?;
        self.product_into(stream, x, groups, over, &y)?;
        Ok(y)
    }

    /// Multiplies rows with their weights. Rows after the last group of the result are zeros.
    pub(crate) fn cleared_product(
        self,
        stream: &Stream,
        x: &Tensor,
        groups: Parts<'_>,
        over: Over,
    ) -> Result<Tensor> {
        let shape = [x.shape()[0], self.width(over)];
        let y = base::filled(stream, x.dtype(), &shape, 0.0)?;
        self.product_into(stream, x, groups, over, &y)?;
        Ok(y)
    }

    /// Returns the weights as `[.., the summed axis, the other axis]`.
    fn seen(self, over: Over) -> Result<Vec<Tensor>> {
        let weights = self.tensors.iter();
        weights
            .map(|weight| Ok(weight.with_layout(seen(weight.layout(), self.layout, over)?)?))
            .collect()
    }

    /// Multiplies contiguous rows with a list of weights, of which each has as many of them as `known` says.
    fn product_of_lists(
        self,
        stream: &Stream,
        x: &Tensor,
        known: &[usize],
        over: Over,
    ) -> Result<Tensor> {
        let y = Tensor::empty(stream, x.dtype(), [x.shape()[0], self.width(over)])?;
        let (mut xs, mut weights, mut ys) = (Vec::new(), Vec::new(), Vec::new());
        let mut start = 0;
        for (weight, &rows) in self.seen(over)?.into_iter().zip(known) {
            let part = start..start + rows;
            start = part.end;
            // CANN takes no empty tensor of a list.
            if rows > 0 {
                xs.push(x.slice(0, part.clone())?);
                ys.push(y.slice(0, part)?);
                weights.push(weight);
            }
        }
        if !xs.is_empty() {
            grouped_matmul_each_into(stream, &xs, &weights, &[], &ys)?;
        }
        Ok(y)
    }

    /// Multiplies rows with their weights into `y`. Rows of `y` after the last group stay unchanged.
    fn product_into(
        self,
        stream: &Stream,
        x: &Tensor,
        groups: Parts<'_>,
        over: Over,
        y: &Tensor,
    ) -> Result<()> {
        let seen = self.seen(over)?;
        let bias: Vec<Tensor> = match over {
            Over::Inputs => self
                .bias
                .iter()
                .map(|bias| addend(stream, bias))
                .collect::<Result<_>>()?,
            Over::Features => Vec::new(),
        };
        match self.is_stacked() {
            true => grouped_matmul_into(stream, x, &seen[0], groups, bias.first(), y)?,
            false => grouped_matmul_of_list(stream, x, &seen, groups, &bias, y)?,
        }
        Ok(())
    }

    /// Returns the wanted gradients of the biases: for each expert, the sum of its rows of `dy`, each times its number of
    /// `factors`, `[R, 1]`, if there are any.
    pub(crate) fn bias_gradients(
        self,
        stream: &Stream,
        factors: Option<&Tensor>,
        dy: &Tensor,
        groups: Parts<'_>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Tensor>>> {
        if !wanted.contains(&true) {
            return Ok(vec![None; wanted.len()]);
        }
        let rows = dy.shape()[0];
        let twice = match factors {
            Some(factors) => contiguous(stream, &factors.expand([rows, 2])?)?,
            None => base::filled(stream, dy.dtype(), &[rows, 2], 1.0)?,
        };
        let sums = grouped_matmul_grad(stream, &twice, dy, groups)?;
        let sums = contiguous(stream, &sums.select(1, 0)?)?;
        match self.is_stacked() {
            true => Ok(vec![Some(sums)]),
            false => each_wanted(wanted, |expert| Ok(sums.select(0, expert)?)),
        }
    }

    /// Returns the product of each row with its expert's bias, `[R, 1]`. Rows after the last group have undefined contents.
    pub(crate) fn times_bias(
        self,
        stream: &Stream,
        rows: &Tensor,
        groups: Parts<'_>,
    ) -> Result<Tensor> {
        let parts: Vec<&Tensor> = self.bias.iter().map(|bias| &bias.0).collect();
        let bias = match self.is_stacked() {
            true => contiguous(stream, parts[0])?,
            false => base::cat(stream, &parts, 0)?,
        };
        let shape = [groups.0.shape()[0], rows.shape()[1], 2];
        let columns = bias
            .reshape([shape[0], shape[1]])?
            .unsqueeze(2)?
            .expand(shape)?;
        let columns = contiguous(stream, &columns)?;
        let y = Tensor::empty(stream, rows.dtype(), [rows.shape()[0], 2])?;
        grouped_matmul_into(stream, rows, &columns, groups, None, &y)?;
        Ok(y.slice(1, 0..1)?)
    }

    /// Returns the wanted gradients of the weights. `inputs` and `features` must be contiguous.
    pub(crate) fn gradients(
        self,
        stream: &Stream,
        inputs: &Tensor,
        features: &Tensor,
        groups: Parts<'_>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Tensor>>> {
        if !wanted.contains(&true) {
            return Ok(vec![None; wanted.len()]);
        }
        let (first, second) = match self.layout {
            ExpertLayout::Matmul => (inputs, features),
            ExpertLayout::Linear => (features, inputs),
        };
        let all = if inputs.shape()[0] == 0 {
            let shape = [groups.0.shape()[0], first.shape()[1], second.shape()[1]];
            base::filled(stream, inputs.dtype(), &shape, 0.0)?
        } else {
            grouped_matmul_grad(stream, first, second, groups)?
        };
        if self.is_stacked() {
            return Ok(vec![Some(all)]);
        }
        each_wanted(wanted, |expert| Ok(all.select(0, expert)?))
    }
}

/// Returns the gradients of the experts for which they are wanted.
fn each_wanted(
    wanted: &[bool],
    one: impl Fn(usize) -> Result<Tensor>,
) -> Result<Vec<Option<Tensor>>> {
    let experts = wanted.iter().enumerate();
    experts
        .map(|(expert, wanted)| wanted.then(|| one(expert)).transpose())
        .collect()
}

/// Returns a bias in the type that CANN adds.
fn addend(stream: &Stream, bias: &Tensor) -> Result<Tensor> {
    let dtype = match bias.dtype() {
        DType::BF16 => DType::F32,
        other => other,
    };
    contiguous(stream, &base::cast(stream, bias, dtype)?)
}

impl OnNpu for GroupedMatmul {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        decide(stream.device().platform(), operands)?;
        let y = match of_lists(stream, operands.x(), operands, Over::Inputs)? {
            Some(y) => y,
            None => {
                let ends = ends(stream, operands, Counts::Mistakes)?;
                cleared_product(stream, operands.x(), operands, &ends, Over::Inputs)?
            }
        };
        Ok(Made::new(y))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let (operands, dy, wanted) = (backward.operands(), backward.dy(), backward.wanted());
        decide(stream.device().platform(), operands)?;
        let ends = ends(stream, operands, Counts::Nothing)?;
        let of_x = || match of_lists(stream, dy, operands, Over::Features)? {
            Some(d_x) => Ok(d_x),
            None => cleared_product(stream, dy, operands, &ends, Over::Features),
        };
        let d_x = wanted.x.then(of_x).transpose()?;
        let (x, dy) = (contiguous(stream, operands.x())?, contiguous(stream, dy)?);
        let weights = Weights::new(operands.weights(), operands.layout());
        let groups = (&ends, Groups::Ends);
        Ok(Each {
            x: d_x,
            weights: weights.gradients(stream, &x, &dy, groups, &wanted.weights)?,
        })
    }
}

/// Returns the end of each expert's rows, which is within the rows, whatever the counts of the caller are.
fn ends(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    counts: Counts,
) -> Result<Tensor> {
    let (rows, mistakes) = (operands.x().shape()[0], (Mistake::Count, counts));
    let each = base::cast(stream, operands.counts(), DType::I64)?;
    let each = nearest(stream, &each, rows, mistakes)?;
    let ends = reduce::cumsum(stream, &each, 0)?;
    nearest(stream, &ends, rows, mistakes)
}

/// Returns the product of lists, if the weights are one and the host knows the rows of each.
fn of_lists(
    stream: &Stream,
    x: &Tensor,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    over: Over,
) -> Result<Option<Tensor>> {
    let weights = Weights::new(operands.weights(), operands.layout());
    let Some(known) = operands.known().filter(|_| !weights.is_stacked()) else {
        return Ok(None);
    };
    let x = contiguous(stream, x)?;
    weights.product_of_lists(stream, &x, &known, over).map(Some)
}

/// Returns a product with zeros in the rows after the last group.
fn cleared_product(
    stream: &Stream,
    x: &Tensor,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    ends: &Tensor,
    over: Over,
) -> Result<Tensor> {
    let weights = Weights::new(operands.weights(), operands.layout());
    let x = contiguous(stream, x)?;
    weights.cleared_product(stream, &x, (ends, Groups::Ends), over)
}
