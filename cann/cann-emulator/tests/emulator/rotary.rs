//! Tests of the rotary position embedding: against the goldens and f64, and its documented limits.

use crate::common::goldens::Goldens;
use crate::common::*;
use cann_emulator::abi::rotary::*;

const HALF: i64 = 0;
const INTERLEAVED: i64 = 1;

fn rotary(x: &Tensor, cos: &Tensor, sin: &Tensor, mode: i64, output: &Tensor) -> Status {
    call!(aclnnRotaryPositionEmbedding: x, cos, sin, mode, output)
}

fn rotary_v2(
    [x, cos, sin]: [&Tensor; 3],
    mode: i64,
    rotate: Option<&Tensor>,
    output: &Tensor,
) -> Status {
    let rotate = rotate.map_or(null(), |rotate| rotate.handle.cast_const());
    call!(aclnnRotaryPositionEmbeddingV2: x, cos, sin, mode, rotate, output)
}

/// Computes the gradients. Inputs are dy, cos, sin, and x or none; outputs are dx, dcos, dsin.
fn rotary_grad(
    [dy, cos, sin]: [&Tensor; 3],
    x: Option<&Tensor>,
    mode: i64,
    [dx, dcos, dsin]: [&Tensor; 3],
) -> Status {
    let x = x.map_or(null(), |x| x.handle.cast_const());
    call!(aclnnRotaryPositionEmbeddingGrad: dy, cos, sin, x, mode, dx, dcos, dsin)
}

/// Runs transformers' rotate-half cases: [b, h, s, d], with tables [b, s, d], which become [b, 1, s, d].
#[test]
fn half_is_that_of_the_goldens_rounded_once() {
    let _session = Session::start();
    let goldens = Goldens::open("rope");
    let mut count = 0;
    for case in goldens.cases("ref.q_out") {
        let is_half = case.starts_with("rotate_half.");
        if !is_half || case.dtype("cos") != case.dtype("q") {
            continue;
        }
        count += 1;
        let dtype = case.dtype("q");
        let mut table = case.shape("cos");
        table.insert(1, 1);
        let [cos, sin] =
            ["cos", "sin"].map(|part| Tensor::floats(dtype, &table, &case.floats(part)));
        for (input, output, dy, dx) in [
            ("q", "ref.q_out", "d_q_out", "ref.d_q"),
            ("k", "ref.k_out", "d_k_out", "ref.d_k"),
        ] {
            let shape = case.shape(input);
            let x = case.tensor(input);
            let y = Tensor::empty(dtype, &shape);
            rotary(&x, &cos, &sin, HALF, &y).expect(&case);
            y.assert_close(&case, &case.exact(output), 1e-6);

            let dy = case.tensor(dy);
            let (found, unused) = (Tensor::empty(dtype, &shape), Tensor::empty(dtype, &table));
            rotary_grad([&dy, &cos, &sin], None, HALF, [&found, &unused, &unused]).expect(&case);
            found.assert_close(&case, &case.exact(dx), 1e-6);
            assert!(
                unused.read().iter().all(|value| value.is_nan()),
                "without x it is not written"
            );
        }
    }
    assert!(count > 3, "{count} cases");
}

fn source(mode: i64, at: usize, width: usize) -> (usize, f64) {
    match mode {
        HALF if at < width / 2 => (at + width / 2, -1.0),
        HALF => (at - width / 2, 1.0),
        _ if at.is_multiple_of(2) => (at + 1, -1.0),
        _ => (at - 1, 1.0),
    }
}

/// Compares the forward result and all gradients with f64, in BSND with tables [1, s, 1, d]. Gradients of tables are
/// sums over all uses.
#[test]
fn every_gradient_is_that_of_f64_in_both_modes() {
    let _session = Session::start();
    let (batch, sequence, heads, width) = (2, 3, 4, 8);
    let shape = [batch, sequence, heads, width];
    let values = noise(shape.iter().product(), 1);
    let grads = noise(shape.iter().product(), 2);
    let (cosines, sines) = (noise(sequence * width, 3), noise(sequence * width, 4));
    for mode in [HALF, INTERLEAVED] {
        let mut y = vec![0.0; values.len()];
        let mut dx = vec![0.0; values.len()];
        let (mut dcos, mut dsin) = (vec![0.0; cosines.len()], vec![0.0; cosines.len()]);
        for row in 0..batch * sequence * heads {
            let at = (row / heads) % sequence;
            for column in 0..width {
                let (from, sign) = source(mode, column, width);
                let here = row * width + column;
                let there = row * width + from;
                let table = at * width + column;
                let (x, turned) = (f64::from(values[here]), sign * f64::from(values[there]));
                let cos = f64::from(cosines[table]);
                let sin = f64::from(sines[table]);
                let dy = f64::from(grads[here]);
                y[here] = x * cos + turned * sin;
                dx[here] += dy * cos;
                dx[there] += sign * dy * sin;
                dcos[table] += dy * x;
                dsin[table] += dy * turned;
            }
        }
        let table = [1, sequence, 1, width];
        let cos = Tensor::floats(F32, &table, &cosines);
        let sin = Tensor::floats(F32, &table, &sines);
        let x = Tensor::floats(F32, &shape, &values);
        let out = Tensor::empty(F32, &shape);
        rotary(&x, &cos, &sin, mode, &out).expect("documented");
        out.assert_close("y", &y, 1e-6);

        let dy = Tensor::floats(F32, &shape, &grads);
        let found = [
            Tensor::empty(F32, &shape),
            Tensor::empty(F32, &table),
            Tensor::empty(F32, &table),
        ];
        rotary_grad([&dy, &cos, &sin], Some(&x), mode, found.each_ref()).expect("documented");
        for (name, (found, exact)) in ["dx", "dcos", "dsin"]
            .iter()
            .zip(found.iter().zip([&dx, &dcos, &dsin]))
        {
            found.assert_close(name, exact, 1e-6);
        }
    }
}

#[test]
fn layouts_modes_and_sizes_are_those_of_the_documentation() {
    let _session = Session::start();
    let status = |dtype, shape: &[usize], table: &[usize], mode| {
        let (x, y) = (Tensor::empty(dtype, shape), Tensor::empty(dtype, shape));
        let (cos, sin) = (Tensor::empty(dtype, table), Tensor::empty(dtype, table));
        rotary(&x, &cos, &sin, mode, &y).map_err(|(code, _)| code)
    };
    // The orders are BNSD, BSND, SBND and tokens.
    for (shape, tables) in [
        (
            vec![2, 3, 5, 8],
            vec![vec![1, 1, 5, 8], vec![2, 1, 5, 8], vec![2, 3, 5, 8]],
        ),
        (vec![2, 5, 3, 8], vec![vec![1, 5, 1, 8], vec![2, 5, 1, 8]]),
        (vec![5, 2, 3, 8], vec![vec![5, 1, 1, 8], vec![5, 2, 1, 8]]),
        (vec![5, 3, 8], vec![vec![5, 1, 8], vec![5, 3, 8]]),
    ] {
        for (position, table) in tables.iter().enumerate() {
            assert_eq!(
                status(F16, &shape, table, HALF),
                Ok(()),
                "{shape:?} {table:?}"
            );
            let interleaved = if position == 0 {
                Ok(())
            } else {
                Err(ACLNN_ERR_INNER_TILING_ERROR)
            };
            assert_eq!(
                status(F16, &shape, table, INTERLEAVED),
                interleaved,
                "{shape:?} {table:?}"
            );
        }
    }
    let tiling = Err(ACLNN_ERR_INNER_TILING_ERROR);
    assert_eq!(status(F16, &[1, 1, 4, 8], &[1, 1, 3, 8], HALF), tiling);
    assert_eq!(
        status(F16, &[1, 1, 4, 7], &[1, 1, 4, 7], HALF),
        tiling,
        "odd"
    );
    assert_eq!(
        status(F16, &[1, 1, 2, 896], &[1, 1, 2, 896], HALF),
        tiling,
        "too wide"
    );
    assert_eq!(
        status(F16, &[1, 1, 4, 8], &[1, 1, 4, 4], HALF),
        tiling,
        "tables of half the width"
    );
    assert_eq!(
        status(F16, &[40, 30, 1, 2], &[1, 1, 1, 2], INTERLEAVED),
        tiling,
        "heads"
    );
    for mode in [2, 3, 4, -1] {
        assert_eq!(
            status(F16, &[1, 1, 4, 8], &[1, 1, 4, 8], mode),
            tiling,
            "mode {mode}"
        );
    }
    assert_eq!(
        status(F16, &[0, 2, 4, 8], &[1, 1, 4, 8], HALF),
        Ok(()),
        "empty"
    );

    let x = Tensor::empty(F16, &[1, 1, 4, 8]);
    let table = Tensor::empty(F32, &[1, 1, 4, 8]);
    each! { fails: rotary(&x, &table, &table, HALF, &x), ACLNN_ERR_PARAM_INVALID }
    let view = Tensor::strided(F16, &[1, 1, 4, 8], Some(&[32, 32, 1, 4]), 0, 32);
    assert_eq!(
        rotary(&view, &x, &x, HALF, &x),
        Ok(()),
        "inputs may be views"
    );
    let (code, _) = rotary(&x, &x, &x, HALF, &view).expect_err("the output may not");
    assert_eq!(code, ACLNN_ERR_PARAM_INVALID);
}

/// CANN 9 documents another limit for heads before the sequence: 8 heads for each position.
#[test]
fn the_number_of_heads_is_limited_by_the_sequence_from_cann_9_on() {
    for (version, fits) in [("8.5.0", true), ("9.1.0", false)] {
        let _session = Session::with(Config {
            version: version.to_owned(),
            ..Config::default()
        });
        let x = Tensor::empty(F16, &[3, 4, 1, 64]);
        let table = Tensor::empty(F16, &[1, 1, 1, 64]);
        assert_eq!(
            rotary(
                &x,
                &table,
                &table,
                HALF,
                &Tensor::empty(F16, &[3, 4, 1, 64])
            )
            .is_ok(),
            fits
        );
    }
}

/// The published example calls it so: without x, and with empty tensors for unwanted gradients.
#[test]
fn unwanted_gradients_of_the_tables_may_be_empty_tensors() {
    let _session = Session::start();
    let shape = [1, 1, 1, 128];
    let dy = Tensor::floats(F32, &shape, &noise(128, 1));
    let table = Tensor::floats(F32, &shape, &noise(128, 2));
    let dx = Tensor::empty(F32, &shape);
    let none = Tensor::empty(F32, &[1, 1, 1, 0]);
    rotary_grad(
        [&dy, &table, &table],
        None,
        INTERLEAVED,
        [&dx, &none, &none],
    )
    .expect("published");
    assert!(dx.read().iter().all(|value| value.is_finite()));
}

#[test]
fn from_cann_9_on_the_gradient_takes_fewer_batches_with_own_tables_than_places() {
    for (version, fits) in [("8.5.0", true), ("9.1.0", false)] {
        let _session = Session::with(Config {
            version: version.to_owned(),
            ..Config::default()
        });
        let by_batch = Tensor::empty(F16, &[3, 2, 1, 64]);
        let wide = Tensor::empty(F16, &[3, 2, 4, 64]);
        let status = rotary_grad(
            [&wide, &by_batch, &by_batch],
            None,
            HALF,
            [&wide, &by_batch, &by_batch],
        );
        assert_eq!(status.is_ok(), fits, "{version}");
    }
}

#[test]
fn gradients_of_the_tables_take_fewer_heads() {
    let _session = Session::start();
    let x = Tensor::empty(F16, &[2, 600, 1, 2]);
    let table = Tensor::empty(F16, &[1, 1, 1, 2]);
    let inputs = [&x, &table, &table];
    rotary_grad(inputs, None, HALF, [&x, &table, &table]).expect("1200 heads without");
    let status = rotary_grad(inputs, Some(&x), HALF, [&x, &table, &table]);
    fails(status, ACLNN_ERR_INNER_TILING_ERROR);
}

/// Without a matrix, V2 is V1. With the matrix of the mode's rotation it computes the same, with another `x · rotate`.
#[test]
fn v2_rotates_by_the_mode_or_by_a_matrix() {
    let _session = Session::start();
    let (shape, table) = ([2, 3, 5, 8], [1, 1, 5, 8]);
    for dtype in [F32, F16] {
        let x = Tensor::floats(dtype, &shape, &noise(240, 1));
        let [cos, sin] = [2, 3].map(|seed| Tensor::floats(dtype, &table, &noise(40, seed)));
        for mode in [HALF, INTERLEAVED] {
            let [one, two, by_matrix] = [(); 3].map(|()| Tensor::empty(dtype, &shape));
            rotary(&x, &cos, &sin, mode, &one).expect("V1");
            rotary_v2([&x, &cos, &sin], mode, None, &two).expect("V2");
            assert_eq!(one.read(), two.read());
            // (x · R)[j] = Σ x[i] · R[i, j]
            let mut matrix = [0.0; 64];
            for at in 0..8 {
                let (from, sign) = match (mode, at) {
                    (HALF, 0..4) => (at + 4, -1.0),
                    (HALF, _) => (at - 4, 1.0),
                    (_, at) if at % 2 == 0 => (at + 1, -1.0),
                    (_, at) => (at - 1, 1.0),
                };
                matrix[from * 8 + at] = sign;
            }
            let rotate = Tensor::floats(dtype, &[8, 8], &matrix);
            rotary_v2([&x, &cos, &sin], mode, Some(&rotate), &by_matrix).expect("a matrix");
            assert_eq!(one.read(), by_matrix.read());
        }
        let scaled: Vec<f32> = (0..64)
            .map(|at| if at % 9 == 0 { 2.0 } else { 0.0 })
            .collect();
        let rotate = Tensor::floats(dtype, &[8, 8], &scaled);
        let y = Tensor::empty(dtype, &shape);
        rotary_v2([&x, &cos, &sin], HALF, Some(&rotate), &y).expect("any matrix");
        let (values, cos, sin) = (x.read(), cos.read(), sin.read());
        let exact: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(at, x)| {
                let [x, cos, sin] = [*x, cos[at % 40], sin[at % 40]].map(f64::from);
                x * cos + 2.0 * x * sin
            })
            .collect();
        y.assert_close("twice the sine", &exact, 1e-6);
    }
}

#[test]
fn a_matrix_that_does_not_fit_is_refused() {
    let _session = Session::start();
    let x = Tensor::empty(F32, &[1, 2, 3, 8]);
    let table = Tensor::empty(F32, &[1, 1, 3, 8]);
    for (rotate, expected) in [
        (Tensor::empty(F16, &[8, 8]), ACLNN_ERR_PARAM_INVALID),
        (Tensor::empty(F32, &[4, 8]), ACLNN_ERR_INNER_TILING_ERROR),
        (Tensor::empty(F32, &[64]), ACLNN_ERR_INNER_TILING_ERROR),
    ] {
        let status = rotary_v2([&x, &table, &table], HALF, Some(&rotate), &x);
        fails(status, expected);
    }
}
