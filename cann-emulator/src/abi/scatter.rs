//! Scattering along an axis: places of a tensor get the elements of another one, or a value.

use std::sync::Arc;

use cann_sys::meta::*;

use super::index::{check_within, own_axis, places};
use crate::abi::checks::{INDICES, NUMBERS, USUAL};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::number::{Number, by_number};
use crate::ops::arithmetic::Arithmetic;
use crate::ops::index::named_places;
use crate::scalar::Scalar;
use crate::tensor::Tensor;

/// The new elements.
#[derive(Clone, Copy)]
enum Source {
    Tensor(*const aclTensor),
    Value(*const aclScalar),
}

/// The operands of a call. Without an output, the input is overwritten.
struct Call {
    input: *const aclTensor,
    at: i64,
    index: *const aclTensor,
    source: Source,
    /// 0 replaces, 1 adds, 2 multiplies.
    reduction: i64,
    output: Option<*const aclTensor>,
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
        let input = match self.output {
            Some(_) => operands.view("self", self.input, dtypes)?,
            None => operands.target("selfRef", self.input, dtypes)?,
        };
        let at = own_axis(&input, self.at)?;
        let index = operands.view("index", self.index, INDICES)?;
        check_within("index", &index, &input, Some(at))?;
        let value = self.source.take(operands, &input, &index)?;
        ensure!(
            (0..=2).contains(&self.reduction),
            ACLNN_ERR_PARAM_INVALID,
            "reduce is {}; 0 replaces, 1 adds, 2 multiplies",
            self.reduction
        );
        if let Some(output) = self.output {
            operands.result("out", output, input.dtype, &input.shape)?;
        }
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnScatterAddGetWorkspaceSize(
    input: *const aclTensor,
    at: i64,
    index: *const aclTensor,
    src: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnScatterAdd", workspace_size, executor, |operands| {
        let (source, output) = (Source::Tensor(src), Some(output.cast_const()));
        let call = Call {
            input,
            at,
            index,
            source,
            reduction: 1,
            output,
        };
        call.take(operands, NUMBERS)
    })
}

/// Defines scatters of a kind of source, and their forms in place.
macro_rules! scatters {
    ($($one:ident, $two:ident; $place_one:ident, $place_two:ident: $source:ident, $type:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            at: i64,
            index: *const aclTensor,
            source: *const $type,
            reduction: i64,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let (source, output) = (Source::$source(source), Some(output.cast_const()));
                let call = Call { input, at, index, source, reduction, output };
                call.take(operands, USUAL)
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $place_one(
            target: *mut aclTensor,
            at: i64,
            index: *const aclTensor,
            source: *const $type,
            reduction: i64,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($place_two), workspace_size, executor, |operands| {
                let (input, source) = (target.cast_const(), Source::$source(source));
                let call = Call { input, at, index, source, reduction, output: None };
                call.take(operands, USUAL)
            })
        }
    )*
    operators! { index: $($one, $two; $place_one, $place_two;)* }};
}

scatters! {
    aclnnScatterGetWorkspaceSize, aclnnScatter;
    aclnnInplaceScatterGetWorkspaceSize, aclnnInplaceScatter: Tensor, aclTensor;
    aclnnScatterValueGetWorkspaceSize, aclnnScatterValue;
    aclnnInplaceScatterValueGetWorkspaceSize, aclnnInplaceScatterValue: Value, aclScalar;
}

operators! { index: aclnnScatterAddGetWorkspaceSize, aclnnScatterAdd; }
