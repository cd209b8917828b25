//! Operations of modules. Burn composes all others from them, including the gradients of convolutions, so that each
//! step is checked.

use super::prelude::*;

operations! {
    ModuleOps;

    fn embedding(weights: Float<B>, indices: Int<B>) -> Float<B> = embedded(&weights, &indices);
    fn embedding_backward(
        weights: Float<B>,
        output_grad: Float<B>,
        indices: Int<B>,
    ) -> Float<B> = sum([like(&weights), cast(&indices, DType::I64)]);
    fn conv1d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvOptions<1>,
    ) -> Float<B> =
        convolved(&x, &weight, &options),
        if fit::convolved(&x, &weight, bias.as_ref(), &options);
    fn conv2d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvOptions<2>,
    ) -> Float<B> =
        convolved(&x, &weight, &options),
        if fit::convolved(&x, &weight, bias.as_ref(), &options);
    fn deform_conv2d(
        x: Float<B>,
        offset: Float<B>,
        weight: Float<B>,
        mask: Option<Float<B>>,
        bias: Option<Float<B>>,
        options: DeformConvOptions<2>,
    ) -> Float<B> =
        deformed(&x, &weight, &options),
        if fit::deformed(&x, &offset, &weight, [mask.as_ref(), bias.as_ref()], None, &options);
    fn deform_conv2d_backward(
        x: Float<B>,
        offset: Float<B>,
        weight: Float<B>,
        mask: Option<Float<B>>,
        bias: Option<Float<B>>,
        output_grad: Float<B>,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Bounded<B>> =
        sum([
            deformed(&x, &weight, &options).saturating_mul(2),
            like(&offset).saturating_mul(2),
            widened(&offset).saturating_mul(2),
            like(&output_grad),
            widened(&output_grad),
        ]),
        if fit::deformed(&x, &offset, &weight, [mask.as_ref(), bias.as_ref()], Some(&output_grad), &options);
    fn conv3d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvOptions<3>,
    ) -> Float<B> =
        convolved(&x, &weight, &options),
        if fit::convolved(&x, &weight, bias.as_ref(), &options);
    fn conv_transpose1d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvTransposeOptions<1>,
    ) -> Float<B> =
        deconvolved(&x, &weight, &options),
        if fit::deconvolved(&x, &weight, bias.as_ref(), &options);
    fn conv_transpose2d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvTransposeOptions<2>,
    ) -> Float<B> =
        deconvolved(&x, &weight, &options),
        if fit::deconvolved(&x, &weight, bias.as_ref(), &options);
    fn conv_transpose3d(
        x: Float<B>,
        weight: Float<B>,
        bias: Option<Float<B>>,
        options: ConvTransposeOptions<3>,
    ) -> Float<B> =
        deconvolved(&x, &weight, &options),
        if fit::deconvolved(&x, &weight, bias.as_ref(), &options);
    fn unfold4d(
        x: Float<B>,
        kernel_size: [usize; 2],
        options: UnfoldOptions,
    ) -> Float<B> =
        unfolded(&x, kernel_size, &options),
        if fit::unfolded(&x, kernel_size, &options);
    fn avg_pool2d(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<B> =
        planes(&x, size(&x, 1), &slid(&x, kernel_size, stride, around(padding), [1; 2])).saturating_mul(2),
        if fit::pooled(&x, kernel_size, stride, padding, [1; 2]);
    fn avg_pool2d_backward(
        x: Float<B>,
        grad: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<B> =
        sum([like(&x), like(&x), widened(&x)]),
        if fit::pooled(&x, kernel_size, stride, padding, [1; 2]);
    fn adaptive_avg_pool2d(
        x: Float<B>,
        output_size: [usize; 2],
    ) -> Float<B> = planes(&x, size(&x, 1), &output_size);
    fn adaptive_avg_pool2d_backward, adaptive_avg_pool3d_backward
        (x: Float<B>, grad: Float<B>) -> Float<B> = sum([like(&x), widened(&x)]);
    fn adaptive_avg_pool3d(
        x: Float<B>,
        output_size: [usize; 3],
    ) -> Float<B> = planes(&x, size(&x, 1), &output_size);
    fn max_pool2d(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> Float<B> =
        planes(&x, size(&x, 1), &slid(&x, kernel_size, stride, around(padding), dilation)).saturating_mul(2),
        if fit::pooled(&x, kernel_size, stride, padding, dilation);
    fn max_pool2d_with_indices(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Bounded<B>> =
        planes(&x, size(&x, 1), &slid(&x, kernel_size, stride, around(padding), dilation)).saturating_mul(9),
        if fit::pooled(&x, kernel_size, stride, padding, dilation);
    fn max_pool2d_with_indices_backward(
        x: Float<B>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        output_grad: Float<B>,
        indices: Int<B>,
    ) -> MaxPool2dBackward<Bounded<B>> =
        sum([like(&x), like(&x), widened(&x)]),
        if fit::pooled(&x, kernel_size, stride, padding, dilation);
    fn interpolate(
        x: Float<B>,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> Float<B> = resampled(&x, output_size);
    fn interpolate_backward(
        x: Float<B>,
        grad: Float<B>,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> Float<B> = resampled_back(&x, output_size);
    fn attention(
        query: Float<B>,
        key: Float<B>,
        value: Float<B>,
        mask: Option<Bool<B>>,
        attn_bias: Option<Float<B>>,
        options: AttentionModuleOptions,
    ) -> Float<B> = attended(&query, &key, &value, mask.as_ref(), attn_bias.as_ref());
    fn layer_norm(
        tensor: Float<B>,
        gamma: Float<B>,
        beta: Option<Float<B>>,
        epsilon: f64,
    ) -> Float<B> = sum([like(&tensor), like(&tensor), widened(&tensor)]);
}
