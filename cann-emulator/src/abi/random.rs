//! Filling a tensor with random numbers.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{FLOATS, NUMBERS, USUAL};
use crate::abi::operators;
use crate::error::ensure;
use crate::executor::{Work, phase_one};
use crate::number::Number;
use crate::ops::random::Generator;
use crate::tensor::rounded;

/// Returns the work that fills the tensor in the order of its shape.
fn filled<T: Number>(value: impl Fn(usize) -> T + Send + Sync + 'static) -> Work {
    Arc::new(move |memory, operands| {
        let values: Vec<T> = (0..operands[0].count()).map(&value).collect();
        operands[0].store_values(memory, &values)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceUniformGetWorkspaceSize(
    target: *const aclTensor,
    low: f64,
    high: f64,
    seed: u64,
    generator_offset: u64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnInplaceUniform",
        workspace_size,
        executor,
        |operands| {
            let target = operands.target("selfRef", target, FLOATS)?;
            ensure!(
                low <= high && low.is_finite() && high.is_finite(),
                ACLNN_ERR_PARAM_INVALID,
                "from is {low}, to is {high}; from must not be greater"
            );
            let generator = Generator {
                seed,
                offset: generator_offset,
            };
            Ok(filled(move |place| {
                let value = (low + generator.unit(place) * (high - low)) as f32;
                // The upper bound is excluded, even if it is the nearest value.
                if f64::from(rounded(target.dtype, value)) < high {
                    value
                } else {
                    low as f32
                }
            }))
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceNormalGetWorkspaceSize(
    target: *const aclTensor,
    mean: f32,
    deviation: f32,
    seed: i64,
    generator_offset: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnInplaceNormal", workspace_size, executor, |operands| {
        operands.target("selfRef", target, FLOATS)?;
        ensure!(
            (0.0..).contains(&deviation),
            ACLNN_ERR_PARAM_INVALID,
            "std is {deviation}; it must not be negative"
        );
        let generator = Generator {
            seed: seed.cast_unsigned(),
            offset: generator_offset.cast_unsigned(),
        };
        Ok(filled(move |place| {
            mean + deviation * generator.normal(place) as f32
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceBernoulliGetWorkspaceSize(
    target: *const aclTensor,
    probability: *const aclScalar,
    seed: i64,
    generator_offset: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnInplaceBernoulli",
        workspace_size,
        executor,
        |operands| {
            operands.target("selfRef", target, USUAL)?;
            let probability: f64 = operands.scalar("prob", probability)?.to();
            ensure!(
                (0.0..=1.0).contains(&probability),
                ACLNN_ERR_PARAM_INVALID,
                "prob is {probability}; it must be from 0 to 1"
            );
            let generator = Generator {
                seed: seed.cast_unsigned(),
                offset: generator_offset.cast_unsigned(),
            };
            Ok(filled(move |place| {
                i64::from(generator.unit(place) < probability)
            }))
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceRandomGetWorkspaceSize(
    target: *const aclTensor,
    low: i64,
    high: i64,
    seed: i64,
    generator_offset: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnInplaceRandom", workspace_size, executor, |operands| {
        operands.target("selfRef", target, NUMBERS)?;
        ensure!(
            low < high,
            ACLNN_ERR_PARAM_INVALID,
            "from is {low}, to is {high}; from must be less"
        );
        let generator = Generator {
            seed: seed.cast_unsigned(),
            offset: generator_offset.cast_unsigned(),
        };
        Ok(filled(move |place| generator.whole(place, low, high)))
    })
}

operators! { create:
    aclnnInplaceUniformGetWorkspaceSize, aclnnInplaceUniform;
    aclnnInplaceNormalGetWorkspaceSize, aclnnInplaceNormal;
    aclnnInplaceBernoulliGetWorkspaceSize, aclnnInplaceBernoulli;
    aclnnInplaceRandomGetWorkspaceSize, aclnnInplaceRandom;
}
