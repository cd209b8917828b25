//! Tests of the rotary position embedding of queries and keys in place, against f64.

use crate::common::*;
use std::ffi::CString;

use cann_emulator::abi::apply_rotary::*;

/// A newer CANN, which takes a width of 64.
fn newest() -> Session {
    Session::with(Config {
        version: "9.0.0".to_owned(),
        ..Config::default()
    })
}

fn apply([query, key, cos, sin]: [&Tensor; 4], layout: i64, mode: Option<&str>) -> Status {
    let (query, key, cos, sin) = (query.handle, key.handle, cos.handle, sin.handle);
    let Some(mode) = mode else {
        return call!(aclnnApplyRotaryPosEmb: query, key, cos, sin, layout);
    };
    let mode = CString::new(mode).expect("no zero");
    call!(aclnnApplyRotaryPosEmbV2: query, key, cos, sin, layout, mode.as_ptr().cast_mut())
}

/// Returns the embedding of rows of `width`, with tables for each position of `heads` rows.
fn rotary(x: &[f64], cos: &[f64], sin: &[f64], width: usize, heads: usize) -> Vec<f64> {
    let at = |row: usize, column: usize| {
        let (table, half) = (row / heads * width + column, width / 2);
        let other = match column < half {
            true => -x[row * width + column + half],
            false => x[row * width + column - half],
        };
        x[row * width + column] * cos[table] + other * sin[table]
    };
    (0..x.len())
        .map(|place| at(place / width, place % width))
        .collect()
}

#[test]
fn queries_and_keys_are_rotated_in_place() {
    let _session = newest();
    for (layout, front) in [(1, &[2, 3][..]), (4, &[6])] {
        for dtype in [F32, F16, BF16] {
            for (width, mode) in [(128, None), (128, Some("half")), (64, Some("half"))] {
                let shape = |heads: usize| [front, &[heads, width]].concat();
                let tensor = |heads: usize, seed| {
                    Tensor::floats(dtype, &shape(heads), &noise(6 * heads * width, seed))
                };
                let (query, key) = (tensor(4, 1), tensor(2, 2));
                let (cos, sin) = (tensor(1, 3), tensor(1, 4));
                let (c, s) = (exact(&cos), exact(&sin));
                let queries = rotary(&exact(&query), &c, &s, width, 4);
                let keys = rotary(&exact(&key), &c, &s, width, 2);
                apply([&query, &key, &cos, &sin], layout, mode).expect("documented");
                query.assert_close("queries", &queries, 1e-6);
                key.assert_close("keys", &keys, 1e-6);
            }
        }
    }
}

#[test]
fn calls_outside_the_documentation_are_refused() {
    let _session = newest();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (query, key) = (t(F16, &[2, 3, 4, 128]), t(F16, &[2, 3, 2, 128]));
    let table = t(F16, &[2, 3, 1, 128]);
    let all = [&query, &key, &table, &table];
    for layout in [0, 2, 3] {
        refused(apply(all, layout, None), "layout is");
    }
    each! { refused:
        apply(all, 4, None), "layout 4 has 3 axes";
        apply(all, 1, Some("interleave")), "rotaryMode is";
        apply([&query, &query, &query, &query], 1, None), "cos has the shape";
        apply([&query, &t(F16, &[1, 3, 2, 128]), &table, &table], 1, None), "keyRef has the shape";
        apply([&query, &key, &t(F16, &[1, 3, 1, 128]), &table], 1, None), "cos has the shape";
        apply([&query, &key, &table, &t(F16, &[2, 3, 2, 128])], 1, None), "sin has the shape";
        apply([&query, &t(BF16, &[2, 3, 2, 128]), &table, &table], 1, None), "keyRef is bf16";
        apply([&query, &key, &t(F32, &[2, 3, 1, 128]), &table], 1, None), "cos is f32";
    }
    let none = t(F16, &[2, 0, 4, 128]);
    each! { refused: apply([&none, &none, &none, &none], 1, None), "none is empty" }
    let (narrow, tables) = (t(F16, &[2, 3, 4, 32]), t(F16, &[2, 3, 1, 32]));
    each! { refused: apply([&narrow, &narrow, &tables, &tables], 1, None), "a width of 32" }
    let (many, tables) = (t(F32, &[1, 1, 64, 128]), t(F32, &[1, 1, 1, 128]));
    refused(
        apply([&many, &many, &tables, &tables], 1, None),
        "128 heads of queries and keys need",
    );
}

#[test]
fn older_versions_have_one_width_and_a_missing_mode_is_null() {
    let _session = Session::with(Config {
        version: "8.1.0".to_owned(),
        ..Config::default()
    });
    let t = |heads| Tensor::empty(F32, &[6, heads, 64]);
    let (query, key, table) = (t(4), t(2), t(1));
    refused(
        apply([&query, &key, &table, &table], 4, Some("half")),
        "and 64 from CANN 9 on",
    );
    let status = call!(aclnnApplyRotaryPosEmbV2: query, key, table, table, 4, std::ptr::null_mut());
    fails(status, ACLNN_ERR_PARAM_NULLPTR);
}
