//! Attention beyond the shapes of verification: many blocks, wide heads, grouped heads, and what the kernels don't take.

use super::{gpu, numbers, numbers_in, rounding};
use burn::tensor::{DType, Device, TensorData};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::attention::{Inputs, Lengths, Settings, fused};
use kernels_runtime::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, HeadLayout, ScoreCap,
    SequenceLengths, Sinks,
};

/// A call.
#[derive(Clone)]
struct Call {
    key: AttentionKey,
    settings: Settings,
    lengths: Lengths,
    /// Batch, heads, heads of keys, queries, keys, width of a head and of a value.
    sizes: [usize; 7],
    /// The shape of the bias, which is not tracked.
    bias: [usize; 4],
    dtype: DType,
}

impl Call {
    fn causal(sizes: [usize; 7]) -> Self {
        Self {
            key: AttentionKey::CAUSAL,
            settings: Settings::default(),
            lengths: Lengths::default(),
            sizes,
            bias: [1; 4],
            dtype: DType::F32,
        }
    }

    /// Returns the shape of a tensor of a head for each of `heads`.
    fn heads(&self, [heads, positions, width]: [usize; 3]) -> [usize; 4] {
        match self.key.layout {
            HeadLayout::Bnsd => [self.sizes[0], heads, positions, width],
            HeadLayout::Bsnd => [self.sizes[0], positions, heads, width],
        }
    }

    /// Returns the result and the gradients of queries, keys, values and sinks.
    fn computed(&self, device: &Device) -> Vec<TensorData> {
        let device = device.clone().autodiff();
        let [_, heads, kv_heads, queries, keys, width, value_width] = self.sizes;
        let leaf = |sizes: [usize; 3], factor: f32| {
            let numbers = |number| number * factor;
            numbers_in(self.dtype, self.heads(sizes), &device, numbers).require_grad()
        };
        let q = leaf([heads, queries, width], 1.5);
        let k = leaf([kv_heads, keys, width], 1.25);
        let v = leaf([kv_heads, keys, value_width], 1.0);
        let sinks = numbers_in(self.dtype, [heads], &device, |number| number).require_grad();
        let has_sinks = self.key.sink == Sinks::Learned;
        let has_bias = self.key.bias == AttentionBias::Additive;
        let inputs = Inputs {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            bias: has_bias.then(|| numbers_in(self.dtype, self.bias, &device, |number| number)),
            sinks: has_sinks.then(|| sinks.clone()),
            lengths: self.lengths.clone(),
        };
        let y = fused(inputs, self.settings, self.key).unwrap();
        let dy = numbers_in(self.dtype, y.dims(), &device, |number| (number * 0.9).cos());
        let gradients = (y.clone() * dy).sum().backward();
        let mut all = vec![y.into_data()];
        all.extend([q, k, v].map(|leaf| leaf.grad(&gradients).unwrap().into_data()));
        if has_sinks {
            all.push(sinks.grad(&gradients).unwrap().into_data());
        }
        all
    }

    fn is_that_of_the_cpu(&self) {
        let (got, expected) = (self.computed(&gpu()), self.computed(&Device::flex()));
        assert_eq!(got.len(), expected.len());
        for (place, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(got.num_elements(), expected.num_elements());
            let largest = expected.iter::<f32>().map(f32::abs).fold(0.1, f32::max);
            assert!(largest.is_finite(), "result {place}: {largest}");
            for (got, expected) in got.iter::<f32>().zip(expected.iter::<f32>()) {
                let error = (got - expected).abs();
                assert!(
                    error <= 3e-5 * largest + rounding(self.dtype) * expected.abs(),
                    "result {place} of {} {:?}: {got} and {expected}",
                    self.key,
                    self.sizes
                );
            }
        }
    }
}

/// A block has 48 to 64 rows and 32 columns, or 16 rows if there are few, and heads are read 16 elements at a
/// time.
#[test]
fn blocks_of_every_size_are_a_whole() {
    for (queries, keys) in [
        (1, 1),
        (1, 70),
        (16, 32),
        (17, 33),
        (33, 48),
        (64, 64),
        (65, 97),
        (150, 150),
    ] {
        Call::causal([2, 2, 1, queries, keys, 20, 12]).is_that_of_the_cpu();
    }
}

#[test]
fn heads_have_every_width_up_to_256() {
    for (width, value_width) in [(1, 1), (15, 17), (80, 128), (192, 256)] {
        Call::causal([1, 1, 1, 20, 34, width, value_width]).is_that_of_the_cpu();
    }
}

#[test]
fn heads_share_keys() {
    for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
        for (heads, kv_heads) in [(6, 2), (7, 1)] {
            let mut call = Call::causal([2, heads, kv_heads, 11, 35, 16, 24]);
            call.key.layout = layout;
            call.key.sink = Sinks::Learned;
            call.is_that_of_the_cpu();
        }
    }
}

#[test]
fn every_query_sees_its_keys_alone() {
    use AttentionMask::{Causal, None as All, Prefix};
    use AttentionWindow::{Chunked, None as Unlimited, Sliding};
    let whole = (SequenceLengths::None, None);
    let padded = (SequenceLengths::Padded, Some(&[70, 41][..]));
    let left = (SequenceLengths::LeftPadded, Some(&[3, 70][..]));
    let packed = (SequenceLengths::Packed, Some(&[40, 30, 1, 34, 0, 35][..]));
    for (mask, window, (lengths, of)) in [
        (All, Unlimited, padded),
        (Prefix, Unlimited, packed),
        (Causal, Sliding, left),
        (All, Sliding, whole),
        (Causal, Chunked, packed),
    ] {
        let mut call = Call::causal([2, 2, 1, 70, 70, 8, 8]);
        (call.key.mask, call.key.window) = (mask, window);
        call.settings.window = (window != Unlimited).then_some(20);
        call.settings.prefix = (mask == Prefix).then_some(25);
        call.key.lengths = lengths;
        call.lengths = of.map(Lengths::new).unwrap_or_default();
        call.is_that_of_the_cpu();
    }
}

/// The first queries see no key: there are more queries than keys, and the last query is at the last key.
#[test]
fn queries_without_keys_are_zero() {
    let mut call = Call::causal([1, 2, 1, 100, 20, 8, 8]);
    call.is_that_of_the_cpu();
    call.key.sink = Sinks::Learned;
    call.is_that_of_the_cpu();
    let all = call.computed(&gpu());
    assert!(all[0].iter::<f32>().take(80 * 8).all(|y| y == 0.0));
}

#[test]
fn a_bias_that_is_not_tracked_is_added() {
    for bias in [
        [2, 4, 50, 60],
        [1, 4, 1, 60],
        [2, 1, 50, 60],
        [1, 1, 50, 60],
    ] {
        for cap in [ScoreCap::None, ScoreCap::Tanh] {
            let mut call = Call::causal([2, 4, 2, 50, 60, 12, 12]);
            call.key.bias = AttentionBias::Additive;
            call.bias = bias;
            call.key.cap = cap;
            call.settings.cap = (cap == ScoreCap::Tanh).then_some(1.7);
            call.is_that_of_the_cpu();
        }
    }
}

/// The terms of a gradient cancel, which a rounded result would not show.
#[test]
fn half_types_are_rounded_once() {
    for sizes in [
        [2, 2, 1, 65, 97, 20, 12],
        [1, 1, 1, 40, 34, 192, 256],
        [1, 3, 1, 150, 150, 15, 17],
    ] {
        for sink in [Sinks::None, Sinks::Learned] {
            let mut call = Call::causal(sizes);
            call.dtype = DType::F16;
            call.key.sink = sink;
            call.is_that_of_the_cpu();
        }
    }
    let mut call = Call::causal([2, 4, 2, 50, 60, 12, 12]);
    call.dtype = DType::F16;
    call.key.bias = AttentionBias::Additive;
    call.bias = [1, 4, 1, 60];
    call.key.cap = ScoreCap::Tanh;
    call.settings.cap = Some(1.7);
    call.is_that_of_the_cpu();
}

#[test]
fn results_have_the_same_bits_each_time() {
    let call = Call::causal([2, 4, 2, 70, 70, 24, 24]);
    assert_eq!(call.computed(&gpu()), call.computed(&gpu()));
}

#[test]
fn what_the_kernels_do_not_take_has_a_reason() {
    let device = gpu().autodiff();
    let inputs = |width| Inputs {
        q: numbers([1, 1, 4, width], &device),
        k: numbers([1, 1, 4, width], &device),
        v: numbers([1, 1, 4, width], &device),
        bias: None,
        sinks: None,
        lengths: Lengths::default(),
    };
    let wide = fused(inputs(257), Settings::default(), AttentionKey::CAUSAL);
    assert_eq!(wide.unwrap_err(), Reason::Shape);
    let key = AttentionKey {
        bias: AttentionBias::Additive,
        ..AttentionKey::CAUSAL
    };
    let bias = numbers([1, 1, 4, 4], &device);
    let biased = |bias| Inputs {
        bias: Some(bias),
        ..inputs(8)
    };
    let tracked = fused(
        biased(bias.clone().require_grad()),
        Settings::default(),
        key,
    );
    assert_eq!(tracked.unwrap_err(), Reason::NoGradient);
    assert!(fused(biased(bias), Settings::default(), key).is_ok());
}
