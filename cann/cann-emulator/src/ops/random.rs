//! Random numbers by position: a number depends only on seed, offset and position.
//!
//! CANN's generator is Philox and yields other numbers; only the distributions are the same.

/// Returns 64 bits for a position, by two rounds of SplitMix64.
fn bits(seed: u64, offset: u64, place: u64) -> u64 {
    mix(mix(seed ^ mix(offset)).wrapping_add(place))
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The generator of one call.
#[derive(Clone, Copy)]
pub(crate) struct Generator {
    pub(crate) seed: u64,
    pub(crate) offset: u64,
}

impl Generator {
    /// Returns a number from 0 to below 1.
    pub(crate) fn unit(self, place: usize) -> f64 {
        (bits(self.seed, self.offset, place as u64) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number of the normal distribution with mean 0 and deviation 1, by the method of Box and Muller.
    pub(crate) fn normal(self, place: usize) -> f64 {
        let (one, other) = (1.0 - self.unit(2 * place), self.unit(2 * place + 1));
        (-2.0 * one.ln()).sqrt() * (2.0 * std::f64::consts::PI * other).cos()
    }

    /// Returns a whole number from `low` to below `high`.
    pub(crate) fn whole(self, place: usize, low: i64, high: i64) -> i64 {
        let range = high.abs_diff(low).max(1);
        let product = u128::from(bits(self.seed, self.offset, place as u64)) * u128::from(range);
        low.wrapping_add((product >> 64) as i64)
    }
}
