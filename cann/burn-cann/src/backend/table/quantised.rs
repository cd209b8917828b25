//! Operations on quantised tensors. They are stored on the device in the bytes in which Burn packs them, and no
//! operator computes with those.

use burn_flex::FlexDevice;

use super::super::error::Error;
use super::prelude::*;

operations! {
    QTensorOps, "quantised";

    fn q_from_data(data: TensorData, device: &CannDevice) -> Quantised = data {
        upload(data, *device)
    };
    fn quantize(
        tensor: Float,
        scheme: &QuantScheme,
        qparams: QuantizationParametersPrimitive<CannBackend>,
    ) -> Quantised = host;
    fn quantize_dynamic(tensor: Float, scheme: &QuantScheme) -> Quantised = host;
    fn dequantize(tensor: Quantised, dtype: FloatDType) -> Float = host;
    fn q_to_device(tensor: Quantised, device: &CannDevice) -> Quantised = data {
        carry(tensor, *device)
    };
    fn q_reshape(tensor: Quantised, shape: Shape) -> Quantised = host;
    fn q_into_data(
        tensor: Quantised,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send = data {
        std::future::ready(transfer::quantised_data(&tensor))
    };
    fn q_expand(tensor: Quantised, shape: Shape) -> Quantised = host;
    fn q_swap_dims(tensor: Quantised, dim1: usize, dim2: usize) -> Quantised = host;
    fn q_permute(tensor: Quantised, axes: &[usize]) -> Quantised = host;
    fn q_flip(tensor: Quantised, axes: &[usize]) -> Quantised = host;
    fn q_select(tensor: Quantised, dim: usize, indices: Int) -> Quantised = host;
    fn q_slice(tensor: Quantised, slices: &[Slice]) -> Quantised = host;
    fn q_gather(dim: usize, tensor: Quantised, indices: Int) -> Quantised = host;
    fn q_argmax(tensor: Quantised, dim: usize, out_dtype: IntDType) -> Int = host;
    fn q_argmin(tensor: Quantised, dim: usize, out_dtype: IntDType) -> Int = host;

    composed:
        q_detach, q_set_require_grad, q_is_require_grad, q_transpose, q_repeat_dim, q_add, q_add_scalar,
        q_clamp_min, q_clamp_max, q_clamp, q_sub, q_sub_scalar, q_mul, q_mul_scalar, q_div, q_div_scalar,
        q_matmul, q_neg, q_recip, q_sum, q_sum_dim, q_prod, q_prod_dim, q_mean, q_mean_dim, q_cumsum,
        q_cumprod, q_cummin, q_cummax, q_exp, q_log, q_log1p, q_powf, q_powi, q_powi_scalar,
        q_powf_scalar, q_sqrt, q_abs, q_cos, q_sin, q_tan, q_cosh, q_sinh, q_tanh, q_erf, q_cat,
        q_argtopk, q_topk, q_topk_with_indices, q_max, q_max_dim, q_max_dim_with_indices, q_min,
        q_min_dim, q_min_dim_with_indices, q_max_abs, q_max_abs_dim, q_any, q_any_dim, q_all, q_all_dim,
        q_sort, q_sort_with_indices, q_argsort;
}

fn upload(data: TensorData, device: CannDevice) -> Quantised {
    let host = Flex::q_from_data(data, &FlexDevice);
    let tensor = device
        .place()
        .and_then(|place| transfer::write_quantised(host, &place));
    tensor.unwrap_or_else(|error| fallback::fail(&statics::q_from_data, &error))
}

fn carry(tensor: Quantised, device: CannDevice) -> Quantised {
    if tensor.place.device == device {
        let place = device
            .place()
            .unwrap_or_else(|error| fallback::fail(&statics::q_to_device, &error));
        return CannQTensor { place, ..tensor };
    }
    let carried = transfer::read_quantised(&tensor)
        .map_err(Error::from)
        .and_then(|host| transfer::write_quantised(host, &device.place()?));
    carried.unwrap_or_else(|error| fallback::fail(&statics::q_to_device, &error))
}
