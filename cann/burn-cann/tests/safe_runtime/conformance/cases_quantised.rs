//! Operations on quantised tensors with 8 bits and one scale per tensor.

use burn_backend::quantization::QuantizationParametersPrimitive;
use burn_backend::{
    Backend, FloatDType, Scalar, Slice, TensorData, TensorMetadata, TensorPrimitive, read_sync,
};
use burn_std::{QuantScheme, QuantStore};

use super::inputs::{Inputs, ranges, shape};
use super::{Case, b, f, i, q};
use crate::cases;

fn scheme() -> QuantScheme {
    QuantScheme::default().with_store(QuantStore::Native)
}

fn quantised<B: Backend>(c: &Inputs<B>, seed: u64) -> B::QuantizedTensorPrimitive {
    B::quantize_dynamic(c.f_in(seed, &[4, 8], 0.2, 2.0), &scheme())
}

fn either<B: Backend>(tensor: TensorPrimitive<B>) -> TensorData {
    match tensor {
        TensorPrimitive::Float(tensor) => f::<B>(tensor),
        TensorPrimitive::QFloat(tensor) => q::<B>(tensor),
    }
}

pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    kept::<B>(&mut list);
    moved::<B>(&mut list);
    computed::<B>(&mut list);
    reduced::<B>(&mut list);
    list
}

fn kept<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        q_from_data: |c| {
            let data = TensorData::quantized(
                (0..32).map(|n| n as i8 * 3 - 40).collect::<Vec<i8>>(), [4, 8], scheme(), &[0.05], None);
            vec![q::<B>(B::q_from_data(data, &c.device))]
        };
        quantize: |c| {
            let scales = c.f_values(&[0.02], &[1]);
            let parameters = QuantizationParametersPrimitive { scales, global: None };
            vec![q::<B>(B::quantize(c.f_of(1, &[4, 8]), &scheme(), parameters))]
        };
        quantize_dynamic: |c| vec![q::<B>(quantised(c, 1))];
        dequantize: |c| {
            [FloatDType::F32, FloatDType::F16, FloatDType::BF16, FloatDType::F64]
                .map(|dtype| f::<B>(B::dequantize(quantised(c, 1), dtype)))
                .into()
        };
        q_to_device: |c| vec![q::<B>(B::q_to_device(quantised(c, 1), &c.device))];
        q_into_data: |c| {
            let tensor = quantised(c, 1);
            let dtype = tensor.dtype();
            let data = read_sync(B::q_into_data(tensor)).expect("a read");
            assert_eq!(data.dtype(), dtype);
            vec![q::<B>(B::q_from_data(data, &c.device))]
        };
        q_detach: |c| vec![q::<B>(B::q_detach(quantised(c, 1)))];
        q_set_require_grad: |c| vec![q::<B>(B::q_set_require_grad(quantised(c, 1), true))];
        q_is_require_grad: |c| vec![TensorData::from([i32::from(B::q_is_require_grad(&quantised(c, 1)))])];
    }
}

fn moved<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        q_reshape: |c| vec![q::<B>(B::q_reshape(quantised(c, 1), shape(&[2, 16])))];
        q_expand: |c| vec![q::<B>(B::q_expand(quantised(c, 1), shape(&[3, 4, 8])))];
        q_transpose: |c| vec![q::<B>(B::q_transpose(quantised(c, 1)))];
        q_swap_dims: |c| vec![q::<B>(B::q_swap_dims(quantised(c, 1), 0, 1))];
        q_permute: |c| vec![q::<B>(B::q_permute(quantised(c, 1), &[1, 0]))];
        q_flip: |c| vec![q::<B>(B::q_flip(quantised(c, 1), &[1]))];
        q_select: |c| vec![q::<B>(B::q_select(quantised(c, 1), 0, c.i_values(&[2, 0], &[2])))];
        q_slice: |c| vec![
            q::<B>(B::q_slice(quantised(c, 1), &ranges(&[(1, 3)]))),
            q::<B>(B::q_slice(quantised(c, 1), &[Slice::full(), Slice::new(0, None, -2)])),
        ];
        q_gather: |c| vec![q::<B>(B::q_gather(1, quantised(c, 1), c.i_in(2, &[4, 3], 0, 8)))];
        q_repeat_dim: |c| vec![q::<B>(B::q_repeat_dim(quantised(c, 1), 0, 2))];
        q_cat: |c| vec![q::<B>(B::q_cat(vec![quantised(c, 1), quantised(c, 2)], 0))];
    }
}

fn computed<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! one {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![either::<B>(B::$name(quantised(c, 1)))];
        )* } };
    }
    macro_rules! two {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![either::<B>(B::$name(quantised(c, 1), quantised(c, 2)))];
        )* } };
    }
    macro_rules! with {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![either::<B>(B::$name(quantised(c, 1), Scalar::Float(0.75)))];
        )* } };
    }
    one!(q_neg q_recip q_exp q_log q_log1p q_sqrt q_cos q_sin q_tan q_cosh q_sinh q_tanh q_erf);
    two!(q_add q_sub q_mul q_div q_powf);
    with!(q_add_scalar q_sub_scalar q_mul_scalar q_div_scalar q_clamp_min q_clamp_max q_powf_scalar);
    cases! { list: B;
        q_clamp: |c| vec![either::<B>(B::q_clamp(quantised(c, 1), Scalar::Float(0.5), Scalar::Float(1.0)))];
        q_powi: |c| vec![either::<B>(B::q_powi(quantised(c, 1), c.i_values(&[2], &[4, 8])))];
        q_powi_scalar: |c| vec![either::<B>(B::q_powi_scalar(quantised(c, 1), Scalar::Int(2)))];
        q_matmul: |c| {
            let left = TensorPrimitive::QFloat(quantised(c, 1));
            let right = TensorPrimitive::QFloat(B::q_transpose(quantised(c, 2)));
            let plain = B::float_cast(c.f_of(3, &[2, 4]), FloatDType::F32);
            vec![
                either::<B>(B::q_matmul(left.clone(), right)),
                either::<B>(B::q_matmul(TensorPrimitive::Float(plain), left)),
            ]
        };
        q_abs: |c| vec![q::<B>(B::q_abs(quantised(c, 1)))];
    }
}

fn reduced<B: Backend>(list: &mut Vec<Case<B>>) {
    macro_rules! one {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![either::<B>(B::$name(quantised(c, 1)))];
        )* } };
    }
    macro_rules! along {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![either::<B>(B::$name(quantised(c, 1), 1))];
        )* } };
    }
    macro_rules! kept {
        ($($name:ident)*) => { cases! { list: B; $($name: |c| vec![q::<B>(B::$name(quantised(c, 1)))];)* } };
    }
    macro_rules! kept_along {
        ($($name:ident)*) => { cases! { list: B; $(
            $name: |c| vec![q::<B>(B::$name(quantised(c, 1), 1))];
        )* } };
    }
    one!(q_sum q_prod q_mean);
    along!(q_sum_dim q_prod_dim q_mean_dim q_cumsum q_cumprod q_cummin q_cummax);
    kept!(q_max q_min q_max_abs);
    kept_along!(q_max_dim q_min_dim q_max_abs_dim);
    cases! { list: B;
        q_any: |c| vec![b::<B>(B::q_any(quantised(c, 1), c.bool))];
        q_any_dim: |c| vec![b::<B>(B::q_any_dim(quantised(c, 1), 1, c.bool))];
        q_all: |c| vec![b::<B>(B::q_all(quantised(c, 1), c.bool))];
        q_all_dim: |c| vec![b::<B>(B::q_all_dim(quantised(c, 1), 1, c.bool))];
        q_argmax: |c| vec![i::<B>(B::q_argmax(quantised(c, 1), 1, c.int))];
        q_argmin: |c| vec![i::<B>(B::q_argmin(quantised(c, 1), 1, c.int))];
        q_max_dim_with_indices: |c| {
            let (values, places) = B::q_max_dim_with_indices(quantised(c, 1), 1, c.int);
            vec![q::<B>(values), i::<B>(places)]
        };
        q_min_dim_with_indices: |c| {
            let (values, places) = B::q_min_dim_with_indices(quantised(c, 1), 1, c.int);
            vec![q::<B>(values), i::<B>(places)]
        };
        q_sort: |c| vec![q::<B>(B::q_sort(quantised(c, 1), 1, false))];
        q_sort_with_indices: |c| {
            let (values, places) = B::q_sort_with_indices(quantised(c, 1), 1, true, c.int);
            vec![q::<B>(values), i::<B>(places)]
        };
        q_argsort: |c| vec![i::<B>(B::q_argsort(quantised(c, 1), 1, false, c.int))];
        q_topk: |c| vec![q::<B>(B::q_topk(quantised(c, 1), 1, 2))];
        q_argtopk: |c| vec![i::<B>(B::q_argtopk(quantised(c, 1), 1, 2, c.int))];
        q_topk_with_indices: |c| {
            let (values, places) = B::q_topk_with_indices(quantised(c, 1), 1, 2, c.int);
            vec![q::<B>(values), i::<B>(places)]
        };
    }
}
