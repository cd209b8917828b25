//! Indices drawn by weight.

use crate::abi::prelude::*;
use crate::ops::random::Generator;

/// Draws indices of one distribution. `unit` returns a number from 0 to 1 for each draw.
fn draw(
    weights: &[f64],
    draws: usize,
    replacement: bool,
    unit: impl Fn(usize) -> f64,
) -> Outcome<Vec<i64>> {
    let mut left = weights.to_vec();
    ensure!(left.iter().all(|weight| *weight >= 0.0 && weight.is_finite());
        "a weight is negative or not finite");
    let mut drawn = Vec::with_capacity(draws);
    for at in 0..draws {
        let Some(last) = left.iter().rposition(|weight| *weight > 0.0) else {
            fail!("{draws} draws, and only {at} weights are not zero")
        };
        let mut rest = unit(at) * left.iter().sum::<f64>();
        let reached = left.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        // A sum that is rounded up can pass the last weight.
        let index = reached.unwrap_or(last);
        if !replacement {
            left[index] = 0.0;
        }
        drawn.push(index as i64);
    }
    Ok(drawn)
}

operator! { create: aclnnMultinomialGetWorkspaceSize, aclnnMultinomial(
    input, draws, replacement, seed, generator_offset, output
) |operands|
    let input = operands.view("self", input, REALS)?;
    ensure!((1..=2).contains(&input.rank()); "self has {} axes; it takes one or two", input.rank());
    let mut shape = input.shape.clone();
    let classes = shape.pop().unwrap_or(0);
    let count = usize::try_from(draws).unwrap_or(0);
    ensure!(count > 0 && (replacement || count <= classes); "numsamples is {draws} of {classes}");
    shape.push(count);
    operands.result("out", output, ACL_INT64, &shape)?;
    let generator = Generator {
        seed: seed.cast_unsigned(),
        offset: generator_offset.cast_unsigned(),
    };
    Ok(Arc::new(move |memory, operands| {
        let weights = operands[0].values::<f64>(memory)?;
        let mut drawn = Vec::new();
        for (row, weights) in weights.chunks_exact(classes.max(1)).enumerate() {
            let unit = |at| generator.unit(row * count + at);
            drawn.extend(draw(weights, count, replacement, unit)?);
        }
        operands[1].store_values(memory, &drawn)
    }))
}
