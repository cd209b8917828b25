use super::super::Integers;
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SETTINGS: Settings = Settings {
    activation: Activation::Identity,
    projections: Projections::Separate,
    layout: ExpertLayout::Matmul,
    limit: None,
    up_offset: 0.0,
};

/// Two tokens of two elements, each routed to both of two experts of width one. The second expert is twice the first.
fn operands<'a>(groups: &'a Groups) -> Operands<'a> {
    let stacked = |data: &'a [f32], sizes: &[usize]| vec![Strided::whole(data, sizes)];
    Operands {
        x: Strided::whole(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2]),
        routing: Strided::whole(&[0.5_f32, 1.0, 1.0, 0.0], &[2, 2]),
        groups,
        weights: vec![
            stacked(&[1.0, 0.0, 2.0, 0.0], &[2, 2, 1]),
            stacked(&[0.0, 1.0, 0.0, 1.0], &[2, 2, 1]),
            stacked(&[1.0, 10.0, 1.0, 10.0], &[2, 1, 2]),
            vec![],
            vec![],
            vec![],
        ],
        settings: SETTINGS,
    }
}

fn groups() -> Groups {
    Groups::by_expert(Integers::I32(&[0, 1, 1, 0]), 2, 2)
}

fn wanted(flag: bool) -> Wanted {
    Wanted {
        x: flag,
        routing: flag,
        weights: [1, 1, 1, 0, 0, 0].map(|count| vec![flag; count]).to_vec(),
    }
}

#[test]
fn weighted_results_are_added_up_by_token() {
    let groups = groups();
    let operands = operands(&groups);
    let Found { y, kept } = forward(&operands, true);
    // Of the first token, 1 · 2 and 2 · 2 with the weights 0.5 and 1; of the second, 6 · 4 and 3 · 4 with 1 and 0.
    assert_eq!(y, Values::F32(vec![5.0, 50.0, 24.0, 240.0]));
    let expected = [1.0_f32, 2.0, 3.0, 4.0, 2.0, 2.0, 6.0, 4.0];
    assert_eq!(kept, Some(Values::F32(expected.to_vec())));
    let (dy, kept) = (
        Strided::whole(&[1.0_f32, 0.0, 0.0, 0.0], &[2, 2]),
        Strided::whole(&expected[..], &[4, 2]),
    );
    let found = backward(&operands, &dy, &kept, &wanted(true)).by_token();
    assert_eq!(found.x, Some(Values::F32(vec![5.0, 2.5, 0.0, 0.0])));
    assert_eq!(found.routing, Some(Values::F32(vec![2.0, 4.0, 0.0, 0.0])));
    let lengths = found.weights.iter().map(|group| {
        let lengths = group.iter().flatten().map(Values::len);
        lengths.collect::<Vec<_>>()
    });
    let expected = [vec![4], vec![4], vec![4], vec![], vec![], vec![]];
    assert!(lengths.eq(expected));
    let down = Values::F32(vec![1.0, 0.0, 4.0, 0.0]);
    assert_eq!(found.weights[DOWN], [Some(down)]);
    let none = backward(&operands, &dy, &kept, &wanted(false)).by_token();
    assert!(none.x.is_none() && none.routing.is_none());
    assert!(none.weights.iter().flatten().all(Option::is_none));
}

#[test]
fn tensors_that_do_not_go_together_are_refused() {
    static NUMBERS: [f32; 12] = [1.0; 12];
    let whole = |sizes: &[usize]| {
        let count = sizes.iter().product();
        Strided::whole(&NUMBERS[..count], sizes)
    };
    let groups = groups();
    let few = Groups::by_expert(Integers::I32(&[0, 1]), 2, 2);
    let three = Groups::by_expert(Integers::I32(&[0, 1, 1, 2]), 2, 3);
    type Change<'a> = &'a dyn Fn(&mut Operands<'_>);
    let changes: [(&str, Change<'_>); 10] = [
        ("tokens", &|operands| operands.x = whole(&[3, 2])),
        ("axes", &|operands| operands.x = whole(&[4])),
        ("routing", &|operands| operands.routing = whole(&[2, 1])),
        ("gate", &|operands| {
            operands.weights[GATE] = vec![whole(&[2, 2, 2])]
        }),
        ("no up", &|operands| operands.weights[UP].clear()),
        ("up", &|operands| {
            operands.settings.projections = Projections::Chunked;
        }),
        ("down", &|operands| {
            operands.weights[DOWN] = vec![whole(&[2, 1, 3])]
        }),
        ("experts", &|operands| {
            operands.weights[DOWN] = vec![whole(&[1, 2]); 3]
        }),
        ("bias", &|operands| {
            operands.weights[BIASES] = vec![whole(&[2, 1])]
        }),
        ("groups", &|operands| _ = operands.weights.pop()),
    ];
    for (what, change) in changes {
        let mut changed = operands(&groups);
        change(&mut changed);
        assert!(catch_unwind(|| forward(&changed, false)).is_err(), "{what}");
    }
    for groups in [&few, &three] {
        let changed = operands(groups);
        assert!(catch_unwind(|| forward(&changed, false)).is_err());
    }
    let operands = operands(&groups);
    let of = |dy: &[usize], kept: &[usize], wanted: &Wanted| {
        let (dy, kept) = (whole(dy), whole(kept));
        let found = || _ = backward(&operands, &dy, &kept, wanted).by_token();
        catch_unwind(AssertUnwindSafe(found)).is_err()
    };
    assert!(!of(&[2, 2], &[4, 2], &wanted(true)));
    assert!(of(&[1, 2], &[4, 2], &wanted(true)));
    assert!(of(&[2, 2], &[3, 2], &wanted(true)));
    assert!(of(&[2, 2], &[4, 1], &wanted(true)));
    let mut others = wanted(true);
    others.weights[GATE].push(true);
    assert!(of(&[2, 2], &[4, 2], &others));
}
