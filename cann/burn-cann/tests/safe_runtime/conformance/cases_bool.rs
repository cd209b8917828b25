//! Operations on boolean tensors.

use burn_backend::{Backend, FloatDType, IntDType, Scalar, Slice, read_sync};

use super::inputs::{Inputs, ranges, shape};
use super::{Case, b, f, i, outline};
use crate::cases;

pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    made::<B>(&mut list);
    logic::<B>(&mut list);
    moved::<B>(&mut list);
    indexed::<B>(&mut list);
    list
}

fn made<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        bool_from_data: |c| vec![b::<B>(c.b(1))];
        bool_into_data: |c| vec![b::<B>(c.b(1))];
        bool_to_device: |c| vec![b::<B>(B::bool_to_device(c.b(1), &c.device))];
        bool_empty: |c| vec![outline(&B::bool_empty(shape(&c.shape()), &c.device, c.bool))];
        bool_zeros: |c| vec![b::<B>(B::bool_zeros(shape(&c.shape()), &c.device, c.bool))];
        bool_ones: |c| vec![b::<B>(B::bool_ones(shape(&c.shape()), &c.device, c.bool))];
        bool_into_int: |c| {
            [IntDType::I64, IntDType::I32, IntDType::U8]
                .map(|dtype| i::<B>(B::bool_into_int(c.b(1), dtype)))
                .into()
        };
        bool_into_float: |c| {
            [FloatDType::F32, FloatDType::F16, FloatDType::BF16, FloatDType::F64]
                .map(|dtype| f::<B>(B::bool_into_float(c.b(1), dtype)))
                .into()
        };
    }
}

fn logic<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        bool_equal: |c| vec![b::<B>(B::bool_equal(c.b(1), c.b(2)))];
        bool_not_equal: |c| vec![b::<B>(B::bool_not_equal(c.b(1), c.b(2)))];
        bool_equal_elem: |c| vec![
            b::<B>(B::bool_equal_elem(c.b(1), Scalar::Bool(true))),
            b::<B>(B::bool_equal_elem(c.b(1), Scalar::Bool(false))),
        ];
        bool_not_equal_elem: |c| vec![b::<B>(B::bool_not_equal_elem(c.b(1), Scalar::Bool(true)))];
        bool_not: |c| vec![b::<B>(B::bool_not(c.b(1)))];
        bool_and: |c| vec![b::<B>(B::bool_and(c.b(1), c.b(2)))];
        bool_or: |c| vec![b::<B>(B::bool_or(c.b(1), c.b(2)))];
        bool_xor: |c| vec![b::<B>(B::bool_xor(c.b(1), c.b(2)))];
        bool_any: |c| vec![b::<B>(B::bool_any(c.b(1)))];
        bool_any_dim: |c| (0..3).map(|dim| b::<B>(B::bool_any_dim(c.b(1), dim))).collect();
        bool_all: |c| vec![b::<B>(B::bool_all(c.b(1)))];
        bool_all_dim: |c| (0..3).map(|dim| b::<B>(B::bool_all_dim(c.b(1), dim))).collect();
    }
}

fn moved<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        bool_reshape: |c| {
            let [x, y, z] = c.shape();
            vec![b::<B>(B::bool_reshape(c.b(1), shape(&[z, x * y])))]
        };
        bool_slice: |c| vec![
            b::<B>(B::bool_slice(c.b(1), &ranges(&[(0, 1), (0, 2)]))),
            b::<B>(B::bool_slice(c.b(1), &[Slice::full(), Slice::full(), Slice::new(0, None, -1)])),
        ];
        bool_slice_assign: |c| {
            let [x, y, z] = c.shape();
            let part = ranges(&[(0, x as isize), (0, y as isize / 2)]);
            vec![b::<B>(B::bool_slice_assign(c.b(1), &part, c.b_of(2, &[x, y / 2, z])))]
        };
        bool_repeat_dim: |c| (0..3).map(|dim| b::<B>(B::bool_repeat_dim(c.b(1), dim, 2))).collect();
        bool_cat: |c| vec![b::<B>(B::bool_cat(vec![c.b(1), c.b(2)], 1))];
        bool_transpose: |c| vec![b::<B>(B::bool_transpose(c.b(1)))];
        bool_swap_dims: |c| vec![b::<B>(B::bool_swap_dims(c.b(1), 0, 2))];
        bool_permute: |c| vec![b::<B>(B::bool_permute(c.b(1), &[2, 0, 1]))];
        bool_flip: |c| vec![b::<B>(B::bool_flip(c.b(1), &[0, 2]))];
        bool_expand: |c| {
            let [_, y, z] = c.shape();
            vec![b::<B>(B::bool_expand(c.b_of(1, &[1, y, z]), shape(&[2, 3, y, z])))]
        };
        bool_unfold: |c| vec![b::<B>(B::bool_unfold(c.b_of(1, &[2, 7, 3]), 1, 3, 2))];
    }
}

fn indexed<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        bool_mask_where: |c| vec![b::<B>(B::bool_mask_where(c.b(1), c.b(2), c.b(3)))];
        bool_mask_fill: |c| vec![b::<B>(B::bool_mask_fill(c.b(1), c.b(2), Scalar::Bool(true)))];
        bool_mask_select: |c| vec![b::<B>(read_sync(B::bool_mask_select(c.b(1), c.b(2))))];
        bool_gather: |c| {
            let [x, y, z] = c.shape();
            vec![b::<B>(B::bool_gather(2, c.b(1), c.i_in(2, &[x, y, 2], 0, z as i64)))]
        };
        bool_scatter_or: |c| {
            let [x, y, _] = c.shape();
            let indices = c.i_values(&[0, 2], &[x, y, 2]);
            vec![b::<B>(B::bool_scatter_or(2, c.b(1), indices, c.b_of(3, &[x, y, 2])))]
        };
        bool_select: |c| vec![b::<B>(B::bool_select(c.b(1), 0, c.i_in(2, &[6], 0, c.shape()[0] as i64)))];
        bool_select_or: |c| {
            let [x, y, _] = c.shape();
            vec![b::<B>(B::bool_select_or(c.b(1), 2, c.i_values(&[2, 0], &[2]), c.b_of(3, &[x, y, 2])))]
        };
        bool_argwhere: |c| vec![i::<B>(read_sync(B::bool_argwhere(c.b(1), c.int)))];
    }
}
