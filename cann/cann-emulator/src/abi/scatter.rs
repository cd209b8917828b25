//! Scattering along an axis: places of a tensor get the elements of another one, or a value.

use super::index::{check_within, own_axis, places};
use crate::abi::prelude::*;
use crate::ops::arithmetic::Arithmetic;
use crate::ops::index::named_places;

/// The new elements.
#[derive(Clone, Copy)]
enum Source {
    Tensor(*const aclTensor),
    Value(*const aclScalar),
}

/// The operands of a call.
struct Call {
    input: *const aclTensor,
    at: i64,
    index: *const aclTensor,
    source: Source,
    /// 0 replaces, 1 adds, 2 multiplies.
    reduction: i64,
    to: To,
}

/// Returns the combination of a value with a new one.
fn combined<T: Number + Arithmetic>(reduction: i64) -> fn(T, T) -> T {
    match reduction {
        0 => |_, new| new,
        1 => Arithmetic::add,
        _ => Arithmetic::mul,
    }
}

impl Call {
    /// Takes the operands and returns the work.
    fn take(self, operands: &mut Operands, dtypes: &[aclDataType]) -> Outcome<Work> {
        let input = self.to.input(operands, self.input, dtypes)?;
        let at = own_axis(&input, self.at)?;
        let index = operands.view("index", self.index, INDICES)?;
        check_within("index", &index, &input, Some(at))?;
        let value = self.source.take(operands, &input, &index)?;
        ensure!((0..=2).contains(&self.reduction);
            "reduce is {}; 0 replaces, 1 adds, 2 multiplies", self.reduction);
        self.to.like(operands, &input)?;
        Ok(work(input.dtype, at, value, self.reduction))
    }
}

impl Source {
    /// Takes the source. Returns the value, if it is one.
    fn take(
        self,
        operands: &mut Operands,
        input: &Tensor,
        index: &Tensor,
    ) -> Outcome<Option<Scalar>> {
        match self {
            Self::Tensor(src) => {
                let src = operands.view("src", src, &[input.dtype])?;
                check_within("index", index, &src, None)?;
                Ok(None)
            }
            Self::Value(value) => operands.scalar_for("value", value, input).map(Some),
        }
    }
}

fn work(dtype: aclDataType, at: usize, value: Option<Scalar>, reduction: i64) -> Work {
    by_number!(dtype, T => Arc::new(move |memory, operands| {
        let [input, index, rest @ ..] = operands else { unreachable!("taken before") };
        let named = places(memory, index, input.shape[at])?;
        let named = named_places(&index.shape, &input.shape, at, &named);
        let (new, out) = match value {
            Some(value) => (vec![value.to::<T>(); named.len()], rest.first()),
            None => {
                // Only the part of the source that the index covers counts.
                let src = Tensor { shape: index.shape.clone(), ..rest[0].clone() };
                (src.values::<T>(memory)?, rest.get(1))
            }
        };
        let mut values = input.values::<T>(memory)?;
        let combine = combined::<T>(reduction);
        for (place, new) in named.into_iter().zip(new) {
            values[place] = combine(values[place], new);
        }
        out.unwrap_or(input).store_values(memory, &values)
    }))
}

with_place! { index: aclnnScatterAddGetWorkspaceSize, aclnnScatterAdd (
    input, at, index, src
) |operands, to|
    let call = Call { input, at, index, source: Source::Tensor(src), reduction: 1, to };
    call.take(operands, NUMBERS)
}

with_place! { index: aclnnScatterGetWorkspaceSize, aclnnScatter;
    aclnnInplaceScatterGetWorkspaceSize, aclnnInplaceScatter
    (input, at, index, source, reduction) |operands, to|
    let call = Call { input, at, index, source: Source::Tensor(source), reduction, to };
    call.take(operands, USUAL)
}

with_place! { index: aclnnScatterValueGetWorkspaceSize, aclnnScatterValue;
    aclnnInplaceScatterValueGetWorkspaceSize, aclnnInplaceScatterValue
    (input, at, index, source, reduction) |operands, to|
    let call = Call { input, at, index, source: Source::Value(source), reduction, to };
    call.take(operands, USUAL)
}
