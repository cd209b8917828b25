//! Operators in f64, and the errors that results may have.

use burn_cann::{DType, Element, Stream, Tensor};
use half::{bf16, f16};

/// Returns numbers between -1 and 1 that are the same on every machine.
pub fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.unit() * 2.0 - 1.0).collect()
}

/// A random generator with the same numbers on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 31) as f64
    }
}

/// Returns a tensor of `values` rounded to `dtype`, and the rounded values.
pub fn tensor(
    stream: &Stream,
    dtype: DType,
    values: &[f64],
    shape: &[usize],
) -> (Tensor, Vec<f64>) {
    match dtype {
        DType::F32 => put(stream, values, shape, |value| value as f32, f64::from),
        DType::F16 => put(stream, values, shape, f16::from_f64, f16::to_f64),
        DType::BF16 => put(stream, values, shape, bf16::from_f64, bf16::to_f64),
        DType::I32 => put(stream, values, shape, |value| value as i32, f64::from),
        DType::I64 => put(
            stream,
            values,
            shape,
            |value| value as i64,
            |value| value as f64,
        ),
        DType::F64 => put(stream, values, shape, |value| value, |value| value),
        DType::I16 => put(stream, values, shape, |value| value as i16, f64::from),
        DType::I8 => put(stream, values, shape, |value| value as i8, f64::from),
        DType::U8 => put(stream, values, shape, |value| value as u8, f64::from),
        DType::Bool => {
            let truths: Vec<bool> = values.iter().map(|&value| value != 0.0).collect();
            let tensor = Tensor::from_bools(stream, &truths, shape).expect("an upload");
            (tensor, truths.into_iter().map(f64::from).collect())
        }
        other => panic!("no test uses {other}"),
    }
}

fn put<E: Element>(
    stream: &Stream,
    values: &[f64],
    shape: &[usize],
    round: impl Fn(f64) -> E,
    back: impl Fn(E) -> f64,
) -> (Tensor, Vec<f64>) {
    let rounded: Vec<E> = values.iter().map(|&value| round(value)).collect();
    let tensor = Tensor::from_slice(stream, &rounded, shape).expect("an upload");
    (tensor, rounded.into_iter().map(back).collect())
}

/// Returns the tensor's elements.
pub fn values(stream: &Stream, tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F32 => get(stream, tensor, |value: f32| value.into()),
        DType::F16 => get(stream, tensor, f16::to_f64),
        DType::BF16 => get(stream, tensor, bf16::to_f64),
        DType::I32 => get(stream, tensor, |value: i32| value.into()),
        DType::I64 => get(stream, tensor, |value: i64| value as f64),
        DType::F64 => get(stream, tensor, |value: f64| value),
        DType::I16 => get(stream, tensor, |value: i16| value.into()),
        DType::I8 => get(stream, tensor, |value: i8| value.into()),
        DType::U8 => get(stream, tensor, |value: u8| value.into()),
        DType::Bool => {
            let truths = tensor.to_bools(stream).expect("a download");
            truths.into_iter().map(f64::from).collect()
        }
        other => panic!("no test uses {other}"),
    }
}

fn get<E: Element>(stream: &Stream, tensor: &Tensor, back: impl Fn(E) -> f64) -> Vec<f64> {
    tensor
        .to_vec(stream)
        .expect("a download")
        .into_iter()
        .map(back)
        .collect()
}

/// Returns the distance between neighbours around 1.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2f64.powi(-23),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F64 => 2f64.powi(-52),
        other => panic!("{other} is not rounded"),
    }
}

/// Fails unless every value is within one rounding of `dtype` plus `inside`, which is relative to the largest expected
/// value and covers the errors of f32 inside an operator.
#[track_caller]
pub fn assert_close(found: &[f64], expected: &[f64], dtype: DType, inside: f64) {
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .fold(0.0f64, |largest, value| largest.max(value.abs()));
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let smallest = if dtype == DType::F16 {
            2f64.powi(-14)
        } else {
            0.0
        };
        let rounding = epsilon(dtype) / 2.0 * expected.abs().max(smallest);
        let allowed = rounding * 1.001 + inside * largest;
        let error = (found - expected).abs();
        assert!(
            error <= allowed && error.is_finite(),
            "{dtype}, element {place}: {found}, expected {expected}, off by {error:e} of {allowed:e}"
        );
    }
}

/// The relative error of the f32 sums inside an operator.
pub const F32_INSIDE: f64 = 1e-6;

pub fn rms_norm(x: &[f64], gamma: &[f64], epsilon: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut y, mut rstd) = (Vec::new(), Vec::new());
    for row in x.chunks(gamma.len()) {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + epsilon).sqrt();
        rstd.push(scale);
        y.extend(row.iter().zip(gamma).map(|(x, gamma)| x * scale * gamma));
    }
    (y, rstd)
}

pub fn rms_norm_grad(dy: &[f64], x: &[f64], gamma: &[f64], epsilon: f64) -> (Vec<f64>, Vec<f64>) {
    let (_, rstd) = rms_norm(x, gamma, epsilon);
    let width = gamma.len();
    let (mut dx, mut dgamma) = (Vec::new(), vec![0.0; width]);
    for ((dy, x), rstd) in dy.chunks(width).zip(x.chunks(width)).zip(rstd) {
        let mean = (0..width)
            .map(|i| dy[i] * gamma[i] * x[i] * rstd)
            .sum::<f64>()
            / width as f64;
        for i in 0..width {
            dx.push((dy[i] * gamma[i] - x[i] * rstd * mean) * rstd);
            dgamma[i] += dy[i] * x[i] * rstd;
        }
    }
    (dx, dgamma)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Splits rows of `2 * half` elements into their halves.
fn halves(x: &[f64], half: usize) -> impl Iterator<Item = (&[f64], &[f64])> {
    x.chunks(2 * half).map(move |row| row.split_at(half))
}

/// Computes SwiGLU along the last dimension, of `2 * half` elements.
pub fn swi_glu(x: &[f64], half: usize) -> Vec<f64> {
    halves(x, half)
        .flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * sigmoid(*a) * b))
        .collect()
}

pub fn swi_glu_grad(dy: &[f64], x: &[f64], half: usize) -> Vec<f64> {
    let mut dx = Vec::new();
    for (dy, (a, b)) in dy.chunks(half).zip(halves(x, half)) {
        let silu_grad = |a: f64| sigmoid(a) * (1.0 + a * (1.0 - sigmoid(a)));
        dx.extend((0..half).map(|i| dy[i] * silu_grad(a[i]) * b[i]));
        dx.extend((0..half).map(|i| dy[i] * a[i] * sigmoid(a[i])));
    }
    dx
}

/// Returns `gelu(a) · b` of the halves, and `gelu(a)`.
pub fn ge_glu(x: &[f64], half: usize, tanh: bool) -> [Vec<f64>; 2] {
    let gelu: Vec<f64> = halves(x, half)
        .flat_map(|(a, _)| a.iter().map(|a| a * gate_of_gelu(*a, tanh)))
        .collect();
    let up = halves(x, half).flat_map(|(_, b)| b);
    [
        gelu.iter().zip(up).map(|(gelu, b)| gelu * b).collect(),
        gelu,
    ]
}

pub fn ge_glu_grad(dy: &[f64], x: &[f64], half: usize, tanh: bool) -> Vec<f64> {
    let mut dx = Vec::new();
    for (dy, (a, b)) in dy.chunks(half).zip(halves(x, half)) {
        let gelu = |a: f64| a * gate_of_gelu(a, tanh);
        let slope = |a: f64| (gelu(a + 1e-5) - gelu(a - 1e-5)) / 2e-5;
        dx.extend((0..half).map(|i| dy[i] * slope(a[i]) * b[i]));
        dx.extend((0..half).map(|i| dy[i] * gelu(a[i])));
    }
    dx
}

/// Returns `Φ(a)`, or its approximation. The series of the error function converges for the small numbers of the tests.
fn gate_of_gelu(a: f64, tanh: bool) -> f64 {
    if tanh {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (a + 0.044715 * a.powi(3));
        return 0.5 * (1.0 + inner.tanh());
    }
    let z = a * std::f64::consts::FRAC_1_SQRT_2;
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= -z * z / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    0.5 * (1.0 + sum * 2.0 / std::f64::consts::PI.sqrt())
}

/// Returns the elements of a view of `storage`, in order.
pub fn view(storage: &[f64], layout: &burn_cann::Layout) -> Vec<f64> {
    let mut places = vec![layout.offset()];
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        places = places
            .iter()
            .flat_map(|place| (0..size).map(move |index| place + index * stride))
            .collect();
    }
    places.into_iter().map(|place| storage[place]).collect()
}

/// The dtypes of floats that base operators take.
pub const REALS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
/// The integers that base operators compute with.
pub const INTEGERS: [DType; 5] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];

/// Returns `true` if results are integers or booleans.
pub fn is_exact(dtype: DType) -> bool {
    !REALS.contains(&dtype)
}

/// Compares floats as [`assert_close`] does, and integers and booleans for equality. NaN equals NaN, and infinities
/// must be equal.
#[track_caller]
pub fn assert_equal(found: &[f64], expected: &[f64], dtype: DType, inside: f64) {
    assert_eq!(found.len(), expected.len());
    if is_exact(dtype) {
        assert_eq!(found, expected, "{dtype}");
        return;
    }
    let special = |value: &f64| !value.is_finite();
    let (mut finite, mut wanted) = (Vec::new(), Vec::new());
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        if special(expected) {
            let same = found == expected || found.is_nan() && expected.is_nan();
            assert!(
                same,
                "{dtype}, element {place}: {found}, expected {expected}"
            );
        } else {
            finite.push(*found);
            wanted.push(*expected);
        }
    }
    // f64 has no errors of f32 inside an operator.
    let inside = if dtype == DType::F64 { 1e-14 } else { inside };
    assert_close(&finite, &wanted, dtype, inside);
}

/// Returns `x` as a view of the same elements whose dimensions are exchanged in memory, and `x` itself.
pub fn twice(
    stream: &Stream,
    dtype: DType,
    values: &[f64],
    shape: [usize; 2],
) -> [(Tensor, Vec<f64>); 2] {
    let (plain, rounded) = tensor(stream, dtype, values, &shape);
    let [rows, columns] = shape;
    let turned: Vec<f64> = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| (row, column)))
        .map(|(row, column)| values[row * columns + column])
        .collect();
    let (view, _) = tensor(stream, dtype, &turned, &[columns, rows]);
    let view = view.transpose(0, 1).expect("two dimensions");
    [(plain, rounded.clone()), (view, rounded)]
}
