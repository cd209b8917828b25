//! Random numbers that follow from a seed alone.

/// The generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). A seed
/// gives the same numbers, independent of other random numbers in the program.
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates the generator of one of the many streams of a seed, such as that of a training step.
    pub fn of(seed: u64, stream: u64) -> Self {
        Self(Self(seed).next() ^ Self(!stream).next())
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..1`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number in `0..count`, which is not 0. A bias of `count / 2⁶⁴` is far below what a run can show.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = SplitMix64::new(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn numbers_are_below_their_bound_and_streams_differ() {
        let mut random = SplitMix64::of(7, 0);
        let drawn: Vec<usize> = (0..1000).map(|_| random.below(3)).collect();
        for value in 0..3 {
            let times = drawn.iter().filter(|drawn| **drawn == value).count();
            assert!((250..420).contains(&times), "{value}: {times}");
        }
        assert_ne!(SplitMix64::of(7, 0).next(), SplitMix64::of(7, 1).next());
        assert_ne!(SplitMix64::of(7, 0).next(), SplitMix64::of(8, 0).next());
    }
}
