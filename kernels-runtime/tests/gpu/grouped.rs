//! Grouped products and experts on a GPU, compared with the CPU's kernels.

use super::moe::{assert_near, ints};
use super::{gpu, numbers, types_of};
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::backend::{Cube, DispatchDevice, IntDType, Shape};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::fused::{Backward, FusedKernel, Given};
use kernels_runtime::ops::moe::experts::{self, Adapter, Experts, Projection, Weights};
use kernels_runtime::ops::moe::{Stack, grouped_matmul, permute};
use kernels_runtime::registry::FloatType;
use kernels_runtime::semantics::{ExpertBias, ExpertLayout, MoeExpertsKey};

/// A grouped product.
#[derive(Clone, Debug)]
struct Case {
    counts: Vec<i64>,
    rows: usize,
    inputs: usize,
    features: usize,
    layout: ExpertLayout,
    is_list: bool,
    /// True if the tensors are views of transposed ones.
    is_strided: bool,
}

impl Case {
    fn new(counts: &[i64], rows: usize, inputs: usize, features: usize) -> Self {
        Self {
            counts: counts.to_vec(),
            rows,
            inputs,
            features,
            layout: ExpertLayout::Linear,
            is_list: false,
            is_strided: false,
        }
    }
}

/// Returns every layout of a case.
fn layouts(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for layout in [ExpertLayout::Linear, ExpertLayout::Matmul] {
        for (is_list, is_strided) in [(false, false), (true, false), (false, true)] {
            all.push(Case {
                layout,
                is_list,
                is_strided,
                ..case.clone()
            });
        }
    }
    all
}

/// Computes a product and its gradients.
fn computed(case: &Case, dtype: FloatType, device: &Device) -> Vec<TensorData> {
    let tracked = device.clone().autodiff();
    let experts = case.counts.len();
    let sizes = match case.layout {
        ExpertLayout::Linear => [case.features, case.inputs],
        ExpertLayout::Matmul => [case.inputs, case.features],
    };
    let (x, weights) = match case.is_strided {
        false => (
            numbers([case.rows, case.inputs], &tracked),
            numbers([experts, sizes[0], sizes[1]], &tracked),
        ),
        true => (
            numbers([case.inputs, case.rows], &tracked).transpose(),
            numbers([experts, sizes[1], sizes[0]], &tracked).swap_dims(1, 2),
        ),
    };
    let (x, weights) = (x.cast(dtype.dtype()), weights.cast(dtype.dtype()));
    let (x, weights) = (x.detach().require_grad(), weights.detach().require_grad());
    let stack: Stack<3, 2> = match case.is_list {
        false => weights.clone().into(),
        true => {
            let one = |e: usize| weights.clone().narrow(0, e, 1).squeeze_dim(0);
            (0..experts).map(one).collect::<Vec<Tensor<2>>>().into()
        }
    };
    let counts = ints(case.counts.clone(), [experts], device);
    let y = grouped_matmul::fused(x.clone(), counts, stack, case.layout).unwrap();
    let dy = numbers([case.features, case.rows], &tracked).cast(dtype.dtype());
    let dy = dy.transpose();
    let gradients = (y.clone() * dy).sum().backward();
    vec![
        y.into_data(),
        x.grad(&gradients).unwrap().into_data(),
        weights.grad(&gradients).unwrap().into_data(),
    ]
}

#[test]
fn grouped_products_and_their_gradients_are_those_of_the_cpu() {
    let cases = [
        // Sizes around those of tiles, with and without vectors of four.
        Case::new(&[3, 0, 65, 130], 200, 20, 68),
        Case::new(&[64, 64], 128, 64, 64),
        Case::new(&[0, 1, 0, 2, 0], 3, 33, 7),
        Case::new(&[70], 70, 6, 130),
        // Rows of nobody, more than a tile and all.
        Case::new(&[5, 0, 2], 90, 16, 12),
        Case::new(&[0, 0], 5, 3, 4),
        Case::new(&[2, 0], 2, 1, 1),
        // More experts than units.
        Case::new(&[1; 300], 300, 5, 3),
        Case::new(&[0, 0], 0, 4, 4),
    ];
    let types = types_of(&gpu());
    let all = cases.iter().flat_map(layouts);
    for (case, dtype) in all.flat_map(|case| types.iter().map(move |dtype| (case.clone(), *dtype)))
    {
        let expected = computed(&case, dtype, &Device::flex());
        let got = computed(&case, dtype, &gpu());
        for (got, expected) in got.iter().zip(&expected) {
            assert_near(&format!("{case:?} in {dtype}"), dtype, got, expected);
        }
        assert_eq!(got, computed(&case, dtype, &gpu()), "{case:?} in {dtype}");
    }
}

/// Nothing reads the counts on the host, so that wrong ones show in the numbers.
#[test]
fn counts_that_are_not_those_of_the_rows_make_all_results_nan() {
    for counts in [[3, 2, 0], [5, -1, 0], [i64::from(i32::MAX), 1, 1]] {
        for layout in [ExpertLayout::Linear, ExpertLayout::Matmul] {
            let case = Case {
                layout,
                ..Case::new(&counts, 4, 8, 8)
            };
            for dtype in types_of(&gpu()) {
                for data in computed(&case, dtype, &gpu()) {
                    assert!(data.iter::<f32>().all(f32::is_nan), "{case:?}: {data:?}");
                }
            }
        }
    }
}

/// A token whose index names no expert becomes NaN, and no other.
#[test]
fn an_expert_that_does_not_exist_shows_in_its_token() {
    let device = gpu().autodiff();
    let x = numbers([4, 8], &device).require_grad();
    let routing = (numbers([4, 2], &device) + 2.0).detach().require_grad();
    let indices = ints(vec![0, 1, 3, 0, 2, 1, -1, 2], [4, 2], &device);
    let gate_up = Projection::new(numbers([2, 12, 8], &device));
    let down = Projection::new(numbers([2, 8, 6], &device));
    let weights = Weights::packed(gate_up, down);
    let key = MoeExpertsKey::QWEN3;
    let y = experts::fused(x.clone(), indices, routing.clone(), weights, None, key).unwrap();
    let gradients = y.clone().sum().backward();
    let (dx, d_routing) = (
        x.grad(&gradients).unwrap(),
        routing.grad(&gradients).unwrap(),
    );
    for data in [y.into_data(), dx.into_data()] {
        let values: Vec<f32> = data.iter().collect();
        for (token, values) in values.chunks(8).enumerate() {
            let is_wrong = token % 2 == 1;
            assert!(
                values.iter().all(|x| x.is_nan() == is_wrong),
                "{token}: {values:?}"
            );
        }
    }
    let is_nan: Vec<bool> = d_routing
        .into_data()
        .iter::<f32>()
        .map(f32::is_nan)
        .collect();
    let expected = [false, false, true, false, false, false, true, false];
    assert_eq!(is_nan, expected);
}

/// Returns the result of experts whose routing weights are in f32, and the gradients of the tokens, the routing weights and all
/// weights and biases.
fn routed_in_f32(dtype: FloatType, device: &Device) -> Vec<TensorData> {
    fn leaf<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
        let leaf = (numbers(shape, device) * 0.25).cast(dtype);
        leaf.detach().require_grad()
    }
    let (device, dtype) = (device.clone().autodiff(), dtype.dtype());
    let x = (numbers([9, 8], &device) * 2.0).cast(dtype);
    let x = x.detach().require_grad();
    let routing = leaf([9, 2], DType::F32, &device);
    let [gate_up, down] = [[3, 12, 8], [3, 8, 6]].map(|shape| leaf(shape, dtype, &device));
    let [of_gate_up, of_down] = [[3, 12], [3, 8]].map(|shape| leaf(shape, dtype, &device));
    let weights = Weights::packed(
        Projection::new(gate_up.clone()).with_bias(of_gate_up.clone()),
        Projection::new(down.clone()).with_bias(of_down.clone()),
    );
    let key = MoeExpertsKey {
        bias: ExpertBias::All,
        ..MoeExpertsKey::QWEN3
    };
    let indices: Vec<i64> = (0..18).map(|slot| slot * slot % 4).collect();
    let indices = ints(indices, [9, 2], &device);
    let y = experts::fused(x.clone(), indices, routing.clone(), weights, None, key).unwrap();
    let dy = numbers([9, 8], &device).cast(dtype);
    let gradients = (y.clone() * dy).sum().backward();
    let plain = [x, routing, of_gate_up, of_down];
    let plain = plain.map(|leaf| leaf.grad(&gradients).unwrap().into_data());
    let stacked = [gate_up, down].map(|leaf| leaf.grad(&gradients).unwrap().into_data());
    std::iter::once(y.into_data())
        .chain(plain)
        .chain(stacked)
        .collect()
}

#[test]
fn routing_weights_may_be_in_f32_beside_half_types() {
    for dtype in types_of(&gpu()) {
        let (got, expected) = (
            routed_in_f32(dtype, &gpu()),
            routed_in_f32(dtype, &Device::flex()),
        );
        assert_eq!(got[2].dtype(), DType::F32);
        for (got, expected) in got.iter().zip(&expected) {
            assert_near(&format!("experts in {dtype}"), dtype, got, expected);
        }
    }
}

/// Returns the result of experts with adapters, and the gradients of the tokens and of the adapters' factors.
fn adapted(device: &Device) -> Vec<TensorData> {
    let device = device.clone().autodiff();
    let leaf = |shape: [usize; 3]| numbers(shape, &device).require_grad();
    let x = numbers([9, 8], &device).require_grad();
    let (a, b) = (leaf([3, 8, 2]), leaf([3, 2, 12]));
    let adapter = Adapter {
        a: a.clone(),
        b: b.clone(),
        scale: 0.5,
    };
    let bias = numbers([3, 12], &device);
    let gate_up = Projection::new(numbers([3, 12, 8], &device));
    let gate_up = gate_up.with_bias(bias).with_adapter(adapter);
    let down = Projection::new(numbers([3, 8, 6], &device)).with_bias(numbers([3, 8], &device));
    let key = MoeExpertsKey {
        bias: ExpertBias::All,
        ..MoeExpertsKey::QWEN3
    };
    let indices: Vec<i64> = (0..18).map(|slot| slot * slot % 4).collect();
    let indices = ints(indices, [9, 2], &device);
    let routing = numbers([9, 2], &device) + 1.5;
    let weights = Weights::packed(gate_up, down);
    let y = experts::fused(x.clone(), indices, routing, weights, None, key).unwrap();
    let gradients = (y.clone() * numbers([9, 8], &device)).sum().backward();
    vec![
        y.into_data(),
        x.grad(&gradients).unwrap().into_data(),
        a.grad(&gradients).unwrap().into_data(),
        b.grad(&gradients).unwrap().into_data(),
    ]
}

#[test]
fn experts_with_adapters_are_those_of_the_cpu() {
    let (got, expected) = (adapted(&gpu()), adapted(&Device::flex()));
    for (got, expected) in got.iter().zip(&expected) {
        assert_near("experts with adapters", FloatType::F32, got, expected);
    }
}

#[test]
fn what_no_kernel_takes_has_a_reason() {
    let device = gpu();
    // Nothing computes these: fusion waits for a read.
    let large = |shape: [usize; 2]| numbers([1, 1], &device).expand(shape);
    let tokens = 1 << 25;
    let indices = ints(vec![0], [1, 1], &device).expand([tokens, 1]);
    let slots = permute::fused(large([tokens, 1]), indices, 2, None);
    assert_eq!(slots.unwrap_err(), Reason::Shape);

    let counts = || ints(vec![1], [1], &device);
    let weights = |features| numbers([1, 1, 1], &device).expand([1, 1, features]);
    for (rows, features) in [((1 << 22) + 1, 1), (1 << 12, 1 << 20)] {
        let x = large([rows, 1]);
        let product = grouped_matmul::fused(x, counts(), weights(features), ExpertLayout::Matmul);
        assert_eq!(product.unwrap_err(), Reason::Shape);
    }

    // No device of WebGPU has bf16.
    let lacking = Tensor::<2>::from_data([[1.0, 2.0]], (&device, DType::BF16));
    let indices = ints(vec![0], [1, 1], &device);
    let rows = permute::fused(lacking, indices, 2, None);
    assert_eq!(rows.unwrap_err(), Reason::Dtype);
}

/// Calls the kernels past the choice of an implementation, which would refuse so many rows.
#[test]
#[should_panic(expected = "grouped products: kernels for GPUs don't take 4194305 rows")]
fn more_rows_than_kernels_count_do_not_reach_one() {
    let device = gpu();
    let x = Tensor::<2>::zeros([(1 << 22) + 1, 1], &device).into_dispatch();
    let weight = Tensor::<3>::zeros([1, 1, 1], &device).into_dispatch();
    let counts = ints(vec![1], [1], &device).into_dispatch();
    let operands =
        grouped_matmul::Operands::new(x, vec![weight], counts, ExpertLayout::Linear, None);
    let _ = grouped_matmul::GroupedMatmul::run(operands.unwrap());
}

/// Calls the backward pass with tensors that no forward pass on a GPU returns.
#[test]
#[should_panic(expected = "experts: the forward pass on a GPU keeps a row for each slot")]
fn a_kept_tensor_with_fewer_rows_does_not_reach_a_kernel() {
    let device = gpu();
    let DispatchDevice::Cube(device) = device.as_dispatch() else {
        panic!("the GPU is one of CubeCL");
    };
    let zeros = |shape: &[usize]| {
        <Cube as FloatTensorOps<Cube>>::float_zeros(
            Shape::from(shape.to_vec()),
            device,
            FloatDType::F32,
        )
    };
    let indices =
        <Cube as IntTensorOps<Cube>>::int_zeros(Shape::new([3, 2]), device, IntDType::I32);
    let weights = vec![
        vec![zeros(&[2, 8, 4])],
        vec![],
        vec![zeros(&[2, 4, 4])],
        vec![],
        vec![],
        vec![],
    ];
    let settings = experts::Settings {
        key: MoeExpertsKey::QWEN3,
        limit: None,
    };
    let operands =
        experts::Operands::new(zeros(&[3, 4]), zeros(&[3, 2]), weights, indices, settings);
    let given = Given {
        dy: zeros(&[3, 4]),
        others: [].into_iter().collect(),
        saved: [zeros(&[5, 8])].into_iter().collect(),
        ints: [].into_iter().collect(),
    };
    let backward = Backward::<Experts, _>::new(operands.unwrap(), given, &[true; 4]);
    <Cube as FusedKernel<Experts>>::backward(backward.unwrap());
}
