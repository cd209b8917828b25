use super::*;
use crate::keys::TableLayout;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SIZES: [usize; 4] = [2, 3, 5, 4];

const SETTINGS: Settings = Settings {
    eps: 1e-6,
    offset: 0.0,
    rounding: Rounding::Llama,
    together: false,
    rotation: rope::Settings {
        style: RopeStyle::Half,
        layout: HeadLayout::Bnsd,
        table: TableLayout::Pairs,
    },
};

fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 37 % 23) as f32 / 7.0 - 1.5)
        .collect()
}

fn f32s(values: &Values) -> &[f32] {
    match values {
        Values::F32(values) => values,
        other => panic!("not in f32: {other:?}"),
    }
}

fn refused<R>(call: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// The results are those of the norm and of the rotation one after the other.
#[test]
fn the_norm_comes_before_the_rotation() {
    let (data, table) = (numbers(120), numbers(6));
    let table = View::whole(&table, &[1, 3, 2]);
    for (together, layout) in [
        (false, HeadLayout::Bnsd),
        (false, HeadLayout::Bsnd),
        (true, HeadLayout::Bnsd),
        (true, HeadLayout::Bsnd),
    ] {
        let n = if together { 20 } else { 4 };
        let weight = View::whole(&data[..n], &[n]);
        let rows = View::whole(&data, &[120 / n, n]);
        let norm = rms_norm::Operands {
            x: rows.clone(),
            weight: Some(weight.clone()),
            gate: None,
            bias: None,
            settings: rms_norm::Settings {
                eps: SETTINGS.eps,
                group_size: None,
                offset: 0.0,
                rounding: SETTINGS.rounding,
                gating: Gating::None,
            },
        };
        let rotation = rope::Settings {
            layout,
            ..SETTINGS.rotation
        };
        let rotated = |x: View<'_>, rotate: fn(&rope::Operands<'_>) -> Values| {
            rotate(&rope::Operands {
                x,
                cos: table.clone(),
                sin: table.clone(),
                settings: rotation,
            })
        };
        let normalised = rms_norm::forward(&norm, None);
        let y = View::whole(f32s(&normalised.y), &SIZES);
        let expected = rotated(placed(&y, layout), rope::forward);

        let operands = Operands {
            x: View::whole(&data, &SIZES),
            weight: Some(weight),
            cos: table.clone(),
            sin: table.clone(),
            settings: Settings {
                together,
                rotation,
                ..SETTINGS
            },
        };
        assert_eq!(forward(&operands), expected, "{together}, {layout:?}");

        let result = placed(&operands.x, layout).sizes().to_vec();
        let dy = View::whole(&data, &result);
        let turned = rotated(dy.clone(), rope::backward);
        let turned = placed(&View::whole(f32s(&turned), &result), layout);
        let copy: Vec<f32> = {
            let rows = crate::Rows::<f32>::of(&turned);
            rows.range(0..30).flatten().copied().collect()
        };
        let expected = rms_norm::backward(&rms_norm::Backward {
            operands: norm,
            dy: View::whole(&copy, rows.sizes()),
            rstd: View::whole(f32s(&normalised.rstd), &[120 / n]),
            before: None,
            wants_weight: true,
            wants_bias: false,
        });
        let found = backward(&operands, &dy, true);
        assert_eq!(found.x, expected.x, "{together}, {layout:?}");
        assert_eq!(found.weight, expected.weight, "{together}, {layout:?}");
    }
}

#[test]
fn heads_without_elements_have_no_results() {
    let none: [f32; 0] = [];
    for together in [false, true] {
        let operands = Operands {
            x: View::whole(&none, &[2, 3, 5, 0]),
            weight: Some(View::whole(&none, &[0])),
            cos: View::whole(&none, &[1, 3, 0]),
            sin: View::whole(&none, &[1, 3, 0]),
            settings: Settings {
                together,
                ..SETTINGS
            },
        };
        assert_eq!(forward(&operands).len(), 0);
        let found = backward(&operands, &View::whole(&none, &[2, 5, 3, 0]), true);
        assert_eq!(found.x.len() + found.weight.unwrap().len(), 0);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let data = numbers(240);
    let table = View::whole(&data[..6], &[1, 3, 2]);
    let right = || Operands {
        x: View::whole(&data[..120], &SIZES),
        weight: Some(View::whole(&data[..4], &[4])),
        cos: table.clone(),
        sin: table.clone(),
        settings: SETTINGS,
    };
    let dy = View::whole(&data[..120], &[2, 5, 3, 4]);
    assert_eq!(forward(&right()).len(), 120);
    let changes: [fn(&mut Operands<'_>); 4] = [
        |operands| operands.weight = Some(operands.cos.clone()),
        |operands| operands.settings.together = true,
        |operands| operands.sin = operands.weight.clone().unwrap(),
        |operands| operands.settings.rotation.style = RopeStyle::InterleavedToHalf,
    ];
    for change in changes {
        let mut operands = right();
        change(&mut operands);
        assert!(refused(|| forward(&operands)), "{operands:?}");
        assert!(refused(|| backward(&operands, &dy, false)), "{operands:?}");
    }
    // The heads of a token are not neighbours.
    let mut operands = right();
    operands.settings.together = true;
    operands.weight = Some(View::whole(&data[..20], &[20]));
    assert_eq!(forward(&operands).len(), 120);
    operands.x = View::of(&data, &SIZES, &[120, 40, 8, 1], 0);
    assert!(refused(|| forward(&operands)));

    assert_eq!(backward(&right(), &dy, true).x.len(), 120);
    let exchanged = View::whole(&data[..120], &SIZES);
    assert!(refused(|| backward(&right(), &exchanged, true)));
    let without = Operands {
        weight: None,
        ..right()
    };
    assert_eq!(backward(&without, &dy, false).x.len(), 120);
    assert!(refused(|| backward(&without, &dy, true)));
}
