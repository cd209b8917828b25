//! Merging the tables of three positions (time, height, width) into one. This is possible because the position
//! from which a pair of elements takes its angle depends only on the pair.

use crate::semantics::{RopeKey, RopeStyle, Sections, TableLayout};
use burn::tensor::{Int, Tensor};

/// Panics unless tables and sections fit together and match the key.
#[track_caller]
pub(crate) fn check(cos: &Tensor<4>, sin: &Tensor<4>, sections: [usize; 3], key: RopeKey) {
    assert!(
        key.sections != Sections::None
            && key.style == RopeStyle::Half
            && key.table == TableLayout::Halves,
        "RoPE: sections are for style=half and table=halves, but the semantics are {key}"
    );
    assert!(
        cos.dims() == sin.dims() && cos.dims()[0] == 3,
        "RoPE: the tables of three positions are cos {:?} and sin {:?}; both must be [3, b, s, w]",
        cos.dims(),
        sin.dims()
    );
    let width = cos.dims()[3];
    assert!(
        width > 0 && width.is_multiple_of(2),
        "RoPE: the tables have {width} elements of a head; elements rotate in pairs"
    );
    let pairs = width / 2;
    let sum = sections
        .iter()
        .fold(0_usize, |sum, n| sum.saturating_add(*n));
    assert!(
        sum == pairs,
        "RoPE: the sections {sections:?} make up {sum} pairs, but the tables have {pairs}"
    );
    if key.sections == Sections::Interleaved {
        for (axis, name) in [(1, "height"), (2, "width")] {
            let found = (0..pairs)
                .filter(|pair| position(*pair, sections, key.sections) == axis)
                .count();
            assert!(
                found == sections[axis],
                "RoPE: of the sections {sections:?}, {name} has {} pairs, but in turns of three \
                 only {found} of {pairs} come to it",
                sections[axis]
            );
        }
    }
}

/// Returns the position that a pair takes: 0 for time, 1 for height, 2 for width.
fn position(pair: usize, sections: [usize; 3], order: Sections) -> usize {
    let turn = pair % 3;
    match order {
        Sections::None => 0,
        Sections::Chunked if pair < sections[0] => 0,
        Sections::Chunked if pair < sections[0] + sections[1] => 1,
        Sections::Chunked => 2,
        Sections::Interleaved if pair < 3 * sections[turn] => turn,
        Sections::Interleaved => 0,
    }
}

/// Merges `[3, b, s, w]` to `[b, s, w]`. The result has a gradient, because it uses plain operations.
pub(crate) fn merge(table: Tensor<4>, sections: [usize; 3], key: RopeKey) -> Tensor<3> {
    let [three, b, s, w] = table.dims();
    let pairs = w / 2;
    let places: Vec<i64> = (0..w)
        .map(|i| (position(i % pairs, sections, key.sections) * w + i) as i64)
        .collect();
    let places = Tensor::<1, Int>::from_data(places.as_slice(), &table.device());
    table
        .permute([1, 2, 0, 3])
        .reshape([b, s, three * w])
        .select(2, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(pairs: usize, sections: [usize; 3], order: Sections) -> Vec<usize> {
        (0..pairs)
            .map(|pair| position(pair, sections, order))
            .collect()
    }

    #[test]
    fn pairs_take_their_positions() {
        assert_eq!(
            positions(8, [2, 3, 3], Sections::Chunked),
            [0, 0, 1, 1, 1, 2, 2, 2]
        );
        assert_eq!(
            positions(8, [4, 2, 2], Sections::Interleaved),
            [0, 1, 2, 0, 1, 2, 0, 0]
        );
    }

    #[test]
    fn every_pair_of_a_model_has_its_section() {
        for (sections, order) in [
            ([16, 24, 24], Sections::Chunked),
            ([24, 20, 20], Sections::Interleaved),
        ] {
            let found = positions(64, sections, order);
            let count = |axis| found.iter().filter(|p| **p == axis).count();
            assert_eq!([count(0), count(1), count(2)], sections);
        }
    }
}
