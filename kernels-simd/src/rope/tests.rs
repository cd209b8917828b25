use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const HALVES: Settings = Settings {
    style: RopeStyle::Half,
    layout: HeadLayout::Bnsd,
    table: TableLayout::Pairs,
};

fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 37 % 23) as f32 / 7.0 - 1.5)
        .collect()
}

fn f32s(values: Values) -> Vec<f32> {
    match values {
        Values::F32(values) => values,
        other => panic!("not in f32: {other:?}"),
    }
}

/// Compares a head of five elements, four of them rotated, with the formula, in every order of pairs and layout of
/// tables.
#[test]
fn pairs_turn_by_their_angles() {
    let x = [1.0_f32, 2.0, 3.0, 4.0, 5.0];
    let (cos, sin) = ([0.5_f32, 0.25], [2.0_f32, 3.0]);
    let turn = |a: f32, b: f32, i: usize| [a * cos[i] - b * sin[i], b * cos[i] + a * sin[i]];
    let [[a, c], [b, d]] = [turn(1.0, 3.0, 0), turn(2.0, 4.0, 1)];
    let [[e, f], [g, h]] = [turn(1.0, 2.0, 0), turn(3.0, 4.0, 1)];
    for (style, expected) in [
        (RopeStyle::Half, [a, b, c, d, 5.0]),
        (RopeStyle::Interleaved, [e, f, g, h, 5.0]),
        (RopeStyle::InterleavedToHalf, [e, g, f, h, 5.0]),
    ] {
        for table in [
            TableLayout::Pairs,
            TableLayout::Halves,
            TableLayout::Neighbours,
        ] {
            let of = |of: [f32; 2]| match table {
                TableLayout::Pairs => of.to_vec(),
                TableLayout::Halves => [of, of].concat(),
                TableLayout::Neighbours => vec![of[0], of[0], of[1], of[1]],
            };
            if table == TableLayout::Neighbours && style != RopeStyle::Interleaved {
                continue;
            }
            let (cos, sin) = (of(cos), of(sin));
            let sizes = [1, 1, cos.len()];
            let operands = Operands {
                x: View::whole(&x, &[1, 1, 1, 5]),
                cos: View::whole(&cos, &sizes),
                sin: View::whole(&sin, &sizes),
                settings: Settings {
                    style,
                    table,
                    ..HALVES
                },
            };
            assert_eq!(f32s(forward(&operands)), expected, "{style:?}, {table:?}");
        }
    }
}

/// One table is for all sequences, and heads may have any strides.
#[test]
fn heads_are_read_in_either_layout() {
    let (data, table) = (numbers(2 * 3 * 5 * 4), numbers(2 * 3 * 2));
    let sizes = [2, 3, 5, 4];
    let (whole, [a, b, c, d]) = (View::whole(&data, &sizes), [60, 20, 4, 1]);
    let turned = View::of(&data, &[2, 5, 3, 4], &[a, c, b, d], 0);
    for batch in [1, 2] {
        let table = View::whole(&table[..batch * 6], &[batch, 3, 2]);
        let of = |x: &View<'_>, layout| {
            let settings = Settings { layout, ..HALVES };
            let (cos, sin) = (table.clone(), table.clone());
            let x = x.clone();
            let operands = Operands {
                x,
                cos,
                sin,
                settings,
            };
            [forward(&operands), backward(&operands)].map(f32s)
        };
        let both = [of(&whole, HeadLayout::Bsnd), of(&turned, HeadLayout::Bnsd)];
        for (whole, turned) in both[0].iter().zip(&both[1]) {
            let back = View::of(turned, &sizes, &[60, 4, 12, 1], 0);
            let rows = Rows::<f32>::of(&back);
            assert!(rows.range(0..30).flatten().eq(whole));
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let (data, halves) = (numbers(64), [half::bf16::ONE; 16]);
    let right = || Operands {
        x: View::whole(&data[..32], &[2, 1, 4, 4]),
        cos: View::whole(&data[..8], &[1, 4, 2]),
        sin: View::whole(&data[..16], &[2, 4, 2]),
        settings: HALVES,
    };
    assert_eq!(forward(&right()).len(), 32);
    let refused = |operands: Operands<'_>| {
        [forward, backward]
            .into_iter()
            .all(|rotate| catch_unwind(AssertUnwindSafe(|| rotate(&operands))).is_err())
    };
    for x in [
        View::whole(&data[..32], &[2, 4, 4]),
        View::whole(&data[..32], &[2, 2, 2, 4]),
        View::whole(&data[..48], &[3, 1, 4, 4]),
        View::whole(&data[..24], &[2, 1, 4, 3]),
        View::of(&data, &[2, 1, 4, 4], &[16, 16, 1, 4], 0),
        View::whole(&halves, &[1, 1, 4, 4]),
    ] {
        assert!(refused(Operands { x, ..right() }));
    }
    for sin in [
        View::whole(&data[..8], &[4, 2]),
        View::whole(&data[..4], &[1, 4, 1]),
        View::whole(&data[..6], &[1, 3, 2]),
        View::whole(&halves[..8], &[1, 4, 2]),
        View::of(&data, &[1, 4, 2], &[8, 1, 4], 0),
    ] {
        assert!(refused(Operands { sin, ..right() }));
    }
    let odd = || View::whole(&data[..12], &[1, 4, 3]);
    let settings = Settings {
        table: TableLayout::Halves,
        ..HALVES
    };
    assert!(refused(Operands {
        cos: odd(),
        sin: odd(),
        settings,
        ..right()
    }));
    let four = || View::whole(&data[..16], &[1, 4, 4]);
    let settings = Settings {
        table: TableLayout::Neighbours,
        ..HALVES
    };
    assert!(refused(Operands {
        cos: four(),
        sin: four(),
        settings,
        ..right()
    }));
}
