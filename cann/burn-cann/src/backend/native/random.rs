//! Random numbers, made on the device.
//!
//! One generator serves all devices of the process. Its offset advances by the number of values drawn.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use burn_backend::{DType, Distribution as Burn, Shape};

use super::super::device::CannDevice;
use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::create;
use crate::cann::lock;
use crate::ops::random::{Distribution, Seed, fill};

static GENERATOR: Mutex<Option<Seed>> = Mutex::new(None);

/// Restarts the generator with a seed.
pub(in super::super) fn seed(seed: u64) {
    *lock(&GENERATOR) = Some(Seed { seed, offset: 0 });
}

/// Returns the generator's state and advances it. Without a seed, it starts at random.
fn draw(count: usize) -> Seed {
    let mut generator = lock(&GENERATOR);
    let at = generator.get_or_insert_with(|| Seed {
        seed: RandomState::new().hash_one(0),
        offset: 0,
    });
    let now = *at;
    at.offset = at.offset.wrapping_add(count as u64);
    now
}

/// Returns a tensor of random numbers.
fn random(
    shape: Shape,
    distribution: Distribution,
    device: CannDevice,
    dtype: DType,
) -> Native<CannTensor> {
    let tensor = create::empty(shape, device, dtype)?;
    let at = draw(tensor.tensor.spec().len());
    fill(tensor.on(), &tensor.tensor, distribution, at)?;
    Ok(tensor)
}

/// Returns random floating-point numbers.
pub(in super::super) fn floats(
    shape: Shape,
    distribution: Burn,
    device: CannDevice,
    dtype: impl Into<DType>,
) -> Native<CannTensor> {
    let distribution = match distribution {
        Burn::Default => Distribution::Uniform {
            low: 0.0,
            high: 1.0,
        },
        Burn::Uniform(low, high) => Distribution::Uniform { low, high },
        Burn::Bernoulli(probability) => Distribution::Bernoulli { probability },
        Burn::Normal(mean, deviation) => Distribution::Normal {
            mean: mean as f32,
            deviation: deviation as f32,
        },
    };
    random(shape, distribution, device, dtype.into())
}

/// Returns random integers.
pub(in super::super) fn ints(
    shape: Shape,
    distribution: Burn,
    device: CannDevice,
    dtype: impl Into<DType>,
) -> Native<CannTensor> {
    let distribution = match distribution {
        // The bounds are converted as on the host, towards zero.
        Burn::Uniform(low, high) => Distribution::Whole {
            low: low as i64,
            high: high as i64,
        },
        Burn::Bernoulli(probability) => Distribution::Bernoulli { probability },
        Burn::Default | Burn::Normal(..) => {
            return Err(Declined::because(
                "the device draws integers of a range only",
            ));
        }
    };
    random(shape, distribution, device, dtype.into())
}
