//! Integers packed into words of 32 bits, the lowest bits first and without gaps.

/// Returns the number of words that `integers` integers take.
pub(crate) fn words(integers: usize, bits: u32) -> usize {
    // Weights are refused before if they have so many elements that this overflows.
    (integers * bits as usize).div_ceil(32)
}

/// Returns an integer of 1 to 8 bits, which two words may share.
pub(crate) fn integer(word: impl Fn(usize) -> u32, at: usize, bits: u32) -> u32 {
    let first = at * bits as usize;
    let (place, shift) = (first / 32, first as u32 % 32);
    let low = word(place) >> shift;
    let all = match shift + bits > 32 {
        true => low | word(place + 1) << (32 - shift),
        false => low,
    };
    all & ((1 << bits) - 1)
}

/// Returns the first `count` integers, in order. Each word is read once.
pub(crate) fn integers(
    word: impl Fn(usize) -> u32,
    count: usize,
    bits: u32,
) -> impl Iterator<Item = u32> {
    let mask = (1 << bits) - 1;
    // The bits that were read and not returned, and how many these are.
    let (mut buffer, mut left, mut next) = (0_u64, 0, 0);
    let all = std::iter::from_fn(move || {
        if left < bits {
            buffer |= u64::from(word(next)) << left;
            (left, next) = (left + 32, next + 1);
        }
        let integer = buffer as u32 & mask;
        (buffer, left) = (buffer >> bits, left - bits);
        Some(integer)
    });
    all.take(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_run_across_words() {
        for bits in 1..=8 {
            let mask = (1 << bits) - 1;
            let stored: Vec<u32> = (0..67_u32).map(|at| (at * 73 + at / 3) & mask).collect();
            let mut packed = vec![0_u32; words(stored.len(), bits)];
            for (at, &integer) in stored.iter().enumerate() {
                for bit in 0..bits {
                    let place = at * bits as usize + bit as usize;
                    packed[place / 32] |= (integer >> bit & 1) << (place % 32);
                }
            }
            let read = (0..stored.len()).map(|at| integer(|word| packed[word], at, bits));
            assert_eq!(read.collect::<Vec<_>>(), stored, "{bits} bits");
            let read = integers(|word| packed[word], stored.len(), bits);
            assert_eq!(read.collect::<Vec<_>>(), stored, "{bits} bits");
        }
    }
}
