//! Losses of elements, and their gradients.
//!
//! A loss is a function of the values of its inputs at one place. The table of each operator has that function, or its
//! derivative. CANN's L1Loss takes i64 too, which is refused here. A gradient has the shape to which all inputs are
//! broadcast; CANN's KlDivBackward also sums it to a smaller shape.

use crate::abi::prelude::*;
use crate::ops::sum;

/// The values of the inputs at one place.
type Values = [f32; 4];

/// An input of a loss.
#[derive(Clone, Copy)]
pub(super) struct Input {
    pub(super) name: &'static str,
    pub(super) tensor: *const aclTensor,
    /// The value in place of an input that is not given.
    pub(super) missing: Option<f32>,
}

impl Input {
    pub(super) fn needed(name: &'static str, tensor: *const aclTensor) -> Self {
        Self {
            name,
            tensor,
            missing: None,
        }
    }

    /// An optional factor, which is 1 if it is not given.
    pub(super) fn factor(name: &'static str, tensor: *const aclTensor) -> Self {
        Self {
            name,
            tensor,
            missing: Some(1.0),
        }
    }
}

/// The rules of an operator.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// The largest number of a reduction: 0 means none, 1 the mean, 2 the sum, 3 the sum divided by the first length.
    pub(super) reductions: i64,
    /// True if all inputs have the dtype of the first.
    pub(super) one_dtype: bool,
    /// True if the target has the shape of the input, to which all others are broadcast.
    pub(super) one_shape: bool,
    /// True if the result has the dtype of the target, of which it is the gradient.
    pub(super) of_target: bool,
}

/// The usual rules: inputs are promoted and broadcast.
pub(super) const USUAL: Rules = Rules {
    reductions: 2,
    one_dtype: false,
    one_shape: false,
    of_target: false,
};

/// The inputs of a call, as they were taken.
struct Taken {
    shape: Vec<usize>,
    dtype: aclDataType,
    /// The dtype of the second input.
    target: Option<aclDataType>,
    /// The values in place of inputs that were not given.
    missing: Vec<Option<f32>>,
    reduction: i64,
}

impl Taken {
    fn of(
        operands: &mut Operands,
        inputs: &[Input],
        reduction: i64,
        rules: Rules,
        first: Option<&Tensor>,
    ) -> Outcome<Self> {
        ensure!((0..=rules.reductions).contains(&reduction);
            "reduction is {reduction}; 0 means none, 1 the mean, 2 the sum, and the largest is {}",
            rules.reductions);
        let mut shape = first.map_or(Vec::new(), |first| first.shape.clone());
        let mut dtype = first.map(|first| first.dtype);
        let (mut missing, mut input_shape, mut target) = (Vec::new(), None, None);
        for (place, input) in inputs.iter().enumerate() {
            if let (true, Some(value)) = (input.tensor.is_null(), input.missing) {
                operands.optional(input.name, input.tensor)?;
                missing.push(Some(value));
                continue;
            }
            missing.push(None);
            let own = dtype.filter(|_| rules.one_dtype);
            let dtypes = own.as_ref().map_or(FLOATS, std::slice::from_ref);
            let tensor = operands.view(input.name, input.tensor, dtypes)?;
            if place == 1 && rules.one_shape {
                check_size(input.name, &tensor, input_shape.as_deref().unwrap_or(&[]))?;
            }
            if place == 1 {
                target = Some(tensor.dtype);
            }
            shape = broadcast(&shape, &tensor.shape)?;
            dtype = Some(match dtype {
                Some(dtype) => promoted(dtype, tensor.dtype)?,
                None => tensor.dtype,
            });
            input_shape.get_or_insert(tensor.shape);
        }
        ensure!(!rules.one_shape || Some(&shape) == input_shape.as_ref();
            "the inputs have the shape {shape:?} together; it must be that of the first, \
             {input_shape:?}");
        Ok(Self {
            shape,
            dtype: dtype.unwrap_or(ACL_FLOAT),
            target,
            missing,
            reduction,
        })
    }

    /// Returns the number by which a sum is divided.
    fn divisor(&self) -> f32 {
        match self.reduction {
            1 => self.shape.iter().product::<usize>() as f32,
            3 => self.shape.first().copied().unwrap_or(1) as f32,
            _ => 1.0,
        }
    }

    /// Returns the function's values, in the order of the shape, and the operands behind the inputs.
    fn values<'a>(
        &self,
        memory: &Memory,
        operands: &'a [Tensor],
        function: &(impl Fn(Values) -> f32 + ?Sized),
    ) -> Outcome<(Vec<f32>, &'a [Tensor])> {
        let mut rest = operands;
        let mut columns = Vec::new();
        for missing in &self.missing {
            columns.push(match (missing, rest) {
                (Some(value), _) => Err(*value),
                (None, [input, others @ ..]) => {
                    rest = others;
                    Ok(input.expanded(&self.shape).floats(memory)?)
                }
                (None, []) => unreachable!("taken in phase one"),
            });
        }
        let count = self.shape.iter().product();
        let at = |place: usize| {
            let mut values = [0.0; 4];
            for (value, column) in values.iter_mut().zip(&columns) {
                *value = column
                    .as_ref()
                    .map_or_else(|missing| *missing, |column| column[place]);
            }
            function(values)
        };
        Ok(((0..count).map(at).collect(), rest))
    }
}

/// Returns the work of a loss.
pub(super) fn loss(
    operands: &mut Operands,
    inputs: &[Input],
    reduction: i64,
    rules: Rules,
    output: *const aclTensor,
    term: impl Fn(Values) -> f32 + Send + Sync + 'static,
) -> Outcome<Work> {
    let taken = Taken::of(operands, inputs, reduction, rules, None)?;
    let output = operands.target("out", output, FLOATS)?;
    if reduction == 0 {
        check_size("out", &output, &taken.shape)?;
    } else if output.shape != [1] {
        check_size("out", &output, &[])?;
    }
    Ok(Arc::new(move |memory, operands| {
        let (terms, rest) = taken.values(memory, operands, &term)?;
        let values = match reduction {
            0 => terms,
            _ => vec![sum(&terms) / taken.divisor()],
        };
        rest[0].store_values_of(memory, &values, taken.dtype)
    }))
}

/// Returns the work of a gradient. The first operand is the gradient of the loss.
pub(super) fn gradient(
    operands: &mut Operands,
    (d_output, inputs): ((&'static str, *const aclTensor), &[Input]),
    reduction: i64,
    rules: Rules,
    output: *const aclTensor,
    derivative: impl Fn(Values) -> f32 + Send + Sync + 'static,
) -> Outcome<Work> {
    let d_output = operands.view(d_output.0, d_output.1, FLOATS)?;
    let taken = Taken::of(operands, inputs, reduction, rules, Some(&d_output))?;
    let own = taken.target.filter(|_| rules.of_target);
    let dtypes = own.as_ref().map_or(FLOATS, std::slice::from_ref);
    let output = operands.target("out", output, dtypes)?;
    check_size("out", &output, &taken.shape)?;
    Ok(Arc::new(move |memory, operands| {
        let [d_output, inputs @ ..] = operands else {
            unreachable!("taken above")
        };
        let d_output = d_output.expanded(&taken.shape).floats(memory)?;
        let (derivatives, rest) = taken.values(memory, inputs, &derivative)?;
        let divisor = taken.divisor();
        let both = d_output.into_iter().zip(derivatives);
        let values: Vec<f32> = both.map(|(dy, slope)| dy * (slope / divisor)).collect();
        rest[0].store_values_of(memory, &values, taken.dtype)
    }))
}

/// Defines a loss of an input and a target, and its gradient, with the settings between reduction and output.
macro_rules! losses {
    ($(
        $one:ident, $two:ident, $grad_one:ident, $grad_two:ident ($d_output:literal $(, $setting:ident)?),
        $rules:ident $(, if $check:expr)? => |[$x:ident, $y:ident]| $term:expr, $slope:expr;
    )*) => {$(
        operator! { training: $one, $two(input, target, reduction, $($setting,)? output) |operands|
            $($check?;)?
            let inputs = [Input::needed("self", input), Input::needed("target", target)];
            loss(operands, &inputs, reduction, $rules, output, move |[$x, $y, ..]| $term)
        }

        operator! { training: $grad_one, $grad_two(
            d_output, input, target, reduction, $($setting,)? d_input
        ) |operands|
            $($check?;)?
            let inputs = [Input::needed("self", input), Input::needed("target", target)];
            let inputs = (($d_output, d_output), &inputs[..]);
            gradient(operands, inputs, reduction, $rules, d_input, move |[$x, $y, ..]| $slope)
        }
    )*};
}

fn check_beta(beta: f32) -> Outcome<()> {
    ensure!((0.0..).contains(&beta); "beta is {beta}; it must not be negative");
    Ok(())
}

/// Returns the sign of a difference, or 0 without a difference.
fn sign(difference: f32) -> f32 {
    if difference == 0.0 {
        0.0
    } else {
        difference.signum()
    }
}

fn smooth(difference: f32, beta: f32) -> f32 {
    let distance = difference.abs();
    if distance < beta {
        0.5 * distance * distance / beta
    } else {
        distance - 0.5 * beta
    }
}

fn smooth_slope(difference: f32, beta: f32) -> f32 {
    if difference.abs() < beta {
        difference / beta
    } else {
        sign(difference)
    }
}

/// Returns a term of the divergence. `target` is a probability, or its logarithm.
fn divergence(input: f32, target: f32, log_target: bool) -> f32 {
    if log_target {
        return target.exp() * (target - input);
    }
    let entropy = if target == 0.0 {
        0.0
    } else {
        target * target.ln()
    };
    entropy - target * input
}

const DIVERGENCE: Rules = Rules {
    reductions: 3,
    one_dtype: true,
    one_shape: false,
    of_target: false,
};

losses! {
    aclnnL1LossGetWorkspaceSize, aclnnL1Loss, aclnnL1LossBackwardGetWorkspaceSize, aclnnL1LossBackward
        ("gradOutput"), USUAL => |[x, y]| (x - y).abs(), sign(x - y);
    aclnnSmoothL1LossGetWorkspaceSize, aclnnSmoothL1Loss,
        aclnnSmoothL1LossBackwardGetWorkspaceSize, aclnnSmoothL1LossBackward
        ("gradOut", beta), USUAL, if check_beta(beta) => |[x, y]| smooth(x - y, beta), smooth_slope(x - y, beta);
    aclnnKlDivGetWorkspaceSize, aclnnKlDiv, aclnnKlDivBackwardGetWorkspaceSize, aclnnKlDivBackward
        ("gradOutput", log_target), DIVERGENCE =>
        |[x, y]| divergence(x, y, log_target), {
            let _ = x;
            if log_target { -y.exp() } else { -y }
        };
}
