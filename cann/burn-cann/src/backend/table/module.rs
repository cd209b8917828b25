//! Operations of neural network layers.

use super::prelude::*;

operations! {
    ModuleOps, "module";

    fn embedding(weights: Float, indices: Int) -> Float = native(index::embedding);
    fn embedding_backward(weights: Float, output_grad: Float, indices: Int) -> Float =
        native(index::embedding_backward);
    fn conv2d(x: Float, weight: Float, bias: Option<Float>, options: ConvOptions<2>) -> Float = host;
    fn deform_conv2d(
        x: Float,
        offset: Float,
        weight: Float,
        mask: Option<Float>,
        bias: Option<Float>,
        options: DeformConvOptions<2>,
    ) -> Float = host;
    fn deform_conv2d_backward(
        x: Float,
        offset: Float,
        weight: Float,
        mask: Option<Float>,
        bias: Option<Float>,
        output_grad: Float,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<CannBackend> = host;
    fn conv3d(x: Float, weight: Float, bias: Option<Float>, options: ConvOptions<3>) -> Float = host;
    fn conv_transpose2d(
        x: Float,
        weight: Float,
        bias: Option<Float>,
        options: ConvTransposeOptions<2>,
    ) -> Float = host;
    fn conv_transpose3d(
        x: Float,
        weight: Float,
        bias: Option<Float>,
        options: ConvTransposeOptions<3>,
    ) -> Float = host;
    fn avg_pool2d(
        x: Float,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float = host;
    fn avg_pool2d_backward(
        x: Float,
        grad: Float,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float = host;
    fn adaptive_avg_pool2d(x: Float, output_size: [usize; 2]) -> Float = host;
    fn adaptive_avg_pool2d_backward(x: Float, grad: Float) -> Float = host;
    fn adaptive_avg_pool3d(x: Float, output_size: [usize; 3]) -> Float = host;
    fn adaptive_avg_pool3d_backward(x: Float, grad: Float) -> Float = host;
    fn max_pool2d(
        x: Float,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> Float = host;
    fn max_pool2d_with_indices(
        x: Float,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<CannBackend> = host;
    fn max_pool2d_with_indices_backward(
        x: Float,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        output_grad: Float,
        indices: Int,
    ) -> MaxPool2dBackward<CannBackend> = host;
    fn interpolate(x: Float, output_size: [usize; 2], options: InterpolateOptions) -> Float = host;
    fn interpolate_backward(
        x: Float,
        grad: Float,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> Float = host;
    // Attention that the operator does not take is composed of other operations, as for every backend.
    fn attention(
        query: Float,
        key: Float,
        value: Float,
        mask: Option<Bool>,
        attn_bias: Option<Float>,
        options: AttentionModuleOptions,
    ) -> Float = native {
        let free = mask.is_none() && attn_bias.is_none();
        let found = flash(&query, &key, &value, free, &options);
        fallback::accepted(&statics::attention, found).unwrap_or_else(|_| {
            let [key, value] = [key, value].map(|shared| per_head(shared, &query));
            attention_fallback::<CannBackend>(query, key, value, mask, attn_bias, options)
        })
    };
    fn layer_norm(tensor: Float, gamma: Float, beta: Option<Float>, epsilon: f64) -> Float =
        native(norm::layer_norm);

    composed:
        batch_norm, batch_norm_train, batch_norm_train_backward, linear, linear_x_backward,
        linear_weight_backward, linear_bias_backward, conv1d, conv1d_x_backward, conv1d_weight_backward,
        conv1d_bias_backward, conv2d_x_backward, conv2d_weight_backward, conv2d_bias_backward,
        conv3d_x_backward, conv3d_weight_backward, conv3d_bias_backward, conv_transpose1d,
        conv_transpose1d_x_backward, conv_transpose1d_weight_backward, conv_transpose1d_bias_backward,
        conv_transpose2d_x_backward, conv_transpose2d_weight_backward, conv_transpose2d_bias_backward,
        conv_transpose3d_x_backward, conv_transpose3d_weight_backward, conv_transpose3d_bias_backward,
        unfold4d, fold4d, avg_pool1d, avg_pool1d_backward, adaptive_avg_pool1d,
        adaptive_avg_pool1d_backward, max_pool1d, max_pool1d_with_indices,
        max_pool1d_with_indices_backward, ctc_loss, has_ctc_loss_backward, ctc_loss_backward;
}
