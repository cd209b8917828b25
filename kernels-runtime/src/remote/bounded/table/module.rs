//! Operations of modules.

use super::prelude::*;

operations! {
    ModuleOps;

    fn batch_norm(
        x: Float<B>,
        gamma: Float<B>,
        beta: Float<B>,
        mean: Float<B>,
        variance: Float<B>,
        epsilon: f64,
    ) -> Float<B> = sum([like(&x), like(&x)]);
    fn embedding(weights: Float<B>, indices: Int<B>) -> Float<B> = embedded(&weights, &indices);
    fn embedding_backward(
        weights: Float<B>,
        output_grad: Float<B>,
        indices: Int<B>,
    ) -> Float<B> = sum([like(&weights), cast(&indices, DType::I64)]);
    fn linear(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
    ) -> Float<B> = projected(&x, &weight, last(&weight));
    fn linear_x_backward(
        weight: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = projected(&output_grad, &weight, size(&weight, 0));
    fn linear_weight_backward(
        x: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> =
        sum([made(&[last(&x), last(&output_grad)], x.dtype()).saturating_mul(2), widened(&x), widened(&output_grad)]);
    fn linear_bias_backward(
        output_grad: Float<B>,
    ) -> Float<B> = sum([made(&[last(&output_grad)], DType::F64), widened(&output_grad)]);
    fn conv1d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvOptions<1>,
    ) -> Float<B> = convolved(&x, &weight, &options);
    fn conv1d_x_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvOptions<1>,
    ) -> Float<B> = sum([convolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv1d_weight_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvOptions<1>,
    ) -> Float<B> = sum([convolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv1d_bias_backward(
        x: Float<B>,
        bias: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = sum([like(&bias), widened(&output_grad)]);
    fn conv2d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvOptions<2>,
    ) -> Float<B> = convolved(&x, &weight, &options);
    fn conv2d_x_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvOptions<2>,
    ) -> Float<B> = sum([convolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv2d_weight_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvOptions<2>,
    ) -> Float<B> = sum([convolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv2d_bias_backward(
        x: Float<B>,
        bias: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = sum([like(&bias), widened(&output_grad)]);
    fn deform_conv2d(
        x: Float<B>,
        offset: Float<B>,
        weight: Float<B>,
        mask: Option<Float<B>>,
        bias: Option<Float<B>>,
        options: DeformConvOptions<2>,
    ) -> Float<B> = deformed(&x, &weight, &options);
    fn deform_conv2d_backward(
        x: Float<B>,
        offset: Float<B>,
        weight: Float<B>,
        mask: Option<Float<B>>,
        bias: Option<Float<B>>,
        output_grad: Float<B>,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Bounded<B>> =
        sum([deformed(&x, &weight, &options).saturating_mul(2), like(&offset), like(&weight), like(&output_grad)]);
    fn conv3d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvOptions<3>,
    ) -> Float<B> = convolved(&x, &weight, &options);
    fn conv3d_x_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvOptions<3>,
    ) -> Float<B> = sum([convolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv3d_weight_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvOptions<3>,
    ) -> Float<B> = sum([convolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv3d_bias_backward(
        x: Float<B>,
        bias: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = sum([like(&bias), widened(&output_grad)]);
    fn conv_transpose1d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvTransposeOptions<1>,
    ) -> Float<B> = deconvolved(&x, &weight, &options);
    fn conv_transpose1d_weight_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvTransposeOptions<1>,
    ) -> Float<B> = sum([deconvolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv_transpose1d_bias_backward(
        x: Float<B>,
        bias: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = sum([like(&bias), widened(&output_grad)]);
    fn conv_transpose2d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvTransposeOptions<2>,
    ) -> Float<B> = deconvolved(&x, &weight, &options);
    fn conv_transpose2d_weight_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvTransposeOptions<2>,
    ) -> Float<B> = sum([deconvolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv_transpose2d_bias_backward(
        x: Float<B>,
        bias: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = sum([like(&bias), widened(&output_grad)]);
    fn conv_transpose3d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvTransposeOptions<3>,
    ) -> Float<B> = deconvolved(&x, &weight, &options);
    fn conv_transpose3d_weight_backward(
        x: Float<B>,
        weight: Float<B>,
        output_grad: Float<B>,
        options: ConvTransposeOptions<3>,
    ) -> Float<B> = sum([deconvolved(&x, &weight, &options), like(&output_grad), widened(&output_grad)]);
    fn conv_transpose3d_bias_backward(
        x: Float<B>,
        bias: Float<B>,
        output_grad: Float<B>,
    ) -> Float<B> = sum([like(&bias), widened(&output_grad)]);
    fn unfold4d(
        x: Float<B>,
        kernel_size: [usize; 2],
        options: UnfoldOptions,
    ) -> Float<B> = unfolded(&x, kernel_size, &options);
    fn avg_pool1d(
        x: Float<B>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<B> =
        planes(&x, size(&x, 1), &slid(&x, [kernel_size], [stride], around([padding]), [1])).saturating_mul(2);
    fn avg_pool1d_backward(
        x: Float<B>,
        grad: Float<B>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<B> = sum([like(&x), like(&x), widened(&x)]);
    fn avg_pool2d(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<B> =
        planes(&x, size(&x, 1), &slid(&x, kernel_size, stride, around(padding), [1; 2])).saturating_mul(2);
    fn avg_pool2d_backward(
        x: Float<B>,
        grad: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<B> = sum([like(&x), like(&x), widened(&x)]);
    fn adaptive_avg_pool2d(
        x: Float<B>,
        output_size: [usize; 2],
    ) -> Float<B> = planes(&x, size(&x, 1), &output_size);
    fn adaptive_avg_pool2d_backward(x: Float<B>, grad: Float<B>) -> Float<B> = sum([like(&x), widened(&x)]);
    fn adaptive_avg_pool3d(
        x: Float<B>,
        output_size: [usize; 3],
    ) -> Float<B> = planes(&x, size(&x, 1), &output_size);
    fn adaptive_avg_pool3d_backward(x: Float<B>, grad: Float<B>) -> Float<B> = sum([like(&x), widened(&x)]);
    fn adaptive_avg_pool1d(
        x: Float<B>,
        output_size: usize,
    ) -> Float<B> = planes(&x, size(&x, 1), &[output_size]);
    fn adaptive_avg_pool1d_backward(x: Float<B>, grad: Float<B>) -> Float<B> = sum([like(&x), widened(&x)]);
    fn max_pool1d(
        x: Float<B>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
    ) -> Float<B> =
        planes(&x, size(&x, 1), &slid(&x, [kernel_size], [stride], around([padding]), [dilation])).saturating_mul(2);
    fn max_pool1d_with_indices(
        x: Float<B>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool1dWithIndices<Bounded<B>> =
        planes(&x, size(&x, 1), &slid(&x, [kernel_size], [stride], around([padding]), [dilation])).saturating_mul(9);
    fn max_pool1d_with_indices_backward(
        x: Float<B>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        output_grad: Float<B>,
        indices: Int<B>,
    ) -> MaxPool1dBackward<Bounded<B>> = sum([like(&x), like(&x), widened(&x)]);
    fn max_pool2d(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> Float<B> =
        planes(&x, size(&x, 1), &slid(&x, kernel_size, stride, around(padding), dilation)).saturating_mul(2);
    fn max_pool2d_with_indices(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Bounded<B>> =
        planes(&x, size(&x, 1), &slid(&x, kernel_size, stride, around(padding), dilation)).saturating_mul(9);
    fn max_pool2d_with_indices_backward(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        output_grad: Float<B>,
        indices: Int<B>,
    ) -> MaxPool2dBackward<Bounded<B>> = sum([like(&x), like(&x), widened(&x)]);
    fn interpolate(
        x: Float<B>,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> Float<B> = planes(&x, size(&x, 1), &output_size);
    fn interpolate_backward(
        x: Float<B>,
        grad: Float<B>,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> Float<B> = sum([like(&x), widened(&x)]);
    fn attention(
        query: Float<B>,
        key: Float<B>,
        value: Float<B>,
        mask: Option<Bool<B>>,
        attn_bias: Option<Float<B>>,
        options: AttentionModuleOptions,
    ) -> Float<B> =
        sum([like(&query), like(&query), like(&value), widened(&query), widened(&key), widened(&value)]);
    fn layer_norm(
        tensor: Float<B>,
        gamma: Float<B>,
        beta: Option<Float<B>>,
        epsilon: f64,
    ) -> Float<B> = sum([like(&tensor), like(&tensor), widened(&tensor)]);
    fn ctc_loss(
        log_probs: Float<B>,
        targets: Int<B>,
        input_lengths: Int<B>,
        target_lengths: Int<B>,
        blank: usize,
    ) -> Float<B> = paths(&log_probs, &targets);
    fn ctc_loss_backward(
        log_probs: Float<B>,
        targets: Int<B>,
        input_lengths: Int<B>,
        target_lengths: Int<B>,
        grad_loss: Float<B>,
        blank: usize,
    ) -> Float<B> = paths(&log_probs, &targets);
}
