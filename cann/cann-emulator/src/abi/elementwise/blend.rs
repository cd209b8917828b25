//! Operators of three tensors: a choice, sums with products and quotients, bounds; and the way from one tensor to another.

use super::{Dtypes, Gives, factor, two, zip};
use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, clamp};

operator! { index: aclnnSWhereGetWorkspaceSize, aclnnSWhere(
    condition, input, rhs, output
) |operands|
    let condition = operands.view("condition", condition, &[ACL_BOOL])?;
    let input = operands.view("self", input, USUAL)?;
    let rhs = operands.view("other", rhs, USUAL)?;
    let shape = broadcast(&condition.shape, &broadcast(&input.shape, &rhs.shape)?)?;
    let of = promoted(input.dtype, rhs.dtype)?;
    let x = To::Output(output).output(operands, (&input, of), &shape, Gives::Same)?;
    Ok(by_number!(x.of, T => Arc::new(move |memory, operands| {
        let [condition, input, rhs, out] = taken(operands);
        let condition = condition.expanded(&out.shape).values::<i64>(memory)?;
        let input = input.expanded(&out.shape).values_as::<T>(memory, x.of)?;
        let rhs = rhs.expanded(&out.shape).values_as::<T>(memory, x.of)?;
        let both = condition.into_iter().zip(input.into_iter().zip(rhs));
        let values: Vec<T> = both
            .map(|(condition, (yes, no))| if condition != 0 { yes } else { no })
            .collect();
        out.store_values_of(memory, &values, x.gives)
    })))
}

/// Takes three inputs and their result.
fn three(
    operands: &mut Operands,
    inputs: [*const aclTensor; 3],
    names: [&str; 2],
    to: To,
    dtypes: &[aclDataType],
) -> Outcome<Dtypes> {
    let first = to.input(operands, inputs[0], dtypes)?;
    let (mut shape, mut of) = (first.shape.clone(), first.dtype);
    for (name, input) in names.into_iter().zip(&inputs[1..]) {
        let input = operands.view(name, *input, dtypes)?;
        shape = broadcast(&shape, &input.shape)?;
        of = promoted(of, input.dtype)?;
    }
    to.output(operands, (&first, of), &shape, Gives::Same)
}

fn zip_three<T: Number>(
    dtypes: Dtypes,
    apply: impl Fn(T, T, T) -> T + Send + Sync + 'static,
) -> Work {
    Arc::new(move |memory, operands| {
        let [first, second, third, rest @ ..] = operands else {
            unreachable!("taken by three()")
        };
        let out = rest.first().unwrap_or(first);
        let first = first.expanded(&out.shape).values_as(memory, dtypes.of)?;
        let second = second.expanded(&out.shape).values_as(memory, dtypes.of)?;
        let third = third.expanded(&out.shape).values_as(memory, dtypes.of)?;
        let all = first.into_iter().zip(second.into_iter().zip(third));
        let values: Vec<T> = all
            .map(|(first, (second, third))| apply(first, second, third))
            .collect();
        out.store_values_of(memory, &values, dtypes.gives)
    })
}

/// Takes `self + value · tensor1 · tensor2`, or the quotient of the two.
fn with_two(
    operands: &mut Operands,
    (inputs, scale): ([*const aclTensor; 3], *const aclScalar),
    to: To,
    divided: bool,
) -> Outcome<Work> {
    let names = ["tensor1", "tensor2"];
    if divided {
        let x = three(operands, inputs, names, to, REALS)?;
        let scale = factor(operands, "value", scale, x)?;
        return Ok(by_float!(x.of, T => {
            let scale: T = scale.to();
            zip_three(x, move |own: T, left: T, right: T| own + scale * left / right)
        }));
    }
    let x = three(operands, inputs, names, to, NUMBERS)?;
    let scale = factor(operands, "value", scale, x)?;
    Ok(by_number!(x.of, T => {
        let scale: T = scale.to();
        zip_three(x, move |own: T, left: T, right: T| {
            own.add(Arithmetic::mul(Arithmetic::mul(scale, left), right))
        })
    }))
}

with_place! { elementwise: aclnnAddcmulGetWorkspaceSize, aclnnAddcmul;
    aclnnInplaceAddcmulGetWorkspaceSize, aclnnInplaceAddcmul
    (input, left, right, scale) |operands, to|
    with_two(operands, ([input, left, right], scale), to, false)
}

with_place! { elementwise: aclnnAddcdivGetWorkspaceSize, aclnnAddcdiv;
    aclnnInplaceAddcdivGetWorkspaceSize, aclnnInplaceAddcdiv
    (input, left, right, scale) |operands, to|
    with_two(operands, ([input, left, right], scale), to, true)
}

operator! { elementwise: aclnnClampTensorGetWorkspaceSize, aclnnClampTensor(
    input, low, high, output
) |operands|
    let names = ["clipValueMin", "clipValueMax"];
    let to = To::Output(output);
    let x = three(operands, [input, low, high], names, to, NUMBERS)?;
    Ok(by_number!(x.of, T => {
        zip_three(x, |x: T, low: T, high: T| clamp(x, Some(low), Some(high)))
    }))
}

// `self + weight · (end − self)`.
with_place! { elementwise: aclnnLerpsGetWorkspaceSize, aclnnLerps;
    aclnnInplaceLerpsGetWorkspaceSize, aclnnInplaceLerps (input, end, weight) |operands, to|
    let x = two(operands, [input, end], to, FLOATS, Gives::Equal)?;
    let weight: f32 = factor(operands, "weight", weight, x)?.to();
    Ok(zip(x, move |start: f32, end: f32| start + weight * (end - start)))
}
