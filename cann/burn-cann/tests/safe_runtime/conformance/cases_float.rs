//! Operations on floating-point tensors, and activation functions.

use burn_backend::ops::{AttentionModuleOptions, GridSampleOptions, InterpolateMode, PadMode};
use burn_backend::tensor::IndexingUpdateOp as Update;
use burn_backend::{
    Backend, BoolDType, Distribution, FloatDType, IntDType, Scalar, Slice, TensorData, read_sync,
};

use super::inputs::{Form, Inputs, ranges, shape};
use super::{Case, b, f, i, outline};
use crate::cases;

const S: Scalar = Scalar::Float(0.75);
const NATIVE: BoolDType = BoolDType::Native;

/// Returns the length of a list of indices, which is 0 for empty inputs.
fn few<B: Backend>(c: &Inputs<B>) -> usize {
    if c.form == Form::Empty { 0 } else { 3 }
}

/// Runs every update that the device has on the same operands.
pub fn updates(run: impl Fn(Update) -> TensorData) -> Vec<TensorData> {
    [Update::Assign, Update::Add, Update::Mul].map(run).into()
}

/// Runs the other updates.
pub fn bounds(run: impl Fn(Update) -> TensorData) -> Vec<TensorData> {
    [Update::Min, Update::Max].map(run).into()
}

/// Returns cases that the device declines although it has the operation.
pub fn declined<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    cases! { list: B;
        float_scatter: |c| bounds(|update| {
            let [x, y, _] = c.shape();
            let indices = c.i_values(&[0, 2], &[x, y, 2]);
            f::<B>(B::float_scatter(2, c.f(1), indices, c.f_of(3, &[x, y, 2]), update))
        });
        float_select_assign: |c| bounds(|update| {
            let [x, y, _] = c.shape();
            let value = c.f_of(3, &[x, y, 2]);
            f::<B>(B::float_select_assign(c.f(1), 2, c.i_values(&[2, 0], &[2]), value, update))
        });
        // Queries before all keys attend to no key.
        attention: |c| {
            let heads = |seed, length| c.f_of(seed, &[2, 3, length, 8]);
            let causal = AttentionModuleOptions { is_causal: true, scale: None, softcap: None };
            let capped = AttentionModuleOptions { is_causal: false, scale: None, softcap: Some(5.0) };
            vec![
                f::<B>(B::attention(heads(1, 7), heads(2, 5), heads(3, 5), None, None, causal)),
                f::<B>(B::attention(heads(1, 5), heads(2, 5), heads(3, 5), None, None, capped)),
            ]
        };
    }
    list
}

/// Compares samples only by mean and deviation, because nothing else is comparable.
fn like(data: &TensorData, mean: f64, deviation: f64) -> TensorData {
    let values: Vec<f64> = data.iter::<f64>().collect();
    let count = values.len() as f64;
    let found = values.iter().sum::<f64>() / count;
    let spread = (values.iter().map(|x| (x - found).powi(2)).sum::<f64>() / count).sqrt();
    let good = (found - mean).abs() < 0.12 && (spread - deviation).abs() < 0.12;
    TensorData::from([f64::from(u8::from(good)), count])
}

pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    made::<B>(&mut list);
    arithmetic::<B>(&mut list);
    functions::<B>(&mut list);
    moved::<B>(&mut list);
    indexed::<B>(&mut list);
    compared::<B>(&mut list);
    reduced::<B>(&mut list);
    ordered::<B>(&mut list);
    activations::<B>(&mut list);
    list
}

/// Returns cases with NaN, infinities, and zeros of either sign.
pub fn special<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    macro_rules! one {
        ($($name:ident)*) => { cases! { list: B; $($name: |c| vec![f::<B>(B::$name(c.f_special()))];)* } };
    }
    macro_rules! two {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![
                f::<B>(B::$name(c.f_special(), c.f_distinct(1))),
                f::<B>(B::$name(c.f_distinct(1), c.f_special())),
            ];
        )* } };
    }
    macro_rules! by {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![
                f::<B>(B::$name(c.f_special(), S)),
                f::<B>(B::$name(c.f(1), Scalar::Float(0.0))),
                f::<B>(B::$name(c.f(1), Scalar::Float(f64::INFINITY))),
            ];
        )* } };
    }
    macro_rules! along {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| (0..3).map(|dim| f::<B>(B::$name(c.f_special(), dim))).collect();
        )* } };
    }
    one!(float_exp float_log float_log1p float_sqrt float_recip float_abs float_neg float_sign float_sin
        float_cos float_tan float_tanh float_sinh float_cosh float_asin float_acos float_atan float_asinh
        float_acosh float_atanh float_erf float_round float_floor float_ceil float_trunc relu gelu
        sigmoid log_sigmoid float_sum float_mean float_max float_min float_max_abs);
    two!(float_atan2 float_add float_sub float_mul float_div float_remainder float_powf float_hypot);
    by!(float_add_scalar float_sub_scalar float_mul_scalar float_div_scalar float_clamp_min float_clamp_max
        leaky_relu);
    along!(float_cumprod float_sum_dim float_mean_dim float_prod_dim float_max_dim float_min_dim float_cumsum
        softmax log_softmax);
    cases! { list: B;
        float_powf_scalar: |c| vec![f::<B>(B::float_powf_scalar(c.f_special(), S))];
        float_clamp: |c| {
            let clamp = |low, high| f::<B>(B::float_clamp(c.f_special(), low, high));
            let none = Scalar::Float(f64::NAN);
            vec![clamp(Scalar::Float(-1.0), S), clamp(none, S), clamp(S, none), clamp(none, none)]
        };
        float_clamp_min: |c| vec![f::<B>(B::float_clamp_min(c.f_special(), Scalar::Float(f64::NAN)))];
        float_clamp_max: |c| vec![f::<B>(B::float_clamp_max(c.f_special(), Scalar::Float(f64::NAN)))];
        float_into_int: |c| {
            let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3e9, -3e9, 4e4, -4e4, 300.7, -200.2, -0.9];
            let [x, y, z] = c.shape();
            let types = [IntDType::I64, IntDType::I32, IntDType::I16, IntDType::I8, IntDType::U8];
            types.map(|int| i::<B>(B::float_into_int(c.f_values(&values, &[x, y, z]), int))).into()
        };
        float_sort: |c| (0..3).map(|dim| f::<B>(B::float_sort(c.f_special(), dim, dim == 1))).collect();
        float_topk: |c| vec![f::<B>(B::float_topk(c.f_special(), 2, 2))];
        float_argmax: |c| (0..3).map(|dim| i::<B>(B::float_argmax(c.f_special(), dim, c.int))).collect();
        float_argmin: |c| (0..3).map(|dim| i::<B>(B::float_argmin(c.f_special(), dim, c.int))).collect();
        float_max_dim_with_indices: |c| {
            let (values, places) = B::float_max_dim_with_indices(c.f_special(), 2, c.int);
            vec![f::<B>(values), i::<B>(places)]
        };
        float_min_dim_with_indices: |c| {
            let (values, places) = B::float_min_dim_with_indices(c.f_special(), 2, c.int);
            vec![f::<B>(values), i::<B>(places)]
        };
        float_any: |c| vec![b::<B>(B::float_any(c.f_special(), NATIVE))];
        float_all_dim: |c| vec![b::<B>(B::float_all_dim(c.f_special(), 1, NATIVE))];
        float_mask_fill: |c| vec![f::<B>(B::float_mask_fill(c.f_special(), c.b(1), Scalar::Float(f64::NAN)))];
        float_full: |c| {
            let nan = Scalar::Float(f64::NAN);
            vec![f::<B>(B::float_full(shape(&c.shape()), nan, &c.device, c.float))]
        };
        float_cast: |c| {
            [FloatDType::F32, FloatDType::F16, FloatDType::BF16]
                .map(|dtype| f::<B>(B::float_cast(c.f_special(), dtype)))
                .into()
        };
        float_matmul: |c| {
            let [x, y] = [1, 2].map(|_| c.f_values(&[1.0, f64::INFINITY, f64::NAN, 0.5, 2.0], &[5, 5]));
            vec![f::<B>(B::float_matmul(x, y))]
        };
    }
    list
}

fn made<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        float_from_data: |c| vec![f::<B>(c.f(1))];
        float_into_data: |c| vec![f::<B>(c.f(1))];
        float_to_device: |c| vec![f::<B>(B::float_to_device(c.f(1), &c.device))];
        float_random: |c| {
            let random = |distribution| {
                f::<B>(B::float_random(shape(&[100, 100]), distribution, &c.device, c.float))
            };
            vec![
                like(&random(Distribution::Default), 0.5, (1.0f64 / 12.0).sqrt()),
                like(&random(Distribution::Uniform(-1.0, 1.0)), 0.0, (1.0f64 / 3.0).sqrt()),
                like(&random(Distribution::Normal(0.5, 2.0)), 0.5, 2.0),
                like(&random(Distribution::Bernoulli(0.3)), 0.3, 0.21f64.sqrt()),
                outline(&B::float_random(shape(&[3, 0]), Distribution::Default, &c.device, c.float)),
            ]
        };
        float_zeros: |c| vec![f::<B>(B::float_zeros(shape(&c.shape()), &c.device, c.float))];
        float_ones: |c| vec![f::<B>(B::float_ones(shape(&c.shape()), &c.device, c.float))];
        float_full: |c| {
            let full = |value| f::<B>(B::float_full(shape(&c.shape()), value, &c.device, c.float));
            vec![full(S), full(Scalar::Int(-3)), full(Scalar::Float(f64::NEG_INFINITY))]
        };
        float_empty: |c| vec![outline(&B::float_empty(shape(&c.shape()), &c.device, c.float))];
        float_cast: |c| {
            [FloatDType::F32, FloatDType::F16, FloatDType::BF16, FloatDType::F64]
                .map(|dtype| f::<B>(B::float_cast(c.f(1), dtype)))
                .into()
        };
        float_into_int: |c| {
            [IntDType::I64, IntDType::I32, IntDType::I16, IntDType::I8]
                .map(|dtype| i::<B>(B::float_into_int(c.f_in(1, &c.shape(), -100.0, 100.0), dtype)))
                .into()
        };
        float_detach: |c| vec![f::<B>(B::float_detach(c.f(1)))];
        float_set_require_grad: |c| vec![f::<B>(B::float_set_require_grad(c.f(1), true))];
        float_is_require_grad: |c| {
            vec![TensorData::from([i32::from(B::float_is_require_grad(&c.f(1)))])]
        };
    }
}

fn arithmetic<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        float_add: |c| vec![
            f::<B>(B::float_add(c.f(1), c.f(2))),
            f::<B>(B::float_add(c.f(1), c.f_of(2, &[c.shape()[0], 1, c.shape()[2]]))),
            f::<B>(B::float_add(c.f_of(1, &[1, 1, 1]), c.f(2))),
        ];
        float_add_scalar: |c| vec![f::<B>(B::float_add_scalar(c.f(1), S))];
        float_sub: |c| vec![f::<B>(B::float_sub(c.f(1), c.f(2)))];
        float_sub_scalar: |c| vec![f::<B>(B::float_sub_scalar(c.f(1), S))];
        float_mul: |c| vec![f::<B>(B::float_mul(c.f(1), c.f(2)))];
        float_mul_scalar: |c| vec![f::<B>(B::float_mul_scalar(c.f(1), S))];
        float_div: |c| vec![f::<B>(B::float_div(c.f(1), c.f_in(2, &c.shape(), 0.5, 2.0)))];
        float_div_scalar: |c| vec![f::<B>(B::float_div_scalar(c.f(1), S))];
        float_remainder: |c| {
            let lhs = c.f_values(&[5.5, -5.5, 5.5, -5.5, 3.0], &c.shape());
            let rhs = c.f_values(&[2.0, 2.0, -2.0, -2.0, 1.5], &c.shape());
            vec![f::<B>(B::float_remainder(lhs, rhs))]
        };
        float_remainder_scalar: |c| {
            let lhs = c.f_values(&[5.5, -5.5, 4.0, -0.5], &c.shape());
            vec![
                f::<B>(B::float_remainder_scalar(lhs.clone(), Scalar::Float(2.0))),
                f::<B>(B::float_remainder_scalar(lhs, Scalar::Float(-2.0))),
            ]
        };
        float_clamp_min: |c| vec![f::<B>(B::float_clamp_min(c.f(1), S))];
        float_clamp_max: |c| vec![f::<B>(B::float_clamp_max(c.f(1), S))];
        float_clamp: |c| vec![f::<B>(B::float_clamp(c.f(1), Scalar::Float(-0.5), S))];
        float_matmul: |c| {
            let n = if c.form == Form::Empty { 0 } else { 7 };
            vec![
                f::<B>(B::float_matmul(c.f_of(1, &[5, n]), c.f_of(2, &[n, 3]))),
                f::<B>(B::float_matmul(c.f_of(1, &[2, 5, n]), c.f_of(2, &[2, n, 3]))),
                f::<B>(B::float_matmul(c.f_of(1, &[2, 3, 5, n]), c.f_of(2, &[1, 1, n, 3]))),
                f::<B>(B::float_matmul(c.f_of(1, &[1, n]), c.f_of(2, &[n, 1]))),
            ]
        };
        float_cross: |c| {
            let sizes = [4, 3, if c.form == Form::Empty { 0 } else { 2 }];
            vec![f::<B>(B::float_cross(c.f_of(1, &sizes), c.f_of(2, &sizes), 1))]
        };
        float_neg: |c| vec![f::<B>(B::float_neg(c.f(1)))];
        float_powf: |c| {
            let base = c.f_in(1, &c.shape(), 0.5, 2.0);
            vec![f::<B>(B::float_powf(base, c.f(2)))]
        };
        float_powi: |c| {
            vec![f::<B>(B::float_powi(c.f_in(1, &c.shape(), 0.5, 2.0), c.i_in(2, &c.shape(), 0, 4)))]
        };
        float_powi_scalar: |c| {
            [0, 1, 2, 3, 5, -1]
                .map(|n| f::<B>(B::float_powi_scalar(c.f_in(1, &c.shape(), 0.5, 2.0), Scalar::Int(n))))
                .into()
        };
        float_powi_scalar_impl: |c| {
            vec![f::<B>(B::float_powi_scalar_impl(c.f_in(1, &c.shape(), 0.5, 2.0), Scalar::Int(3)))]
        };
        float_powf_scalar: |c| {
            [0.0, 1.0, 2.0, 0.5, -0.5]
                .map(|n| f::<B>(B::float_powf_scalar(c.f_in(1, &c.shape(), 0.5, 2.0), Scalar::Float(n))))
                .into()
        };
        float_powf_scalar_impl: |c| vec![
            f::<B>(B::float_powf_scalar_impl(c.f_in(1, &c.shape(), 0.5, 2.0), Scalar::Float(1.5))),
            f::<B>(B::float_powf_scalar_impl(c.f(1), Scalar::Float(2.0))),
        ];
        float_hypot: |c| vec![f::<B>(B::float_hypot(c.f(1), c.f(2)))];
        float_atan2: |c| vec![f::<B>(B::float_atan2(c.f(1), c.f(2)))];
    }
}

fn functions<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! on {
        ($low:literal..$high:literal: $($name:ident)*) => {
            cases! { list: B; $($name: |c| vec![f::<B>(B::$name(c.f_in(1, &c.shape(), $low, $high)))];)* }
        };
    }
    on!(-2.0..2.0: float_exp float_abs float_cos float_sin float_tanh float_sinh float_cosh float_atan
        float_asinh float_erf float_sign);
    on!(-1.2..1.2: float_tan);
    on!(-0.9..0.9: float_acos float_asin float_atanh float_log1p);
    on!(0.3..3.0: float_log float_sqrt float_recip);
    on!(1.1..3.0: float_acosh);
    cases! { list: B;
        // Numbers halfway between two are rounded to the even one.
        float_round: |c| {
            let x = c.f_values(&[0.5, 1.5, -0.5, -1.5, 0.4, 2.6], &c.shape());
            vec![f::<B>(B::float_round(x))]
        };
        float_floor: |c| vec![f::<B>(B::float_floor(c.f_values(&[0.5, 1.5, -0.5, -1.0, 2.6], &c.shape())))];
        float_ceil: |c| vec![f::<B>(B::float_ceil(c.f_values(&[0.5, 1.5, -0.5, -1.0, 2.6], &c.shape())))];
        float_trunc: |c| vec![f::<B>(B::float_trunc(c.f_values(&[0.5, 1.5, -0.5, -1.5, 2.6], &c.shape())))];
    }
}

fn moved<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        float_repeat_dim: |c| {
            (0..3).map(|dim| f::<B>(B::float_repeat_dim(c.f(1), dim, 3))).collect()
        };
        float_transpose: |c| vec![f::<B>(B::float_transpose(c.f(1)))];
        float_swap_dims: |c| vec![f::<B>(B::float_swap_dims(c.f(1), 0, 2))];
        float_permute: |c| vec![f::<B>(B::float_permute(c.f(1), &[2, 0, 1]))];
        float_flip: |c| vec![
            f::<B>(B::float_flip(c.f(1), &[1])),
            f::<B>(B::float_flip(c.f(1), &[0, 2])),
            f::<B>(B::float_flip(c.f(1), &[])),
        ];
        float_reshape: |c| {
            let [x, y, z] = c.shape();
            vec![
                f::<B>(B::float_reshape(c.f(1), shape(&[x * y * z]))),
                f::<B>(B::float_reshape(c.f(1), shape(&[x, 1, y * z]))),
                f::<B>(B::float_reshape(c.f(1), shape(&[z, y, x]))),
                f::<B>(B::float_reshape(B::float_swap_dims(c.f(1), 0, 1), shape(&[y, x * z]))),
            ]
        };
        float_expand: |c| {
            let [_, y, z] = c.shape();
            let tensor = c.f_of(1, &[1, y, z]);
            let wide = B::float_expand(tensor, shape(&[2, 4, y, z]));
            vec![f::<B>(wide.clone()), f::<B>(B::float_add(wide.clone(), wide))]
        };
        float_slice: |c| {
            let [x, y, z] = c.shape();
            vec![
                f::<B>(B::float_slice(c.f(1), &ranges(&[(0, x as isize), (0, y as isize / 2)]))),
                f::<B>(B::float_slice(
                    c.f(1),
                    &[Slice::full(), Slice::new(-2, None, 1), Slice::new(0, Some(z as isize), 2)],
                )),
                f::<B>(B::float_slice(c.f(1), &[Slice::full(), Slice::full(), Slice::new(0, None, -1)])),
                f::<B>(B::float_slice(c.f(1), &[Slice::new(1, Some(1), 1)])),
            ]
        };
        float_slice_assign: |c| {
            let [x, y, _] = c.shape();
            let part = ranges(&[(0, x as isize), (0, y as isize / 2)]);
            let value = c.f_of(2, &[x, y / 2, c.shape()[2]]);
            let steps = [Slice::full(), Slice::full(), Slice::new(0, Some(3), 2)];
            vec![
                f::<B>(B::float_slice_assign(c.f(1), &part, value)),
                f::<B>(B::float_slice_assign(c.f(1), &steps, c.f_of(3, &[x, y, 2]))),
            ]
        };
        float_cat: |c| {
            let [x, y, z] = c.shape();
            vec![
                f::<B>(B::float_cat(vec![c.f(1), c.f(2), c.f_of(3, &[x, 2, z])], 1)),
                f::<B>(B::float_cat(vec![c.f(1), c.f_of(3, &[x, y, 1])], 2)),
                f::<B>(B::float_cat(vec![c.f(1)], 0)),
            ]
        };
        float_unfold: |c| vec![f::<B>(B::float_unfold(c.f_of(1, &[2, 7, 3]), 1, 3, 2))];
        float_pad: |c| {
            [PadMode::Constant(0.5), PadMode::Edge, PadMode::Reflect]
                .map(|mode| f::<B>(B::float_pad(c.f_of(1, &[2, 4, 5]), &[(0, 0), (1, 2), (2, 0)], mode)))
                .into()
        };
        float_grid_sample_2d: |c| {
            let grid = c.f_in(2, &[1, 3, 3, 2], -0.9, 0.9);
            let options = GridSampleOptions::new(InterpolateMode::Bilinear);
            vec![f::<B>(B::float_grid_sample_2d(c.f_of(1, &[1, 2, 5, 5]), grid, options))]
        };
    }
}

fn indexed<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        float_gather: |c| {
            let [x, y, z] = c.shape();
            let size = few(c);
            vec![
                f::<B>(B::float_gather(2, c.f(1), c.i_in(2, &[x, y, 2], 0, z as i64))),
                f::<B>(B::float_gather(0, c.f(1), c.i_in(2, &[size, y, z], 0, x as i64))),
            ]
        };
        float_scatter: |c| updates(|update| {
            let [x, y, z] = c.shape();
            // No index occurs twice, because the result could then depend on the order.
            let indices = c.i_values(&[0, 2], &[x, y, 2]);
            let value = c.f_of(3, &[x, y, 2]);
            assert!(z > 2);
            f::<B>(B::float_scatter(2, c.f(1), indices, value, update))
        });
        float_scatter_nd: |c| updates(|update| {
            let indices = c.i_values(&[0, 1, 2, 3], &[2, 2]);
            f::<B>(B::float_scatter_nd(c.f_of(1, &[3, 4, 5]), indices, c.f_of(3, &[2, 5]), update))
        });
        float_gather_nd: |c| {
            let indices = c.i_values(&[0, 1, 2, 3], &[2, 2]);
            vec![f::<B>(B::float_gather_nd(c.f_of(1, &[3, 4, 5]), indices))]
        };
        float_select: |c| vec![
            f::<B>(B::float_select(c.f(1), 0, c.i_in(2, &[6], 0, c.shape()[0] as i64))),
            f::<B>(B::float_select(c.f(1), 2, c.i_in(2, &[few(c)], 0, c.shape()[2] as i64))),
        ];
        float_select_assign: |c| updates(|update| {
            let [x, y, _] = c.shape();
            f::<B>(B::float_select_assign(c.f(1), 2, c.i_values(&[2, 0], &[2]), c.f_of(3, &[x, y, 2]), update))
        });
        float_mask_where: |c| vec![
            f::<B>(B::float_mask_where(c.f(1), c.b(2), c.f(3))),
            f::<B>(B::float_mask_where(c.f(1), c.b_of(2, &[1, c.shape()[1], 1]), c.f(3))),
        ];
        float_mask_fill: |c| vec![
            f::<B>(B::float_mask_fill(c.f(1), c.b(2), S)),
            f::<B>(B::float_mask_fill(c.f(1), c.b(2), Scalar::Float(f64::NEG_INFINITY))),
            f::<B>(B::float_mask_fill(c.f(1), c.b_of(2, &[1, c.shape()[1], 1]), S)),
        ];
        float_mask_select: |c| vec![f::<B>(read_sync(B::float_mask_select(c.f(1), c.b(2))))];
    }
}

fn compared<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! on {
        ($($name:ident $with:ident,)*) => { cases! { list: B; $(
            $name: |c| {
                let coarse = |seed| B::float_round(c.f(seed));
                vec![
                    b::<B>(B::$name(coarse(1), coarse(2), c.bool)),
                    b::<B>(B::$name(c.f_special(), c.f_special(), c.bool)),
                ]
            };
            $with: |c| vec![
                b::<B>(B::$with(B::float_round(c.f(1)), Scalar::Float(1.0), c.bool)),
                b::<B>(B::$with(c.f_special(), Scalar::Float(0.0), c.bool)),
            ];
        )* } };
    }
    on!(float_equal float_equal_elem, float_not_equal float_not_equal_elem, float_greater float_greater_elem,
        float_greater_equal float_greater_equal_elem, float_lower float_lower_elem,
        float_lower_equal float_lower_equal_elem,);
    cases! { list: B;
        float_is_nan: |c| vec![b::<B>(B::float_is_nan(c.f_special(), c.bool))];
        float_is_inf: |c| vec![b::<B>(B::float_is_inf(c.f_special(), c.bool))];
        float_any: |c| vec![b::<B>(B::float_any(B::float_round(c.f(1)), NATIVE))];
        float_any_dim: |c| vec![b::<B>(B::float_any_dim(B::float_round(c.f(1)), 2, NATIVE))];
        float_all: |c| vec![b::<B>(B::float_all(B::float_round(c.f(1)), NATIVE))];
        float_all_dim: |c| vec![b::<B>(B::float_all_dim(B::float_round(c.f(1)), 2, NATIVE))];
    }
}

fn reduced<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! all_of {
        ($($name:ident)*) => { cases! { list: B; $($name: |c| vec![f::<B>(B::$name(c.f(1)))];)* } };
    }
    macro_rules! along {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| (0..3).map(|dim| f::<B>(B::$name(c.f_in(1, &c.shape(), 0.5, 1.5), dim))).collect();
        )* } };
    }
    all_of!(float_sum float_mean float_max float_min float_max_abs);
    along!(float_sum_dim float_prod_dim float_mean_dim float_cumsum float_cumprod float_cummin float_cummax
        float_max_dim float_min_dim float_max_abs_dim);
    cases! { list: B;
        float_prod: |c| vec![f::<B>(B::float_prod(c.f_in(1, &[2, 3], 0.5, 1.5)))];
        float_sum_dims: |c| vec![f::<B>(B::float_sum_dims(c.f(1), &[0, 2]))];
        float_argmax: |c| (0..3).map(|dim| i::<B>(B::float_argmax(c.f_distinct(1), dim, c.int))).collect();
        float_argmin: |c| (0..3).map(|dim| i::<B>(B::float_argmin(c.f_distinct(1), dim, c.int))).collect();
        float_max_dim_with_indices: |c| {
            let (values, places) = B::float_max_dim_with_indices(c.f_distinct(1), 2, c.int);
            vec![f::<B>(values), i::<B>(places)]
        };
        float_min_dim_with_indices: |c| {
            let (values, places) = B::float_min_dim_with_indices(c.f_distinct(1), 1, c.int);
            vec![f::<B>(values), i::<B>(places)]
        };
    }
}

fn ordered<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        float_sort: |c| vec![
            f::<B>(B::float_sort(c.f_distinct(1), 2, false)),
            f::<B>(B::float_sort(c.f_distinct(1), 0, true)),
        ];
        float_sort_with_indices: |c| {
            let (values, places) = B::float_sort_with_indices(c.f_distinct(1), 1, true, c.int);
            vec![f::<B>(values), i::<B>(places)]
        };
        float_argsort: |c| vec![
            i::<B>(B::float_argsort(c.f_distinct(1), 2, false, c.int)),
            i::<B>(B::float_argsort(c.f_distinct(1), 1, true, c.int)),
        ];
        float_topk: |c| vec![f::<B>(B::float_topk(c.f_distinct(1), 2, 2))];
        float_argtopk: |c| vec![i::<B>(B::float_argtopk(c.f_distinct(1), 2, 2, c.int))];
        float_topk_with_indices: |c| {
            let (values, places) = B::float_topk_with_indices(c.f_distinct(1), 2, 3, c.int);
            vec![f::<B>(values), i::<B>(places)]
        };
    }
}

fn activations<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! one {
        ($($name:ident)*) => { cases! { list: B; $($name: |c| vec![f::<B>(B::$name(c.f(1)))];)* } };
    }
    macro_rules! along {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![f::<B>(B::$name(c.f(1), 2)), f::<B>(B::$name(c.f(1), 0))];
        )* } };
    }
    one!(relu gelu sigmoid log_sigmoid);
    along!(softmax log_softmax softmin);
    cases! { list: B;
        leaky_relu: |c| vec![f::<B>(B::leaky_relu(c.f(1), Scalar::Float(0.1)))];
        relu_backward: |c| vec![f::<B>(B::relu_backward(B::relu(c.f(1)), c.f(2)))];
        prelu: |c| vec![f::<B>(B::prelu(c.f(1), c.f_of(2, &[1, 1, 1])))];
        gelu_backward: |c| vec![f::<B>(B::gelu_backward(c.f(1), c.f(2)))];
        sigmoid_backward: |c| vec![f::<B>(B::sigmoid_backward(B::sigmoid(c.f(1)), c.f(2)))];
        hard_sigmoid: |c| vec![f::<B>(B::hard_sigmoid(c.f(1), Scalar::Float(0.2), Scalar::Float(0.5)))];
        log_sigmoid_backward: |c| vec![f::<B>(B::log_sigmoid_backward(c.f(1), c.f(2)))];
    }
}
