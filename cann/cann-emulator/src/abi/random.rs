//! Filling a tensor with random numbers.

use crate::abi::prelude::*;
use crate::ops::random::Generator;
use crate::tensor::rounded;

/// Returns the work that fills the tensor in the order of its shape.
fn filled<T: Number>(value: impl Fn(usize) -> T + Send + Sync + 'static) -> Work {
    Arc::new(move |memory, operands| {
        let values: Vec<T> = (0..operands[0].count()).map(&value).collect();
        operands[0].store_values(memory, &values)
    })
}

operator! { create: aclnnInplaceUniformGetWorkspaceSize, aclnnInplaceUniform(
    target, low, high, seed, offset
) |operands|
    let target = operands.target("selfRef", target, FLOATS)?;
    ensure!(low <= high && low.is_finite() && high.is_finite();
        "from is {low}, to is {high}; from must not be greater");
    let generator = Generator { seed, offset };
    Ok(filled(move |place| {
        let value = (low + generator.unit(place) * (high - low)) as f32;
        // The upper bound is excluded, even if it is the nearest value.
        if f64::from(rounded(target.dtype, value)) < high {
            value
        } else {
            low as f32
        }
    }))
}

operator! { create: aclnnInplaceNormalGetWorkspaceSize, aclnnInplaceNormal(
    target, mean, deviation, seed, generator_offset
) |operands|
    operands.target("selfRef", target, FLOATS)?;
    ensure!((0.0..).contains(&deviation); "std is {deviation}; it must not be negative");
    let generator = Generator {
        seed: seed.cast_unsigned(),
        offset: generator_offset.cast_unsigned(),
    };
    Ok(filled(move |place| {
        mean + deviation * generator.normal(place) as f32
    }))
}

operator! { create: aclnnInplaceBernoulliGetWorkspaceSize, aclnnInplaceBernoulli(
    target, probability, seed, generator_offset
) |operands|
    operands.target("selfRef", target, USUAL)?;
    let probability: f64 = operands.scalar("prob", probability)?.to();
    ensure!((0.0..=1.0).contains(&probability); "prob is {probability}; it must be from 0 to 1");
    let generator = Generator {
        seed: seed.cast_unsigned(),
        offset: generator_offset.cast_unsigned(),
    };
    Ok(filled(move |place| {
        i64::from(generator.unit(place) < probability)
    }))
}

operator! { create: aclnnInplaceRandomGetWorkspaceSize, aclnnInplaceRandom(
    target, low, high, seed, generator_offset
) |operands|
    operands.target("selfRef", target, NUMBERS)?;
    ensure!(low < high; "from is {low}, to is {high}; from must be less");
    let generator = Generator {
        seed: seed.cast_unsigned(),
        offset: generator_offset.cast_unsigned(),
    };
    Ok(filled(move |place| generator.whole(place, low, high)))
}
