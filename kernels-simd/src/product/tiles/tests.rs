//! Tests of sizes around those of tiles, compared with sums of one term after the other.

use super::*;

/// Tests sizes around those of tiles, with elements between lines that must not be touched.
#[test]
fn tiles_of_all_sizes() {
    if !super::super::tested(available(), "AVX-512") {
        return;
    }
    let value = |i: usize| ((i * 7919) % 101) as f32 - 50.0;
    for (lanes, others, k) in [
        (1, 1, 1),
        (15, 7, 16),
        (16, 8, 17),
        (17, 9, 3),
        (48, 16, 130),
        (49, 3, 513),
        (70, 21, 5),
        (33, 1, 129),
        (16, 43, 33),
        (9, 16, 1030),
        (100, 27, 140),
        (5, 4, 0),
        // Large enough to be written past the caches.
        (303, 120, 9),
        // More lanes than are traversed at a time, also past the caches.
        (200, 12, 700),
        (500, 80, 300),
    ] {
        for (kind, add) in [
            (Kind::ByFeatures, false),
            (Kind::ByFeatures, true),
            (Kind::ByRows, false),
            (Kind::ByRows, true),
            (Kind::Outer, false),
            (Kind::Outer, true),
        ] {
            check(kind, Sizes { lanes, others, k }, add, value);
        }
    }
}

fn check(kind: Kind, sizes: Sizes, add: bool, value: impl Fn(usize) -> f32) {
    let Sizes { lanes, others, k } = sizes;
    let (k_stride, stride) = match kind {
        Kind::Outer => (others, 1),
        Kind::ByFeatures | Kind::ByRows => (1, k.max(1)),
    };
    // Exactly the required length, so a memory checker detects a read beyond it.
    let left: Vec<f32> = (0..lanes * k).map(&value).collect();
    let right: Vec<f32> = (0..others * k).map(|i| value(i + 13)).collect();
    let (lines, length) = match kind {
        Kind::ByFeatures => (lanes, others),
        Kind::ByRows | Kind::Outer => (others, lanes),
    };
    let out_stride = length.next_multiple_of(LANES) + LANES;
    let mut out = vec![MaybeUninit::new(7.0); lines * out_stride];
    let (left_operand, right_operand) = (
        Operand {
            data: &left,
            k_stride: lanes,
            stride: 1,
        },
        Operand {
            data: &right,
            k_stride,
            stride,
        },
    );
    // SAFETY: the machine was checked before; all slices have the length that sizes and strides require.
    unsafe {
        let out = (&mut out[..], out_stride);
        multiply(
            kind,
            sizes,
            left_operand,
            right_operand,
            out,
            add,
            Terms::Single,
        );
    }
    for (at, sum) in out.into_iter().enumerate() {
        // SAFETY: all elements are initialised above.
        let sum = unsafe { sum.assume_init() };
        let (line, along) = (at / out_stride, at % out_stride);
        if along >= length {
            assert_eq!(sum, 7.0, "a place between lines was written");
            continue;
        }
        let (lane, other) = match kind {
            Kind::ByFeatures => (line, along),
            Kind::ByRows | Kind::Outer => (along, line),
        };
        let exact: f32 = (0..k)
            .map(|k| left[k * lanes + lane] * right[k * k_stride + other * stride])
            .sum();
        let expected = exact + if add { 7.0 } else { 0.0 };
        assert_eq!(sum, expected, "{lanes} × {others} × {k} at {other}, {lane}");
    }
}
