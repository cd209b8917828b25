//! Operations on quantised tensors.

use super::prelude::*;

operations! {
    QTensorOps;

    fn dequantize(tensor: Quantised<B>, dtype: FloatDType) -> Float<B> = cast(&tensor, dtype);
    fn q_to_device(tensor: Quantised<B>, device: &Device<Bounded<B>>) -> Quantised<B> = like(&tensor);
    fn q_reshape(tensor: Quantised<B>, shape: Shape) -> Quantised<B> =
        shown(&tensor, &shape), if fit::reshaped(&tensor, &shape);
    fn q_swap_dims(tensor: Quantised<B>, dim1: usize, dim2: usize) -> Quantised<B> =
        0, if fit::swapped(&tensor, dim1, dim2);
    fn q_permute(tensor: Quantised<B>, axes: &[usize]) -> Quantised<B> = 0, if fit::permuted(&tensor, axes);
    fn q_flip(tensor: Quantised<B>, axes: &[usize]) -> Quantised<B> = 0, if fit::axes(&tensor, axes);
    data: q_from_data, q_into_data, Quantised;

    also {
        fn quantize(
            tensor: Float<B>,
            scheme: &QuantScheme,
            qparams: QuantizationParametersPrimitive<Bounded<B>>,
        ) -> Quantised<B> {
            let need = Need::from(like(&tensor));
            let mut operands = Operands::new("quantize");
            let tensor = operands.open(tensor);
            let qparams = QuantizationParametersPrimitive {
                scales: operands.open(qparams.scales),
                global: qparams.global.map(|global| operands.open(global)),
            };
            let running = operands.begin(need);
            running.end(B::quantize(tensor, scheme, qparams))
        }
    }
}
