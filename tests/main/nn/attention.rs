//! Multi-head attention beside Burn's: masks, quiet softmax, dropout, and refusals.

use super::{CLOSE, difference, random};
use burn::module::Module;
use burn::nn::attention::{self, MultiHeadAttentionConfig};
use burn::tensor::{Bool, Device, Int, Tensor};
use burn_kernels::nn::{MhaInput, MultiHeadAttention};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::report::report;

/// The masks of a call of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Masked {
    Nothing,
    Later,
    Padding,
    PaddingAndLater,
    Pairs,
}

/// Makes the same input for Burn's layer and ours. Burn's has no word for a causal mask.
fn inputs(x: Tensor<3>, context: Tensor<3>, masked: Masked) -> (attention::MhaInput, MhaInput) {
    let device = x.device();
    let ([batch, queries, _], keys) = (x.dims(), context.dims()[1]);
    let theirs = attention::MhaInput::new(x.clone(), context.clone(), context.clone());
    let ours = MhaInput::new(x, context.clone(), context);
    let offset = keys as i64 - queries as i64;
    let later = Tensor::<2, Bool>::tril_mask([queries, keys], offset, &device);
    let later = later.unsqueeze::<3>().expand([batch, queries, keys]);
    let padding =
        Tensor::<2, Bool>::from_data([[false, false, false, false, true, true]; 2], &device);
    match masked {
        Masked::Nothing => (theirs, ours),
        Masked::Later => (theirs.mask_attn(later), ours.causal()),
        Masked::Padding => (theirs.mask_pad(padding.clone()), ours.mask_pad(padding)),
        Masked::PaddingAndLater => (
            theirs.mask_attn(later).mask_pad(padding.clone()),
            ours.causal().mask_pad(padding),
        ),
        Masked::Pairs => (theirs.mask_attn(later.clone()), ours.mask_attn(later)),
    }
}

#[test]
fn attention_is_burns() {
    let device = Device::flex().autodiff();
    for (quiet, masked) in [false, true].into_iter().flat_map(|quiet| {
        use Masked::*;
        [Nothing, Later, Padding, PaddingAndLater, Pairs].map(|masked| (quiet, masked))
    }) {
        let config = MultiHeadAttentionConfig::new(24, 3)
            .with_dropout(0.0)
            .with_quiet_softmax(quiet);
        let theirs = config.init(&device);
        let ours = MultiHeadAttention::from(theirs.clone());
        assert_eq!(ours.num_params(), theirs.num_params());
        let (x, context) = (random([2, 4, 24], &device), random([2, 6, 24], &device));
        let dy = random([2, 4, 24], &device);
        let run = |ours_runs: bool| {
            let (x, context) = (x.clone().require_grad(), context.clone().require_grad());
            let (for_theirs, for_ours) = inputs(x.clone(), context.clone(), masked);
            let y = match ours_runs {
                true => ours.forward(for_ours),
                false => theirs.forward(for_theirs).context,
            };
            let grads = (y.clone() * dy.clone()).sum().backward();
            let of = |tensor: Tensor<3>| tensor.grad(&grads).expect("it is tracked");
            let weights = [&theirs.query, &theirs.key, &theirs.value]
                .map(|linear| linear.weight.val().grad(&grads).expect("it is tracked"));
            (y.inner(), of(x), of(context), weights)
        };
        let expected = run(false);
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let found = run(true);
            let what = format!("{masked:?}, quiet {quiet}");
            assert!(difference(found.0, expected.0.clone()) < CLOSE, "{what}");
            assert!(difference(found.1, expected.1.clone()) < CLOSE, "{what}");
            assert!(difference(found.2, expected.2.clone()) < CLOSE, "{what}");
            for (found, expected) in found.3.into_iter().zip(&expected.3) {
                assert!(difference(found, expected.clone()) < CLOSE, "{what}");
            }
        }
        let rows = report().rows;
        let fused = rows
            .iter()
            .filter(|row| row.site.contains("multi_head_attention"));
        assert!(fused.map(|row| row.calls).sum::<u64>() > 0);
    }
}

/// A query whose keys are all masked has no attention; the result is the bias of the projection alone.
#[test]
fn attention_to_nothing_is_zero() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0);
    let ours = MultiHeadAttention::from(config.init(&device));
    let bias = ours.output.bias.as_ref().unwrap().val();
    let all = Tensor::<2, Bool>::from_data([[true; 3]; 2], &device);
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        let x = random([2, 3, 8], &device);
        let y = ours.forward(MhaInput::self_attn(x).mask_pad(all.clone()));
        assert_eq!(
            y.to_data(),
            bias.clone().unsqueeze::<3>().expand([2, 3, 8]).to_data()
        );
    }
}

/// A mask is not repeated for other sequences or queries, and heads are at least one.
#[test]
fn attention_refuses_masks_and_heads_that_do_not_fit() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0);
    let ours = MultiHeadAttention::from(config.init(&device));
    let input = || MhaInput::self_attn(random([2, 3, 8], &device));
    let pad = |shape: [usize; 2]| Tensor::<2, Int>::zeros(shape, &device).bool();
    let pairs = |shape: [usize; 3]| Tensor::<3, Int>::zeros(shape, &device).bool();
    let with_heads = |n_heads| {
        let mut layer = ours.clone();
        layer.n_heads = n_heads;
        layer
    };
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        for (layer, input, expected) in [
            (
                ours.clone(),
                input().mask_pad(pad([1, 3])),
                "[1, 3], but must be [2, 3]: batch, keys",
            ),
            (
                ours.clone(),
                input().mask_pad(pad([2, 1])),
                "[2, 1], but must be [2, 3]",
            ),
            (
                ours.clone(),
                input().mask_attn(pairs([1, 3, 3])),
                "must be [2, 3, 3]: batch, queries, keys",
            ),
            (
                ours.clone(),
                input().mask_attn(pairs([2, 1, 3])),
                "must be [2, 3, 3]",
            ),
            (
                with_heads(0),
                input(),
                "8 columns, which are not `n_heads` = 0 heads",
            ),
            (with_heads(3), input(), "`n_heads` = 3 heads of one width"),
        ] {
            let run = std::panic::AssertUnwindSafe(|| layer.forward(input));
            let panic = std::panic::catch_unwind(run).expect_err("it does not fit");
            let message = panic.downcast::<String>().expect("a sentence");
            assert!(message.contains(expected), "{message}");
        }
    }
}

/// Weights are dropped only in training: the same input has another result each time.
#[test]
fn attention_with_dropout_trains_as_burns_does() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(8, 2).with_dropout(0.5);
    let theirs = config.init(&device);
    let x = random([2, 3, 8], &device);
    let y = |device: &Device| {
        let ours = MultiHeadAttention::from(theirs.clone().to_device(device));
        let x = Tensor::from_data(x.to_data(), device);
        ours.forward(MhaInput::self_attn(x)).to_data()
    };
    assert_eq!(y(&device), y(&device));
    let training = device.autodiff();
    assert_ne!(y(&training), y(&training));
}
