//! Operations of neural network layers, on small images and sequences of fixed sizes.

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode,
    InterpolateOptions, TransactionPrimitive, UnfoldOptions,
};
use burn_backend::{Backend, TensorData, read_sync};

use super::inputs::Inputs;
use super::{Case, f, i};
use crate::cases;

pub fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut list: Vec<Case<B>> = Vec::new();
    dense::<B>(&mut list);
    convolutions::<B>(&mut list);
    transposed::<B>(&mut list);
    deformed::<B>(&mut list);
    pools::<B>(&mut list);
    attention::<B>(&mut list);
    others::<B>(&mut list);
    list
}

fn dense<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        embedding: |c| vec![f::<B>(B::embedding(c.f_of(1, &[6, 4]), c.i_in(2, &[2, 3], 0, 6)))];
        embedding_backward: |c| vec![f::<B>(B::embedding_backward(
            c.f_of(1, &[6, 4]), c.f_of(2, &[2, 3, 4]), c.i_in(3, &[2, 3], 0, 6)))];
        linear: |c| vec![
            f::<B>(B::linear(c.f_of(1, &[2, 3, 5]), c.f_of(2, &[5, 4]), Some(c.f_of(3, &[4])))),
            f::<B>(B::linear(c.f_of(1, &[3, 5]), c.f_of(2, &[5, 4]), None)),
        ];
        linear_x_backward: |c| vec![f::<B>(B::linear_x_backward(c.f_of(1, &[5, 4]), c.f_of(2, &[2, 3, 4])))];
        linear_weight_backward: |c| {
            vec![f::<B>(B::linear_weight_backward(c.f_of(1, &[2, 3, 5]), c.f_of(2, &[2, 3, 4])))]
        };
        linear_bias_backward: |c| vec![f::<B>(B::linear_bias_backward(c.f_of(1, &[2, 3, 4])))];
        layer_norm: |c| vec![
            f::<B>(B::layer_norm(c.f_of(1, &[2, 3, 8]), c.f_of(2, &[8]), Some(c.f_of(3, &[8])), 1e-5)),
            f::<B>(B::layer_norm(c.f_of(1, &[2, 3, 8]), c.f_of(2, &[8]), None, 1e-5)),
        ];
        batch_norm: |c| vec![f::<B>(B::batch_norm(
            c.f_of(1, &[2, 3, 4]), c.f_of(2, &[3]), c.f_of(3, &[3]), c.f_of(4, &[3]),
            c.f_in(5, &[3], 0.5, 1.5), 1e-5))];
        batch_norm_train: |c| {
            let out = B::batch_norm_train(c.f_of(1, &[2, 3, 4]), c.f_of(2, &[3]), c.f_of(3, &[3]), 1e-5);
            vec![f::<B>(out.output), f::<B>(out.mean), f::<B>(out.variance)]
        };
        batch_norm_train_backward: |c| {
            let out = B::batch_norm_train_backward(
                c.f_of(1, &[2, 3, 4]), c.f_of(2, &[3]), c.f_of(3, &[3]), c.f_in(4, &[3], 0.5, 1.5), 1e-5,
                c.f_of(5, &[2, 3, 4]));
            vec![f::<B>(out.x_grad), f::<B>(out.gamma_grad), f::<B>(out.beta_grad)]
        };
    }
}

fn convolutions<B: Backend>(list: &mut Vec<Case<B>>) {
    fn one() -> ConvOptions<1> {
        ConvOptions::new([1], [1], [1], 1)
    }
    fn two() -> ConvOptions<2> {
        ConvOptions::new([2, 1], [1, 1], [1, 1], 1)
    }
    fn three() -> ConvOptions<3> {
        ConvOptions::new([1; 3], [1; 3], [1; 3], 1)
    }
    cases! { list: B;
        conv1d: |c| vec![f::<B>(B::conv1d(
            c.f_of(1, &[2, 3, 6]), c.f_of(2, &[4, 3, 3]), Some(c.f_of(3, &[4])), one()))];
        conv1d_x_backward: |c| vec![f::<B>(B::conv1d_x_backward(
            c.f_of(1, &[2, 3, 6]), c.f_of(2, &[4, 3, 3]), c.f_of(3, &[2, 4, 6]), one()))];
        conv1d_weight_backward: |c| vec![f::<B>(B::conv1d_weight_backward(
            c.f_of(1, &[2, 3, 6]), c.f_of(2, &[4, 3, 3]), c.f_of(3, &[2, 4, 6]), one()))];
        conv1d_bias_backward: |c| vec![f::<B>(B::conv1d_bias_backward(
            c.f_of(1, &[2, 3, 6]), c.f_of(2, &[4]), c.f_of(3, &[2, 4, 6])))];
        conv2d: |c| vec![f::<B>(B::conv2d(
            c.f_of(1, &[2, 3, 6, 5]), c.f_of(2, &[4, 3, 3, 3]), Some(c.f_of(3, &[4])), two()))];
        conv2d_x_backward: |c| vec![f::<B>(B::conv2d_x_backward(
            c.f_of(1, &[2, 3, 6, 5]), c.f_of(2, &[4, 3, 3, 3]), c.f_of(3, &[2, 4, 3, 5]), two()))];
        conv2d_weight_backward: |c| vec![f::<B>(B::conv2d_weight_backward(
            c.f_of(1, &[2, 3, 6, 5]), c.f_of(2, &[4, 3, 3, 3]), c.f_of(3, &[2, 4, 3, 5]), two()))];
        conv2d_bias_backward: |c| vec![f::<B>(B::conv2d_bias_backward(
            c.f_of(1, &[2, 3, 6, 5]), c.f_of(2, &[4]), c.f_of(3, &[2, 4, 3, 5])))];
        conv3d: |c| vec![f::<B>(B::conv3d(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2, 2, 3, 3, 3]), None, three()))];
        conv3d_x_backward: |c| vec![f::<B>(B::conv3d_x_backward(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2, 2, 3, 3, 3]), c.f_of(3, &[1, 2, 3, 4, 3]), three()))];
        conv3d_weight_backward: |c| vec![f::<B>(B::conv3d_weight_backward(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2, 2, 3, 3, 3]), c.f_of(3, &[1, 2, 3, 4, 3]), three()))];
        conv3d_bias_backward: |c| vec![f::<B>(B::conv3d_bias_backward(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2]), c.f_of(3, &[1, 2, 3, 4, 3])))];
    }
}

fn transposed<B: Backend>(list: &mut Vec<Case<B>>) {
    fn one() -> ConvTransposeOptions<1> {
        ConvTransposeOptions::new([2], [1], [0], [1], 1)
    }
    fn two() -> ConvTransposeOptions<2> {
        ConvTransposeOptions::new([2, 1], [1, 1], [0, 0], [1, 1], 1)
    }
    fn three() -> ConvTransposeOptions<3> {
        ConvTransposeOptions::new([1; 3], [1; 3], [0; 3], [1; 3], 1)
    }
    cases! { list: B;
        conv_transpose1d: |c| vec![f::<B>(B::conv_transpose1d(
            c.f_of(1, &[2, 3, 4]), c.f_of(2, &[3, 2, 3]), Some(c.f_of(3, &[2])), one()))];
        conv_transpose1d_x_backward: |c| vec![f::<B>(B::conv_transpose1d_x_backward(
            c.f_of(2, &[3, 2, 3]), c.f_of(3, &[2, 2, 7]), one()))];
        conv_transpose1d_weight_backward: |c| vec![f::<B>(B::conv_transpose1d_weight_backward(
            c.f_of(1, &[2, 3, 4]), c.f_of(2, &[3, 2, 3]), c.f_of(3, &[2, 2, 7]), one()))];
        conv_transpose1d_bias_backward: |c| vec![f::<B>(B::conv_transpose1d_bias_backward(
            c.f_of(1, &[2, 3, 4]), c.f_of(2, &[2]), c.f_of(3, &[2, 2, 7])))];
        conv_transpose2d: |c| vec![f::<B>(B::conv_transpose2d(
            c.f_of(1, &[1, 3, 4, 3]), c.f_of(2, &[3, 2, 3, 3]), Some(c.f_of(3, &[2])), two()))];
        conv_transpose2d_x_backward: |c| vec![f::<B>(B::conv_transpose2d_x_backward(
            c.f_of(2, &[3, 2, 3, 3]), c.f_of(3, &[1, 2, 7, 3]), two()))];
        conv_transpose2d_weight_backward: |c| vec![f::<B>(B::conv_transpose2d_weight_backward(
            c.f_of(1, &[1, 3, 4, 3]), c.f_of(2, &[3, 2, 3, 3]), c.f_of(3, &[1, 2, 7, 3]), two()))];
        conv_transpose2d_bias_backward: |c| vec![f::<B>(B::conv_transpose2d_bias_backward(
            c.f_of(1, &[1, 3, 4, 3]), c.f_of(2, &[2]), c.f_of(3, &[1, 2, 7, 3])))];
        conv_transpose3d: |c| vec![f::<B>(B::conv_transpose3d(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2, 2, 3, 3, 3]), None, three()))];
        conv_transpose3d_x_backward: |c| vec![f::<B>(B::conv_transpose3d_x_backward(
            c.f_of(2, &[2, 2, 3, 3, 3]), c.f_of(3, &[1, 2, 3, 4, 3]), three()))];
        conv_transpose3d_weight_backward: |c| vec![f::<B>(B::conv_transpose3d_weight_backward(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2, 2, 3, 3, 3]), c.f_of(3, &[1, 2, 3, 4, 3]), three()))];
        conv_transpose3d_bias_backward: |c| vec![f::<B>(B::conv_transpose3d_bias_backward(
            c.f_of(1, &[1, 2, 3, 4, 3]), c.f_of(2, &[2]), c.f_of(3, &[1, 2, 3, 4, 3])))];
    }
}

fn deformed<B: Backend>(list: &mut Vec<Case<B>>) {
    fn options() -> DeformConvOptions<2> {
        DeformConvOptions::new([1, 1], [1, 1], [1, 1], 1, 1)
    }
    cases! { list: B;
        deform_conv2d: |c| vec![f::<B>(B::deform_conv2d(
            c.f_of(1, &[1, 2, 4, 4]), c.f_in(2, &[1, 18, 4, 4], -0.4, 0.4), c.f_of(3, &[2, 2, 3, 3]),
            Some(c.f_in(4, &[1, 9, 4, 4], 0.1, 1.0)), Some(c.f_of(5, &[2])), options()))];
        deform_conv2d_backward: |c| {
            let out = B::deform_conv2d_backward(
                c.f_of(1, &[1, 2, 4, 4]), c.f_in(2, &[1, 18, 4, 4], -0.4, 0.4), c.f_of(3, &[2, 2, 3, 3]),
                Some(c.f_in(4, &[1, 9, 4, 4], 0.1, 1.0)), Some(c.f_of(5, &[2])), c.f_of(6, &[1, 2, 4, 4]),
                options());
            let optional = [out.mask_grad, out.bias_grad].map(|grad| f::<B>(grad.expect("was given")));
            let [mask, bias] = optional;
            vec![f::<B>(out.x_grad), f::<B>(out.offset_grad), f::<B>(out.weight_grad), mask, bias]
        };
    }
}

fn pools<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        avg_pool1d: |c| vec![f::<B>(B::avg_pool1d(c.f_of(1, &[1, 2, 8]), 3, 2, 1, true, false))];
        avg_pool1d_backward: |c| vec![f::<B>(B::avg_pool1d_backward(
            c.f_of(1, &[1, 2, 8]), c.f_of(2, &[1, 2, 4]), 3, 2, 1, true, false))];
        avg_pool2d: |c| vec![f::<B>(B::avg_pool2d(
            c.f_of(1, &[1, 2, 6, 6]), [3, 2], [2, 2], [1, 0], false, false))];
        avg_pool2d_backward: |c| vec![f::<B>(B::avg_pool2d_backward(
            c.f_of(1, &[1, 2, 6, 6]), c.f_of(2, &[1, 2, 3, 3]), [3, 2], [2, 2], [1, 0], false, false))];
        adaptive_avg_pool1d: |c| vec![f::<B>(B::adaptive_avg_pool1d(c.f_of(1, &[1, 2, 8]), 3))];
        adaptive_avg_pool1d_backward: |c| {
            vec![f::<B>(B::adaptive_avg_pool1d_backward(c.f_of(1, &[1, 2, 8]), c.f_of(2, &[1, 2, 3])))]
        };
        adaptive_avg_pool2d: |c| vec![f::<B>(B::adaptive_avg_pool2d(c.f_of(1, &[1, 2, 6, 5]), [3, 2]))];
        adaptive_avg_pool2d_backward: |c| {
            vec![f::<B>(B::adaptive_avg_pool2d_backward(c.f_of(1, &[1, 2, 6, 5]), c.f_of(2, &[1, 2, 3, 2])))]
        };
        adaptive_avg_pool3d: |c| vec![f::<B>(B::adaptive_avg_pool3d(c.f_of(1, &[1, 2, 4, 6, 5]), [2, 3, 2]))];
        adaptive_avg_pool3d_backward: |c| vec![f::<B>(B::adaptive_avg_pool3d_backward(
            c.f_of(1, &[1, 2, 4, 6, 5]), c.f_of(2, &[1, 2, 2, 3, 2])))];
        max_pool1d: |c| vec![f::<B>(B::max_pool1d(c.f_of(1, &[1, 2, 8]), 3, 2, 1, 1, false))];
        max_pool1d_with_indices: |c| {
            let out = B::max_pool1d_with_indices(c.f_of(1, &[1, 2, 8]), 3, 2, 1, 1, false, c.int);
            vec![f::<B>(out.output), i::<B>(out.indices)]
        };
        max_pool1d_with_indices_backward: |c| {
            let x = c.f_of(1, &[1, 2, 8]);
            let out = B::max_pool1d_with_indices(x.clone(), 3, 2, 1, 1, false, c.int);
            let grad = c.f_of(2, &[1, 2, 4]);
            vec![f::<B>(B::max_pool1d_with_indices_backward(x, 3, 2, 1, 1, false, grad, out.indices).x_grad)]
        };
        max_pool2d: |c| vec![f::<B>(B::max_pool2d(
            c.f_of(1, &[1, 2, 6, 6]), [3, 3], [2, 2], [1, 1], [1, 1], false))];
        max_pool2d_with_indices: |c| {
            let x = c.f_of(1, &[1, 2, 6, 6]);
            let out = B::max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1], [1, 1], false, c.int);
            vec![f::<B>(out.output), i::<B>(out.indices)]
        };
        max_pool2d_with_indices_backward: |c| {
            let x = c.f_of(1, &[1, 2, 6, 6]);
            let out = B::max_pool2d_with_indices(x.clone(), [3, 3], [2, 2], [1, 1], [1, 1], false, c.int);
            let grad = c.f_of(2, &[1, 2, 3, 3]);
            let back = B::max_pool2d_with_indices_backward(
                x, [3, 3], [2, 2], [1, 1], [1, 1], false, grad, out.indices);
            vec![f::<B>(back.x_grad)]
        };
    }
}

fn attention<B: Backend>(list: &mut Vec<Case<B>>) {
    cases! { list: B;
        attention: |c| {
            let heads = |seed, length| c.f_of(seed, &[2, 3, length, 8]);
            let plain = AttentionModuleOptions::default();
            let causal = AttentionModuleOptions { is_causal: true, scale: Some(0.3), softcap: None };
            // Some keys of each row stay visible.
            let mask = B::bool_slice_assign(
                c.b_of(4, &[2, 3, 5, 5]),
                &super::inputs::ranges(&[(0, 2), (0, 3), (0, 5), (0, 1)]),
                B::bool_zeros(super::inputs::shape(&[2, 3, 5, 1]), &c.device, c.bool),
            );
            vec![
                f::<B>(B::attention(heads(1, 5), heads(2, 7), heads(3, 7), None, None, plain)),
                f::<B>(B::attention(heads(1, 5), heads(2, 5), heads(3, 5), None, None, causal)),
                f::<B>(B::attention(heads(1, 5), heads(2, 5), heads(3, 5), Some(mask), None, plain)),
                f::<B>(B::attention(
                    heads(1, 5), heads(2, 5), heads(3, 5), None, Some(c.f_of(5, &[2, 3, 5, 5])), plain)),
                f::<B>(B::attention(heads(1, 5), heads(2, 0), heads(3, 0), None, None, plain)),
                // Pairs of heads share keys and values.
                f::<B>(B::attention(
                    c.f_of(1, &[2, 6, 4, 8]), heads(2, 5), heads(3, 5), None,
                    Some(c.f_of(5, &[2, 6, 4, 5])), causal)),
            ]
        };
    }
}

fn others<B: Backend>(list: &mut Vec<Case<B>>) {
    fn bilinear() -> InterpolateOptions {
        InterpolateOptions::new(InterpolateMode::Bilinear)
    }
    cases! { list: B;
        unfold4d: |c| vec![f::<B>(B::unfold4d(
            c.f_of(1, &[1, 2, 5, 4]), [3, 2], UnfoldOptions::new([1, 1], [1, 0], [1, 1])))];
        fold4d: |c| vec![f::<B>(B::fold4d(
            c.f_of(1, &[1, 12, 15]), [5, 4], [3, 2], UnfoldOptions::new([1, 1], [1, 0], [1, 1])))];
        interpolate: |c| vec![f::<B>(B::interpolate(c.f_of(1, &[1, 2, 4, 4]), [7, 6], bilinear()))];
        interpolate_backward: |c| vec![f::<B>(B::interpolate_backward(
            c.f_of(1, &[1, 2, 4, 4]), c.f_of(2, &[1, 2, 7, 6]), [7, 6],
            InterpolateOptions::new(InterpolateMode::Nearest)))];
        ctc_loss: |c| {
            let log_probs = B::log_softmax(c.f_of(1, &[6, 2, 4]), 2);
            let targets = c.i_values(&[1, 2, 3, 1], &[2, 2]);
            let (inputs, lengths) = (c.i_values(&[6, 5], &[2]), c.i_values(&[2, 2], &[2]));
            vec![f::<B>(B::ctc_loss(log_probs, targets, inputs, lengths, 0))]
        };
        has_ctc_loss_backward: |_c| vec![TensorData::from([i32::from(B::has_ctc_loss_backward())])];
        tr_execute: |c| {
            let transaction = TransactionPrimitive::<B>::new(
                vec![c.f(1), c.f(2)], vec![], vec![c.i(3)], vec![c.b(4)]);
            let read = read_sync(B::tr_execute(transaction)).expect("a read");
            [read.read_floats, read.read_ints, read.read_bools].concat()
        };
    }
}
