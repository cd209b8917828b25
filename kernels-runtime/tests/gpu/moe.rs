//! The operations of a mixture on a GPU, compared with the CPU's kernels.

use super::{gpu, numbers, types_of};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_runtime::ops::moe::router::{self, Routing};
use kernels_runtime::ops::moe::{permute, unpermute};
use kernels_runtime::registry::FloatType;
use kernels_runtime::semantics::{Correction, Grouping, RouterKey};

pub(super) fn ints<const D: usize>(
    values: Vec<i64>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values, shape), &device.clone().inner())
}

fn read<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

/// Asserts that numbers are near those of the CPU. Half types may be rounded to the other neighbour, a few times in a row.
pub(super) fn assert_near(what: &str, dtype: FloatType, got: &TensorData, expected: &TensorData) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    assert_eq!(got.dtype(), expected.dtype(), "{what}");
    let tolerance = match dtype {
        FloatType::F16 => 2.0_f32.powi(-9),
        FloatType::Bf16 => 2.0_f32.powi(-6),
        FloatType::F32 | FloatType::F64 => 1e-5,
    };
    for (got, expected) in got.iter::<f32>().zip(expected.iter::<f32>()) {
        let error = (got - expected).abs();
        assert!(
            error <= tolerance * (1.0 + expected.abs()),
            "{what}: {got} and {expected}"
        );
    }
}

/// Tokens, the choices of each, experts, the width of a token, and the rows that are kept.
type Sizes = (usize, usize, usize, usize, Option<usize>);

/// Returns the experts of each token. Some are elsewhere.
fn experts_of((tokens, k, experts, ..): Sizes) -> Vec<i64> {
    let expert = |slot: usize| (slot * slot % 7 + slot * 5) % (experts + 1);
    (0..tokens * k).map(|slot| expert(slot) as i64).collect()
}

/// Returns numbers above zero.
fn shifted(shape: [usize; 2], dtype: DType, device: &Device) -> Tensor<2> {
    let values = numbers(shape, &Device::flex()).into_data();
    let values: Vec<f32> = values.iter::<f32>().map(|value| value + 1.5).collect();
    Tensor::from_data(TensorData::new(values, shape), (device, dtype))
}

/// The dtypes of tokens and probabilities.
fn pairs_of(dtype: FloatType) -> Vec<(DType, DType)> {
    let (half, wide) = (dtype.dtype(), DType::F32);
    match dtype {
        FloatType::F32 | FloatType::F64 => vec![(half, half)],
        FloatType::F16 | FloatType::Bf16 => vec![(half, half), (half, wide)],
    }
}

/// Moves tokens to rows and back. Returns the row map, the counts, and the rows, the sums without and with probabilities and
/// the gradients.
fn moved(
    sizes: Sizes,
    (dtype, of_probs): (DType, DType),
    device: &Device,
) -> (Vec<i64>, Vec<i64>, Vec<(&'static str, TensorData)>) {
    let (tokens, k, experts, width, kept) = sizes;
    let tracked = device.clone().autodiff();
    let x = numbers([tokens, width], &tracked).cast(dtype);
    let x = x.detach().require_grad();
    // Burn adds no number to an empty tensor, and so these are shifted before.
    let probs = shifted([tokens, k], of_probs, &tracked).require_grad();
    let indices = ints(experts_of(sizes), [tokens, k], device);
    let permuted = permute::fused(x.clone(), indices, experts, kept).unwrap();
    let (rows, map) = (permuted.rows, permuted.row_map);
    let sums = unpermute::fused(rows.clone(), map.clone(), None).unwrap();
    let fixed = unpermute::fused(rows.clone(), map.clone(), Some(probs.clone().detach())).unwrap();
    let weighed = unpermute::fused(rows.clone(), map.clone(), Some(probs.clone())).unwrap();
    let weights = shifted([tokens, width], dtype, &tracked);
    let all = sums.clone() + fixed + weighed.clone();
    let gradients = (all * weights).sum().backward();
    let floats = vec![
        ("rows", rows.into_data()),
        ("sums", sums.into_data()),
        ("weighed sums", weighed.into_data()),
        ("dx", x.grad(&gradients).unwrap().into_data()),
        ("d_probs", probs.grad(&gradients).unwrap().into_data()),
    ];
    (read(map), read(permuted.counts), floats)
}

#[test]
fn tokens_move_as_on_the_cpu() {
    let sizes = [
        (7, 2, 5, 20, None),
        (1, 1, 1, 1, None),
        (0, 2, 3, 4, None),
        (128, 2, 4, 6, None),
        (257, 1, 3, 3, Some(100)),
        (700, 3, 300, 8, None),
        (40, 4, 2, 5, Some(0)),
    ];
    for (sizes, dtype) in sizes.iter().flat_map(|sizes| {
        types_of(&gpu())
            .into_iter()
            .map(move |dtype| (*sizes, dtype))
    }) {
        for dtypes in pairs_of(dtype) {
            let (map, counts, floats) = moved(sizes, dtypes, &Device::flex());
            let (got_map, got_counts, got_floats) = moved(sizes, dtypes, &gpu());
            assert_eq!(got_map, map, "{sizes:?}");
            assert_eq!(got_counts, counts, "{sizes:?}");
            for ((what, got), (_, expected)) in got_floats.iter().zip(&floats) {
                assert_near(
                    &format!("{what} of {sizes:?} in {dtypes:?}"),
                    dtype,
                    got,
                    expected,
                );
            }
        }
    }
}

/// Nothing reads the indices on the host, so a wrong one shows in its token's numbers, and in no other's.
#[test]
fn the_token_of_an_expert_that_does_not_exist_becomes_nan() {
    let device = gpu().autodiff();
    let x = numbers([4, 3], &device).require_grad();
    let indices = ints(vec![0, 1, -1, 1, 2, 2, 3, 0], [4, 2], &device);
    let permuted = permute::fused(x.clone(), indices, 2, None).unwrap();
    assert_eq!(read(permuted.counts), [2, 2]);
    let probs = Tensor::<2>::ones([4, 2], &device);
    let y = unpermute::fused(permuted.rows, permuted.row_map, Some(probs)).unwrap();
    let dx = x.grad(&y.clone().sum().backward()).unwrap();
    for data in [y.into_data(), dx.into_data()] {
        let values: Vec<f32> = data.iter().collect();
        let is_nan: Vec<bool> = values.chunks(3).map(|token| token[0].is_nan()).collect();
        assert_eq!(is_nan, [false, true, false, true], "{values:?}");
        assert_eq!(values[6..9], [0.0; 3]);
    }
}

/// Routes tokens, and returns their experts, their weights and the gradient of the logits.
fn routed(
    routing: &Routing,
    logits: &[f32],
    dtype: FloatType,
    device: &Device,
) -> (Vec<i64>, TensorData, TensorData) {
    let (tracked, experts) = (device.clone().autodiff(), routing.num_experts());
    let tokens = logits.len() / experts;
    let logits = TensorData::new(logits.to_vec(), [tokens, experts]);
    let logits = Tensor::<2>::from_data(logits, (&tracked, dtype.dtype())).require_grad();
    let bias = (routing.key().correction == Correction::Bias)
        .then(|| numbers([experts], &tracked).mul_scalar(0.125));
    let routed = router::fused(logits.clone(), bias, routing).unwrap();
    let dw = numbers([tokens, routing.top_k()], &tracked).cast(routed.weights.dtype());
    let gradients = (routed.weights.clone() * dw).sum().backward();
    (
        read(routed.indices),
        routed.weights.into_data(),
        logits.grad(&gradients).unwrap().into_data(),
    )
}

fn routings() -> impl Iterator<Item = Routing> {
    let keys = [
        RouterKey::QWEN3_MOE,
        RouterKey::DEEPSEEK_V2_GROUPS,
        RouterKey::DEEPSEEK_V3,
        RouterKey::LLAMA4,
        RouterKey::GPT_OSS,
    ];
    let of = |key: RouterKey, (experts, k, groups): (usize, usize, usize)| {
        let routing = Routing::new(key, experts, k).unwrap();
        match key.grouping {
            Grouping::None => routing,
            _ => routing.limited_to_groups(groups, groups / 2).unwrap(),
        }
    };
    // More experts than units, and as many choices as there are.
    let sizes = [(600, 9, 12), (40, 20, 4), (2, 1, 1)];
    let fits = |(key, (_, _, groups)): &(RouterKey, (usize, usize, usize))| {
        *groups > 1 || key.grouping == Grouping::None
    };
    let all = keys
        .into_iter()
        .flat_map(move |key| sizes.map(|size| (key, size)));
    all.filter(fits).map(move |(key, size)| of(key, size))
}

#[test]
fn tokens_choose_as_on_the_cpu_also_among_equal_experts() {
    let types = types_of(&gpu());
    for (routing, dtype) in
        routings().flat_map(|routing| types.iter().map(move |dtype| (routing, *dtype)))
    {
        let count = 5 * routing.num_experts();
        let logits: Vec<f32> = (0..count)
            .map(|i| (i * i % 13) as f32 * 0.25 - 1.0)
            .collect();
        let (experts, weights, gradient) = routed(&routing, &logits, dtype, &Device::flex());
        let (got, got_weights, got_gradient) = routed(&routing, &logits, dtype, &gpu());
        let what = format!("{routing:?} in {dtype}");
        assert_eq!(got, experts, "{what}");
        assert_near(&what, dtype, &got_weights, &weights);
        assert_near(&what, dtype, &got_gradient, &gradient);
    }
}

#[test]
fn the_ends_of_the_number_line_are_chosen_as_on_the_cpu() {
    const INF: f32 = f32::INFINITY;
    let logits = [
        [0.5, -INF, INF, -0.0, 0.0, -INF],
        [-INF, -INF, 1.0, -INF, -INF, -INF],
        [0.0, f32::NAN, 2.0, INF, 1.0, 3.0],
        [f32::MIN, f32::MAX, -1.0, f32::MIN_POSITIVE, 0.0, -0.0],
    ];
    for key in [RouterKey::QWEN3_MOE, RouterKey::LLAMA4, RouterKey::GPT_OSS] {
        let routing = Routing::new(key, 6, 5).unwrap();
        let of = |device: &Device| routed(&routing, logits.as_flattened(), FloatType::F32, device);
        let (experts, ..) = of(&Device::flex());
        let (got, weights, _) = of(&gpu());
        assert_eq!(got, experts, "{key}");
        // The third token's second expert is NaN, and chosen first.
        assert!(
            weights.iter::<f32>().nth(10).unwrap().is_nan(),
            "{key}: {weights:?}"
        );
    }
}
