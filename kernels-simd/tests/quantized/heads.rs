//! Rows of tables and losses of output layers in quantised form, against those of the decoded numbers.

use crate::made::{awq, blocks, gptq, int8, nf4};
use crate::stored::{Stored, cases};
use crate::{Number, numbers, wide};
use half::{bf16, f16};
use kernels_quant::gguf;
use kernels_simd::cross_entropy::Settings;
use kernels_simd::linear_cross_entropy::of_quantised;
use kernels_simd::quantized::rows_of;
use kernels_simd::{DType, Values, View};

fn decoded(stored: &Stored) -> ([usize; 2], Vec<f32>) {
    let weight = stored.weight().unwrap();
    let [rows, columns] = weight.shape();
    let mut decoded = vec![f32::NAN; rows * columns];
    weight.decode_rows(0..rows, &mut decoded);
    ([rows, columns], decoded)
}

/// Returns the bits of numbers.
fn bits(values: &Values) -> Vec<u64> {
    match values {
        Values::F64(values) => values.iter().map(|x| x.to_bits()).collect(),
        Values::F32(values) => values.iter().map(|x| x.to_bits().into()).collect(),
        Values::Bf16(values) => values.iter().map(|x| x.to_bits().into()).collect(),
        Values::F16(values) => values.iter().map(|x| x.to_bits().into()).collect(),
    }
}

fn check_rows(stored: &Stored, what: &str) {
    let ([height, columns], decoded) = decoded(stored);
    let mut rows: Vec<usize> = (0..height).rev().chain([0, height / 2]).collect();
    for rows in [&rows.split_off(height), &rows, &Vec::new()] {
        let all: Vec<f32> = rows
            .iter()
            .flat_map(|row| &decoded[row * columns..][..columns])
            .copied()
            .collect();
        let of = |convert: fn(f32) -> u64| all.iter().map(|x| convert(*x)).collect::<Vec<u64>>();
        for (dtype, expected) in [
            (DType::F64, of(|x| f64::from(x).to_bits())),
            (DType::F32, of(|x| x.to_bits().into())),
            (DType::Bf16, of(|x| bf16::from_f32(x).to_bits().into())),
            (DType::F16, of(|x| f16::from_f32(x).to_bits().into())),
        ] {
            let found = rows_of(&stored.weight().unwrap(), rows, dtype);
            assert!(bits(&found) == expected, "{what}, {dtype:?}");
        }
    }
}

#[test]
fn rows_have_the_bits_of_the_decoded_table() {
    for case in cases() {
        check_rows(&case.read().0, case.file);
    }
    for &block in gguf::Block::ALL {
        check_rows(&blocks(block, [37, 512]), block.name());
    }
    check_rows(&nf4([67, 100], 64), "nf4, blocks across rows");
    check_rows(&gptq([144, 560], 4, 40, true), "gptq");
    check_rows(&awq([136, 640], 20), "awq");
}

#[test]
#[should_panic(expected = "row 4 of a weight of 4 rows")]
fn a_row_that_is_not_there_is_refused() {
    let stored = blocks(gguf::Block::Q8_0, [4, 32]);
    rows_of(&stored.weight().unwrap(), &[3, 4], DType::F32);
}

/// The loss of a token in f64, the largest sum of the sizes of a logit's terms, and the gradient of the hidden state
/// with the sum of the sizes of its terms.
fn exact(x: &[f64], decoded: &[f32], class: usize, cap: Option<f64>) -> ([f64; 2], Vec<[f64; 2]>) {
    let row = |class: usize| {
        let row = &decoded[class * x.len()..][..x.len()];
        row.iter().map(|number| f64::from(*number))
    };
    let classes = decoded.len() / x.len();
    let logit = |class| row(class).zip(x).map(|(w, x)| w * x).sum::<f64>();
    let logits: Vec<f64> = (0..classes).map(logit).collect();
    let capped = |logit: f64| cap.map_or(logit, |cap| cap * (logit / cap).tanh());
    let sum: f64 = logits.iter().map(|logit| capped(*logit).exp()).sum();
    let mut gradient = vec![[0.0; 2]; x.len()];
    for (at, logit) in logits.iter().enumerate() {
        let p = capped(*logit).exp() / sum;
        let slope = cap.map_or(1.0, |cap| 1.0 - (logit / cap).tanh().powi(2));
        let target = if at == class { 1.0 } else { 0.0 };
        for (sums, w) in gradient.iter_mut().zip(row(at)) {
            sums[0] += (p - target) * slope * w;
            sums[1] += (p + target) * slope * w.abs();
        }
    }
    let sizes = |class| row(class).zip(x).map(|(w, x)| (w * x).abs()).sum::<f64>();
    let size = (0..classes).map(sizes).fold(0.0, f64::max);
    ([sum.ln() - capped(logits[class]), size], gradient)
}

fn check_losses<T: Number>(stored: &Stored, count: usize, cap: Option<f64>, what: &str) {
    let ([classes, width], decoded) = decoded(stored);
    let hidden: Vec<T> = numbers::<T>(count * width, 9)
        .into_iter()
        .map(|x| T::of(x.to() / 8.0))
        .collect();
    let class = |token: usize| (token % 3 != 2).then_some(token * 31 % classes);
    let targets: Vec<_> = (0..count).map(class).collect();
    let settings = Settings {
        label_smoothing: 0.0,
        cap,
        z_loss: 0.0,
    };
    let call = |wanted| {
        let hidden = View::whole(&hidden, &[count, width]);
        of_quantised(
            &hidden,
            &stored.weight().unwrap(),
            &targets,
            settings,
            wanted,
        )
    };
    let (losses, none) = call(false);
    assert!(none.is_none());
    let (same, gradient) = call(true);
    assert_eq!(bits(&losses), bits(&same), "{what}");
    let (losses, gradient) = (wide(&losses), wide(&gradient.unwrap()));
    assert_eq!([losses.len(), gradient.len()], [count, count * width]);
    for (token, target) in targets.iter().enumerate() {
        let gradient = &gradient[token * width..][..width];
        let Some(class) = *target else {
            assert!(losses[token] == 0.0 && gradient.iter().all(|x| *x == 0.0));
            continue;
        };
        let x: Vec<f64> = hidden[token * width..][..width]
            .iter()
            .map(|x| x.to())
            .collect();
        let ([loss, of_logit], of_hidden) = exact(&x, &decoded, class, cap);
        // A probability is off by as much, relative to itself, as its logit.
        let most = 2e-6 * (1.0 + of_logit);
        let error = (losses[token] - loss).abs();
        assert!(error < most, "{what}, token {token}: {error:e}");
        for (found, [exact, size]) in gradient.iter().zip(of_hidden) {
            let error = (found - exact).abs() / size;
            assert!(error < most, "{what}, token {token}: {found}, not {exact}");
        }
    }
}

/// Classes of one and of several blocks that are decoded together, none of them whole.
#[test]
fn losses_are_those_of_the_decoded_weights() {
    for (stored, what) in [
        (blocks(gguf::Block::Q8_0, [70, 32]), "Q8_0"),
        (blocks(gguf::Block::Q6K, [613, 256]), "Q6_K"),
        (blocks(gguf::Block::Q5_0, [300, 96]), "Q5_0"),
        (int8([301, 33]), "int8"),
        (nf4([67, 100], 64), "nf4"),
        (gptq([304, 64], 4, 64, true), "gptq"),
        (awq([136, 64], 64), "awq"),
    ] {
        for count in [1, 7, 80] {
            for cap in [None, Some(3.0)] {
                check_losses::<f64>(&stored, count, cap, what);
                check_losses::<f32>(&stored, count, cap, what);
                check_losses::<bf16>(&stored, count, cap, what);
                check_losses::<f16>(&stored, count, cap, what);
            }
        }
    }
}

#[test]
fn losses_dont_depend_on_the_number_of_threads() {
    let stored = blocks(gguf::Block::Q4K, [1500, 256]);
    let hidden = numbers::<f32>(90 * 256, 4);
    let targets: Vec<_> = (0..90).map(|token| Some(token * 16)).collect();
    let settings = Settings {
        label_smoothing: 0.0,
        cap: None,
        z_loss: 0.0,
    };
    let results = [1, 2, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let hidden = View::whole(&hidden, &[90, 256]);
            let weight = stored.weight().unwrap();
            let (losses, gradient) = of_quantised(&hidden, &weight, &targets, settings, true);
            [bits(&losses), bits(&gradient.unwrap())]
        })
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}
