//! Operations on integer tensors. Results fit every dtype.

use burn_backend::ops::PadMode;
use burn_backend::{
    Backend, Distribution, FloatDType, IntDType, Scalar, Slice, TensorData, read_sync,
};

use super::cases_float::{bounds, updates};
use super::inputs::{Inputs, ranges, shape};
use super::{Case, b, f, i, outline};
use crate::cases;

const S: Scalar = Scalar::Int(3);

/// Returns cases that the device declines although it has the operation.
pub fn declined<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    cases! { list: B;
        int_scatter: |c| bounds(|update| {
            let [x, y, _] = c.shape();
            let indices = c.i_values(&[0, 2], &[x, y, 2]);
            i::<B>(B::int_scatter(2, c.i(1), indices, c.i_of(3, &[x, y, 2]), update))
        });
        int_select_assign: |c| bounds(|update| {
            let [x, y, _] = c.shape();
            let value = c.i_of(3, &[x, y, 2]);
            i::<B>(B::int_select_assign(c.i(1), 2, c.i_values(&[2, 0], &[2]), value, update))
        });
    }
    list
}

pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    made::<B>(&mut list);
    arithmetic::<B>(&mut list);
    bits::<B>(&mut list);
    moved::<B>(&mut list);
    indexed::<B>(&mut list);
    compared::<B>(&mut list);
    reduced::<B>(&mut list);
    ordered::<B>(&mut list);
    list
}

fn made<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        int_from_data: |c| vec![i::<B>(c.i(1))];
        int_into_data: |c| vec![i::<B>(c.i(1))];
        int_to_device: |c| vec![i::<B>(B::int_to_device(c.i(1), &c.device))];
        int_empty: |c| vec![outline(&B::int_empty(shape(&c.shape()), &c.device, c.int))];
        int_zeros: |c| vec![i::<B>(B::int_zeros(shape(&c.shape()), &c.device, c.int))];
        int_ones: |c| vec![i::<B>(B::int_ones(shape(&c.shape()), &c.device, c.int))];
        int_full: |c| vec![i::<B>(B::int_full(shape(&c.shape()), Scalar::Int(7), &c.device, c.int))];
        int_arange: |c| vec![
            i::<B>(B::int_arange(2..9, &c.device, c.int)),
            i::<B>(B::int_arange(3..3, &c.device, c.int)),
        ];
        int_arange_step: |c| vec![i::<B>(B::int_arange_step(1..12, 4, &c.device, c.int))];
        int_random: |c| {
            let distribution = Distribution::Uniform(0.0, 10.0);
            let data = i::<B>(B::int_random(shape(&[1000]), distribution, &c.device, c.int));
            let within = data.iter::<i64>().all(|value| (0..=10).contains(&value));
            let mean = data.iter::<f64>().sum::<f64>() / 1000.0;
            vec![TensorData::from([i32::from(within && (mean - 4.75).abs() < 0.75)])]
        };
        int_into_float: |c| {
            [FloatDType::F32, FloatDType::F16, FloatDType::BF16, FloatDType::F64]
                .map(|dtype| f::<B>(B::int_into_float(c.i(1), dtype)))
                .into()
        };
        int_cast: |c| {
            [IntDType::I64, IntDType::I32, IntDType::I16, IntDType::I8, IntDType::U8, IntDType::U32]
                .map(|dtype| i::<B>(B::int_cast(c.i_above(1), dtype)))
                .into()
        };
    }
}

fn arithmetic<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        int_add: |c| vec![
            i::<B>(B::int_add(c.i(1), c.i(2))),
            i::<B>(B::int_add(c.i(1), c.i_of(2, &[c.shape()[0], 1, 1]))),
        ];
        int_add_scalar: |c| vec![i::<B>(B::int_add_scalar(c.i(1), S))];
        int_sub: |c| vec![i::<B>(B::int_sub(c.i_above(1), c.i(2)))];
        int_sub_scalar: |c| vec![i::<B>(B::int_sub_scalar(c.i_above(1), S))];
        int_mul: |c| vec![i::<B>(B::int_mul(c.i(1), c.i(2)))];
        int_mul_scalar: |c| vec![i::<B>(B::int_mul_scalar(c.i(1), S))];
        int_div: |c| vec![i::<B>(B::int_div(c.i(1), c.i_in(2, &c.shape(), 1, 4)))];
        int_div_scalar: |c| vec![i::<B>(B::int_div_scalar(c.i(1), S))];
        int_remainder: |c| vec![i::<B>(B::int_remainder(c.i(1), c.i_in(2, &c.shape(), 1, 4)))];
        int_remainder_scalar: |c| vec![i::<B>(B::int_remainder_scalar(c.i(1), S))];
        int_matmul: |c| vec![
            i::<B>(B::int_matmul(c.i_in(1, &[3, 4], 0, 4), c.i_in(2, &[4, 2], 0, 4))),
            i::<B>(B::int_matmul(c.i_in(1, &[2, 3, 4], 0, 4), c.i_in(2, &[2, 4, 2], 0, 4))),
        ];
        int_neg: |c| vec![i::<B>(B::int_neg(c.i(1)))];
        int_abs: |c| vec![i::<B>(B::int_abs(c.i(1)))];
        int_sign: |c| vec![i::<B>(B::int_sign(c.i(1)))];
        int_square: |c| vec![i::<B>(B::int_square(c.i(1)))];
        int_powi: |c| vec![i::<B>(B::int_powi(c.i_in(1, &c.shape(), 0, 5), c.i_in(2, &c.shape(), 0, 4)))];
        int_powi_scalar: |c| {
            [0, 1, 2, 3]
                .map(|n| i::<B>(B::int_powi_scalar(c.i_in(1, &c.shape(), 0, 5), Scalar::Int(n))))
                .into()
        };
        int_powi_scalar_impl: |c| {
            vec![i::<B>(B::int_powi_scalar_impl(c.i_in(1, &c.shape(), 0, 5), Scalar::Int(3)))]
        };
        int_clamp_min: |c| vec![i::<B>(B::int_clamp_min(c.i(1), S))];
        int_clamp_max: |c| vec![i::<B>(B::int_clamp_max(c.i(1), S))];
        int_clamp: |c| vec![i::<B>(B::int_clamp(c.i(1), Scalar::Int(2), Scalar::Int(5)))];
    }
}

fn bits<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! on {
        ($($name:ident $with:ident)*) => { cases! { list: B; $(
            $name: |c| vec![i::<B>(B::$name(c.i_in(1, &c.shape(), 0, 16), c.i_in(2, &c.shape(), 0, 3)))];
            $with: |c| vec![i::<B>(B::$with(c.i_in(1, &c.shape(), 0, 16), Scalar::Int(2)))];
        )* } };
    }
    on!(bitwise_and bitwise_and_scalar bitwise_or bitwise_or_scalar bitwise_xor bitwise_xor_scalar
        bitwise_left_shift bitwise_left_shift_scalar bitwise_right_shift bitwise_right_shift_scalar);
    // The shifts are larger than the number of bits of any dtype, or negative.
    macro_rules! far {
        ($($name:ident $with:ident)*) => { cases! { list: B; $(
            $name: |c| vec![i::<B>(B::$name(c.i_in(1, &c.shape(), 0, 16), c.i_in(2, &c.shape(), 0, 100)))];
            $with: |c| vec![i::<B>(B::$with(c.i(1), Scalar::Int(67)))];
        )* } };
    }
    far!(bitwise_left_shift bitwise_left_shift_scalar bitwise_right_shift bitwise_right_shift_scalar);
    cases! { list: B; bitwise_not: |c| vec![i::<B>(B::bitwise_not(c.i(1)))]; }
}

fn moved<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        int_repeat_dim: |c| (0..3).map(|dim| i::<B>(B::int_repeat_dim(c.i(1), dim, 3))).collect();
        int_transpose: |c| vec![i::<B>(B::int_transpose(c.i(1)))];
        int_swap_dims: |c| vec![i::<B>(B::int_swap_dims(c.i(1), 0, 2))];
        int_permute: |c| vec![i::<B>(B::int_permute(c.i(1), &[1, 2, 0]))];
        int_flip: |c| vec![i::<B>(B::int_flip(c.i(1), &[0, 1]))];
        int_reshape: |c| {
            let [x, y, z] = c.shape();
            vec![
                i::<B>(B::int_reshape(c.i(1), shape(&[x * y * z]))),
                i::<B>(B::int_reshape(c.i(1), shape(&[z, x * y]))),
            ]
        };
        int_expand: |c| {
            let [_, y, z] = c.shape();
            vec![i::<B>(B::int_expand(c.i_of(1, &[1, y, z]), shape(&[2, 3, y, z])))]
        };
        int_slice: |c| vec![
            i::<B>(B::int_slice(c.i(1), &ranges(&[(0, 1), (0, 2)]))),
            i::<B>(B::int_slice(c.i(1), &[Slice::full(), Slice::full(), Slice::new(0, None, -2)])),
        ];
        int_slice_assign: |c| {
            let [x, y, z] = c.shape();
            let part = ranges(&[(0, x as isize), (0, y as isize / 2)]);
            vec![i::<B>(B::int_slice_assign(c.i(1), &part, c.i_of(2, &[x, y / 2, z])))]
        };
        int_cat: |c| vec![i::<B>(B::int_cat(vec![c.i(1), c.i(2)], 1))];
        int_unfold: |c| vec![i::<B>(B::int_unfold(c.i_of(1, &[2, 7, 3]), 1, 3, 2))];
        int_pad: |c| vec![i::<B>(B::int_pad(c.i_of(1, &[2, 4]), &[(0, 0), (1, 2)], PadMode::Constant(3.0)))];
    }
}

fn indexed<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        int_gather: |c| {
            let [x, y, z] = c.shape();
            vec![i::<B>(B::int_gather(2, c.i(1), c.i_in(2, &[x, y, 2], 0, z as i64)))]
        };
        int_scatter: |c| updates(|update| {
            let [x, y, _] = c.shape();
            i::<B>(B::int_scatter(2, c.i(1), c.i_values(&[0, 2], &[x, y, 2]), c.i_of(3, &[x, y, 2]), update))
        });
        int_scatter_nd: |c| updates(|update| {
            let indices = c.i_values(&[0, 1, 2, 3], &[2, 2]);
            i::<B>(B::int_scatter_nd(c.i_of(1, &[3, 4, 5]), indices, c.i_of(3, &[2, 5]), update))
        });
        int_gather_nd: |c| {
            vec![i::<B>(B::int_gather_nd(c.i_of(1, &[3, 4, 5]), c.i_values(&[0, 1, 2, 3], &[2, 2])))]
        };
        int_select: |c| vec![i::<B>(B::int_select(c.i(1), 0, c.i_in(2, &[6], 0, c.shape()[0] as i64)))];
        int_select_assign: |c| updates(|update| {
            let [x, y, _] = c.shape();
            i::<B>(B::int_select_assign(c.i(1), 2, c.i_values(&[2, 0], &[2]), c.i_of(3, &[x, y, 2]), update))
        });
        int_mask_where: |c| vec![i::<B>(B::int_mask_where(c.i(1), c.b(2), c.i(3)))];
        int_mask_fill: |c| vec![i::<B>(B::int_mask_fill(c.i(1), c.b(2), S))];
        int_mask_select: |c| vec![i::<B>(read_sync(B::int_mask_select(c.i(1), c.b(2))))];
    }
}

fn compared<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! on {
        ($($name:ident $with:ident)*) => { cases! { list: B; $(
            $name: |c| vec![b::<B>(B::$name(c.i(1), c.i(2), c.bool))];
            $with: |c| vec![b::<B>(B::$with(c.i(1), S, c.bool))];
        )* } };
    }
    on!(int_equal int_equal_elem int_not_equal int_not_equal_elem int_greater int_greater_elem
        int_greater_equal int_greater_equal_elem int_lower int_lower_elem int_lower_equal int_lower_equal_elem);
    cases! { list: B;
        int_any: |c| vec![b::<B>(B::int_any(c.i(1), c.bool))];
        int_any_dim: |c| vec![b::<B>(B::int_any_dim(c.i(1), 2, c.bool))];
        int_all: |c| vec![b::<B>(B::int_all(c.i(1), c.bool))];
        int_all_dim: |c| vec![b::<B>(B::int_all_dim(c.i(1), 2, c.bool))];
    }
}

fn reduced<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! along {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| (0..3).map(|dim| i::<B>(B::$name(c.i_in(1, &c.shape(), 0, 3), dim))).collect();
        )* } };
    }
    along!(int_sum_dim int_prod_dim int_mean_dim int_cumsum int_cumprod int_cummin int_cummax int_max_dim
        int_min_dim int_max_abs_dim);
    cases! { list: B;
        int_sum: |c| vec![i::<B>(B::int_sum(c.i_in(1, &c.shape(), 0, 3)))];
        int_prod: |c| vec![i::<B>(B::int_prod(c.i_in(1, &[2, 3], 1, 3)))];
        int_mean: |c| vec![i::<B>(B::int_mean(c.i_in(1, &c.shape(), 0, 3)))];
        int_max: |c| vec![i::<B>(B::int_max(c.i(1)))];
        int_min: |c| vec![i::<B>(B::int_min(c.i(1)))];
        int_max_abs: |c| vec![i::<B>(B::int_max_abs(c.i(1)))];
        int_argmax: |c| (0..3).map(|dim| i::<B>(B::int_argmax(c.i_distinct(1), dim))).collect();
        int_argmin: |c| (0..3).map(|dim| i::<B>(B::int_argmin(c.i_distinct(1), dim))).collect();
        int_max_dim_with_indices: |c| {
            let (values, places) = B::int_max_dim_with_indices(c.i_distinct(1), 2);
            vec![i::<B>(values), i::<B>(places)]
        };
        int_min_dim_with_indices: |c| {
            let (values, places) = B::int_min_dim_with_indices(c.i_distinct(1), 2);
            vec![i::<B>(values), i::<B>(places)]
        };
    }
}

fn ordered<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        int_sort: |c| vec![
            i::<B>(B::int_sort(c.i_distinct(1), 2, false)),
            i::<B>(B::int_sort(c.i_distinct(1), 0, true)),
        ];
        int_sort_with_indices: |c| {
            let (values, places) = B::int_sort_with_indices(c.i_distinct(1), 1, true);
            vec![i::<B>(values), i::<B>(places)]
        };
        int_argsort: |c| vec![i::<B>(B::int_argsort(c.i_distinct(1), 2, false))];
        int_topk: |c| vec![i::<B>(B::int_topk(c.i_distinct(1), 2, 2))];
        int_argtopk: |c| vec![i::<B>(B::int_argtopk(c.i_distinct(1), 2, 2))];
        int_topk_with_indices: |c| {
            let (values, places) = B::int_topk_with_indices(c.i_distinct(1), 2, 3);
            vec![i::<B>(values), i::<B>(places)]
        };
    }
}
