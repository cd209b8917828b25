//! Tests Burn's operations on a served device: with operands that don't match, sent without the checks of Burn's own
//! client; with results that exceed the memory limit; and as programs use them.

// With `gpu`, remote devices are behind Burn's fusion, whose client takes no operations from outside.
#![cfg(not(feature = "gpu"))]

use burn::backend::ir::{
    AttentionOpIr, AttentionOptionsIr, BaseOperationIr, Conv1dOpIr, Conv1dOptionsIr,
    Conv1dWeightBackwardOpIr, Conv1dXBackwardOpIr, FlipOpIr, FloatOperationIr, InterpolateModeIr,
    InterpolateOpIr, InterpolateOptionsIr, MatmulOpIr, ModuleOperationIr, NumericOperationIr,
    OperationIr, PermuteOpIr, ReduceDimOpIr, TensorIr, Unfold4dOpIr, Unfold4dOptionsIr,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{BackendTensor, DispatchTensorKind, Flex, Remote, Shape};
use burn::tensor::module;
use burn::tensor::ops::{
    ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions, UnfoldOptions,
};
use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use burn_remote::RouterClient;
use kernels_serving::remote::{self, ServeOptions, Server, connect};

/// The limit of a session in these tests, in bytes.
const LIMIT: u64 = 64 << 20;

fn serve() -> Server {
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0)).max_session_memory(LIMIT);
    Server::start::<Flex>([Default::default()], options).unwrap()
}

fn client(server: &Server) -> Device {
    connect(server.address(), server.token()).unwrap().remove(0)
}

/// Returns a tensor of zeros of Burn's client.
fn zeros(shape: &[usize], device: &Device) -> FloatTensor<Remote> {
    let of = (device, DType::F32);
    let dispatch = match *shape {
        [a, b] => Tensor::<2>::zeros([a, b], of).into_dispatch(),
        [a, b, c] => Tensor::<3>::zeros([a, b, c], of).into_dispatch(),
        [a, b, c, d] => Tensor::<4>::zeros([a, b, c, d], of).into_dispatch(),
        _ => panic!("no operation here takes {shape:?}"),
    };
    match dispatch.kind {
        DispatchTensorKind::Remote(BackendTensor::Float(tensor)) => tensor,
        other => panic!("not a served tensor: {other:?}"),
    }
}

/// The operations that a hostile client sends: the name, the shapes of the operands, and the message with them.
type Attack = (
    &'static str,
    &'static [&'static [usize]],
    fn(&[TensorIr], TensorIr) -> OperationIr,
);

/// Sends an operation. Returns the reason why the session ended.
fn send(device: &Device, (operation, shapes, message): Attack) -> String {
    let tensors = shapes.iter().map(|shape| zeros(shape, device));
    let tensors: Vec<_> = tensors.collect();
    let client = tensors[0].client.clone();
    let inputs: Vec<_> = tensors.into_iter().map(|tensor| tensor.into_ir()).collect();
    let shape = Shape::from(vec![1]);
    let out = TensorIr::uninit(client.create_empty_handle(), shape, DType::F32);
    client.register_op(message(&inputs, out));
    assert!(device.sync().is_err(), "{operation} was done");
    remote::failure(device).expect("the server says why")
}

/// Checks that each attack ends only its own session, with a message that names the operation.
fn are_refused(attacks: &[Attack], because: &str) {
    let server = serve();
    let good = client(&server);
    for attack in attacks {
        let why = send(&client(&server), *attack);
        let (operation, ..) = attack;
        assert!(
            why.contains(&format!("`{operation}` ")),
            "{operation}: {why}"
        );
        assert!(why.contains(because), "{operation}: {why}");
        // The operation was refused before anything was allocated.
        assert!(!why.contains("needs 0 B"), "{operation}: {why}");
        let four = Tensor::<2>::ones([2, 2], (&good, DType::F32)).sum();
        assert_eq!(four.into_data(), TensorData::from([4.0f32]), "{operation}");
    }
}

fn conv1d(stride: usize, padding: (usize, usize)) -> Conv1dOptionsIr {
    Conv1dOptionsIr {
        stride: [stride],
        padding: [padding],
        dilation: [1],
        groups: 1,
    }
}

fn pair(inputs: &[TensorIr]) -> [TensorIr; 2] {
    [inputs[0].clone(), inputs[1].clone()]
}

fn multiply(inputs: &[TensorIr], out: TensorIr) -> OperationIr {
    let [lhs, rhs] = pair(inputs);
    OperationIr::Float(
        DType::F32,
        FloatOperationIr::Matmul(MatmulOpIr { lhs, rhs, out }),
    )
}

fn convolve(inputs: &[TensorIr], out: TensorIr, options: Conv1dOptionsIr) -> OperationIr {
    let [x, weight] = pair(inputs);
    let bias = None;
    OperationIr::Module(ModuleOperationIr::Conv1d(Conv1dOpIr {
        x,
        weight,
        bias,
        options,
        out,
    }))
}

fn back_to_x(inputs: &[TensorIr], out: TensorIr, stride: usize) -> OperationIr {
    let [x, weight] = pair(inputs);
    OperationIr::Module(ModuleOperationIr::Conv1dXBackward(Conv1dXBackwardOpIr {
        x,
        weight,
        output_grad: inputs[2].clone(),
        options: conv1d(stride, (0, 0)),
        out,
    }))
}

#[test]
fn operands_that_dont_go_together_are_refused() {
    let attacks: &[Attack] = &[
        ("float_matmul", &[&[1000, 1, 1], &[2, 1, 1024]], multiply),
        ("float_matmul", &[&[2, 3], &[4, 5]], multiply),
        ("conv1d", &[&[1, 2, 16], &[4, 64, 1]], |inputs, out| {
            convolve(inputs, out, conv1d(1, (0, 0)))
        }),
        ("conv1d", &[&[1, 64, 4], &[4, 64, 8]], |inputs, out| {
            convolve(inputs, out, conv1d(1, (0, 0)))
        }),
        (
            "conv_transpose1d",
            &[&[1, 1, 1024], &[1, 1, 1], &[1, 1, 1024]],
            |inputs, out| back_to_x(inputs, out, 1 << 38),
        ),
        ("float_permute", &[&[2, 3]], |inputs, out| {
            let (input, axes) = (inputs[0].clone(), vec![0, 0]);
            OperationIr::BaseFloat(BaseOperationIr::Permute(PermuteOpIr { input, out, axes }))
        }),
        ("float_topk", &[&[2, 3]], |inputs, out| {
            let chosen = ReduceDimOpIr {
                input: inputs[0].clone(),
                out,
                axis: 0,
                accumulator_len: 1 << 42,
            };
            OperationIr::NumericFloat(DType::F32, NumericOperationIr::TopK(chosen))
        }),
        ("float_flip", &[&[2, 3]], |inputs, out| {
            let (input, axes) = (inputs[0].clone(), vec![0, 0]);
            OperationIr::BaseFloat(BaseOperationIr::Flip(FlipOpIr { input, out, axes }))
        }),
    ];
    are_refused(attacks, "don't go together");
}

#[test]
fn results_that_the_operands_do_not_tell_are_charged() {
    let attacks: &[Attack] = &[
        // The result has a stride for each element of a gradient that does not match.
        (
            "conv_transpose1d",
            &[&[1, 1, 1024], &[1, 1, 1], &[1, 1, 1024]],
            |inputs, out| back_to_x(inputs, out, 1 << 30),
        ),
        // The result has the channels of `x` and of the gradient, and not those of the weight.
        (
            "conv1d",
            &[&[1, 1 << 14, 1], &[1, 1, 1], &[1, 1 << 14, 1]],
            |inputs, out| {
                let [x, weight] = pair(inputs);
                let gradient = Conv1dWeightBackwardOpIr {
                    x,
                    weight,
                    output_grad: inputs[2].clone(),
                    options: conv1d(1, (0, 0)),
                    out,
                };
                OperationIr::Module(ModuleOperationIr::Conv1dWeightBackward(gradient))
            },
        ),
        // Uneven padding needs a padded copy.
        ("conv1d", &[&[1, 64, 1], &[1, 64, 1]], |inputs, out| {
            convolve(inputs, out, conv1d(1 << 18, (0, 1 << 18)))
        }),
        // The columns of a tile hold a window of each channel for each of 512 places.
        (
            "conv1d",
            &[&[1, 256, 1022], &[1, 256, 511]],
            |inputs, out| convolve(inputs, out, conv1d(1, (0, 0))),
        ),
        // The operation builds a weight with a one for each element of a window.
        ("unfold4d", &[&[1, 64, 8, 8]], |inputs, out| {
            let options = Unfold4dOptionsIr {
                stride: [1; 2],
                padding: [1; 2],
                dilation: [1; 2],
            };
            let x = inputs[0].clone();
            let kernel_size = [8, 8];
            OperationIr::Module(ModuleOperationIr::Unfold4d(Unfold4dOpIr {
                x,
                kernel_size,
                options,
                out,
            }))
        }),
        // The operation needs a value for each query, however narrow queries are.
        (
            "attention",
            &[&[1, 1, 4096, 1], &[1, 1, 1, 1], &[1, 1, 1, 1 << 14]],
            |inputs, out| {
                let [query, key] = pair(inputs);
                let options = AttentionOptionsIr {
                    scale: None,
                    softcap: None,
                    is_causal: false,
                };
                OperationIr::Module(ModuleOperationIr::Attention(AttentionOpIr {
                    query,
                    key,
                    value: inputs[2].clone(),
                    mask: None,
                    attn_bias: None,
                    options,
                    out,
                }))
            },
        ),
        // The operation needs weights for each place, also for a picture without places.
        ("interpolate", &[&[0, 1, 2, 2]], |inputs, out| {
            let options = InterpolateOptionsIr {
                mode: InterpolateModeIr::Lanczos3,
                align_corners: false,
            };
            let (x, output_size) = (inputs[0].clone(), [1 << 24, 1]);
            OperationIr::Module(ModuleOperationIr::Interpolate(InterpolateOpIr {
                x,
                output_size,
                options,
                out,
            }))
        }),
        // A sum of no elements is zero, so the result is larger than the operand.
        ("float_sum_dim", &[&[0, 1 << 28]], |inputs, out| {
            let sum = ReduceDimOpIr {
                input: inputs[0].clone(),
                out,
                axis: 0,
                accumulator_len: 1,
            };
            OperationIr::NumericFloat(DType::F32, NumericOperationIr::SumDim(sum))
        }),
    ];
    are_refused(attacks, "64.0 MiB");
}

/// Returns random numbers, the same on every device.
fn some<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let flex = Device::flex();
    flex.seed(seed);
    let numbers = Tensor::<D>::random(shape, Distribution::Default, (&flex, DType::F32));
    Tensor::from_data(numbers.into_data(), (device, DType::F32))
}

/// Returns the results and gradients of layers.
fn layers(device: &Device) -> Vec<TensorData> {
    let device = &device.clone().autodiff();
    let x = some([2, 4, 9, 8], 1, device).require_grad();
    let weight = some([6, 2, 3, 2], 2, device).require_grad();
    let back = some([6, 2, 3, 2], 3, device).require_grad();
    let bias = some([6], 4, device).require_grad();
    let options = ConvOptions::new([2, 1], [1, 0], [1, 2], 2);
    let y = module::conv2d(x.clone(), weight.clone(), Some(bias.clone()), options);
    let options = ConvTransposeOptions::new([2, 1], [1, 0], [1, 0], [1, 2], 2);
    let z = module::conv_transpose2d(y.clone(), back.clone(), None, options);
    let folds = UnfoldOptions::new([2, 1], [1, 1], [1, 2]);
    let windows = module::unfold4d(z.clone(), [2, 3], folds);
    let to = InterpolateOptions::new(InterpolateMode::Bilinear).with_output_size([5, 11]);
    let picture = module::interpolate(z.clone(), to);
    let hidden = Default::default();
    let seen: Tensor<4> = module::attention(z.clone(), z.clone(), z.clone(), None, None, hidden);
    let loss = windows.clone().powi_scalar(2).mean() + picture.clone().mean() + seen.clone().mean();
    let gradients = loss.backward();
    let mut found = vec![windows.into_data(), picture.into_data(), seen.into_data()];
    found.push(x.grad(&gradients).unwrap().into_data());
    found.push(weight.grad(&gradients).unwrap().into_data());
    found.push(back.grad(&gradients).unwrap().into_data());
    found.push(bias.grad(&gradients).unwrap().into_data());
    found
}

/// Checks that normal programs are not refused.
#[test]
fn layers_and_their_gradients_are_those_of_the_cpu() {
    let server = serve();
    let expected = layers(&Device::flex());
    for (index, (found, expected)) in layers(&client(&server)).iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{index}");
    }
}
