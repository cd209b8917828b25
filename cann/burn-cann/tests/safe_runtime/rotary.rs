//! Tests of rotary embeddings on the emulator against f64, in every order of dimensions, style and shape of table.

use crate::common::maths::{F32_INSIDE, assert_close, noise, tensor, values};
use crate::common::{Scenario, device};
use burn_cann::ops::rotary::{Axes, Style, rotary, rotary_grad};
use burn_cann::{Cann, DType};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Computes `rotate(x)` of one row.
fn rotate(row: &[f64], style: Style) -> Vec<f64> {
    let half = row.len() / 2;
    match style {
        Style::Half => row[half..]
            .iter()
            .map(|x| -x)
            .chain(row[..half].iter().copied())
            .collect(),
        Style::Interleaved => row.chunks(2).flat_map(|pair| [-pair[1], pair[0]]).collect(),
    }
}

/// Computes the transpose of `rotate`.
fn rotate_back(row: &[f64], style: Style) -> Vec<f64> {
    rotate(row, style).into_iter().map(|x| -x).collect()
}

/// Returns the start of the table's row for each row of x.
fn places(shape: &[usize], table: &[usize]) -> Vec<usize> {
    let rank = shape.len() - 1;
    let rows: usize = shape[..rank].iter().product();
    let place = |row: usize| {
        let (mut rest, mut place, mut stride) = (row, 0, shape[rank]);
        for dim in (0..rank).rev() {
            let index = rest % shape[dim];
            rest /= shape[dim];
            if table[dim] > 1 {
                place += index * stride;
                stride *= table[dim];
            }
        }
        place
    };
    (0..rows).map(place).collect()
}

struct Case {
    axes: Axes,
    style: Style,
    shape: [usize; 4],
    table: [usize; 4],
}

fn cases() -> Vec<Case> {
    let (b, n, s, d) = (2, 3, 5, 16);
    let layouts = [
        (
            Axes::BatchHeadsSequence,
            [b, n, s, d],
            [1, 1, s, d],
            [b, 1, s, d],
        ),
        (
            Axes::BatchSequenceHeads,
            [b, s, n, d],
            [1, s, 1, d],
            [b, s, 1, d],
        ),
        (
            Axes::SequenceBatchHeads,
            [s, b, n, d],
            [s, 1, 1, d],
            [s, b, 1, d],
        ),
    ];
    let mut cases = Vec::new();
    for (axes, shape, shared, by_batch) in layouts {
        cases.push(Case {
            axes,
            style: Style::Interleaved,
            shape,
            table: shared,
        });
        for table in [shared, by_batch, shape] {
            cases.push(Case {
                axes,
                style: Style::Half,
                shape,
                table,
            });
        }
    }
    cases
}

#[test]
fn forward_and_gradients() {
    Scenario::new().run(in_every_layout);
}

/// A toolkit before 9.0 has only the first version.
#[test]
fn forward_and_gradients_without_v2() {
    Scenario::new()
        .hide("aclnnRotaryPositionEmbeddingV2")
        .run(in_every_layout);
}

fn in_every_layout(cann: &Cann) {
    let (_device, stream) = device(cann);
    for dtype in FLOATS {
        for Case {
            axes,
            style,
            shape,
            table,
        } in cases()
        {
            let (count, width) = (shape.iter().product(), shape[3]);
            let size = table.iter().product();
            let (x, x64) = tensor(&stream, dtype, &noise(count, 1), &shape);
            let (cos, cos64) = tensor(&stream, dtype, &noise(size, 2), &table);
            let (sin, sin64) = tensor(&stream, dtype, &noise(size, 3), &table);
            let y = rotary(&stream, &x, &cos, &sin, style, axes).unwrap();
            let (dy, dy64) = tensor(&stream, dtype, &noise(count, 4), &shape);
            let found = rotary_grad(&stream, &dy, &cos, &sin, Some(&x), style, axes).unwrap();

            let (mut expected, mut dx) = (Vec::new(), Vec::new());
            let (mut dcos, mut dsin) = (vec![0.0; size], vec![0.0; size]);
            let rows = x64
                .chunks(width)
                .zip(dy64.chunks(width))
                .zip(places(&shape, &table));
            for ((x, dy), at) in rows {
                let (cos, sin) = (&cos64[at..at + width], &sin64[at..at + width]);
                let turned = rotate(x, style);
                let by_sin: Vec<f64> = dy.iter().zip(sin).map(|(dy, sin)| dy * sin).collect();
                let back = rotate_back(&by_sin, style);
                for i in 0..width {
                    expected.push(x[i] * cos[i] + turned[i] * sin[i]);
                    dx.push(dy[i] * cos[i] + back[i]);
                    dcos[at + i] += dy[i] * x[i];
                    dsin[at + i] += dy[i] * turned[i];
                }
            }
            assert_close(&values(&stream, &y), &expected, dtype, F32_INSIDE);
            assert_close(&values(&stream, &found.dx), &dx, dtype, F32_INSIDE);
            let (found_cos, found_sin) = found.tables.unwrap();
            assert_close(&values(&stream, &found_cos), &dcos, dtype, F32_INSIDE);
            assert_close(&values(&stream, &found_sin), &dsin, dtype, F32_INSIDE);

            let alone = rotary_grad(&stream, &dy, &cos, &sin, None, style, axes).unwrap();
            assert!(alone.tables.is_none());
            assert_close(&values(&stream, &alone.dx), &dx, dtype, F32_INSIDE);
        }
    }
}

#[test]
fn x_may_be_strided_and_empty() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (style, axes) = (Style::Half, Axes::BatchSequenceHeads);
        // Heads come before the sequence in memory and after it in the view.
        let (base, base64) = tensor(&stream, DType::F32, &noise(2 * 3 * 5 * 8, 1), &[2, 3, 5, 8]);
        let x = base.transpose(1, 2).unwrap();
        let (cos, cos64) = tensor(&stream, DType::F32, &noise(40, 2), &[1, 5, 1, 8]);
        let (sin, sin64) = tensor(&stream, DType::F32, &noise(40, 3), &[1, 5, 1, 8]);
        let y = rotary(&stream, &x, &cos, &sin, style, axes).unwrap();
        let x64 = crate::common::maths::view(&base64, x.layout());
        let rows = x64.chunks(8).zip(places(x.shape(), &[1, 5, 1, 8]));
        let expected: Vec<f64> = rows
            .flat_map(|(x, at)| {
                let turned = rotate(x, style);
                let (cos, sin) = (&cos64, &sin64);
                (0..8)
                    .map(|i| x[i] * cos[at + i] + turned[i] * sin[at + i])
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_close(&values(&stream, &y), &expected, DType::F32, F32_INSIDE);
        let none = base.slice(0, 0..0).unwrap().transpose(1, 2).unwrap();
        assert_eq!(
            rotary(&stream, &none, &cos, &sin, style, axes)
                .unwrap()
                .shape(),
            [0, 5, 3, 8]
        );
    });
}
