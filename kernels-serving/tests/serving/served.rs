//! Tests of devices that a server of this process serves over loopback.

use burn::backend::Flex;
use burn::server::RemoteServer;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::__private::{
    At, Block, StackedExperts, block_reference, declare_site, experts_reference, glu_mlp,
};
use kernels_runtime::dispatch::{DeviceKind, KernelOp, Reason};
use kernels_runtime::ops::moe::{self, Stack, grouped_matmul};
use kernels_runtime::ops::{
    add_rms_norm, cross_entropy, glu, layer_norm, linear, linear_cross_entropy, qk_norm_rope,
    rms_norm,
};
use kernels_runtime::policy::{Policy, scope};
use kernels_runtime::registry::Site;
use kernels_runtime::report::report;
use kernels_runtime::semantics::{
    AddRmsNormKey, CrossEntropyKey, ExpertLayout, Gating, GluKey, LayerNormKey,
    LinearCrossEntropyKey, LinearKey, LossReduction, MoeBlockKey, MoeExpertsKey, OutputLayout,
    QkNorm, QkNormRopeKey, RmsNormKey, Shift,
};
use kernels_runtime::verify::verify_all;
use kernels_serving::remote::{
    self, Address, ConnectError, Host, Identity, Kernels, LoadError, ServeError, ServeOptions,
    Server, connect,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn serve(options: ServeOptions) -> Server {
    Server::start::<Flex>([Default::default()], options).unwrap()
}

fn serve_and_connect() -> (Server, Device) {
    let server = serve(ServeOptions::websocket(LOOPBACK));
    let device = only(connect(server.address(), server.token()).unwrap());
    (server, device)
}

fn only(devices: Vec<Device>) -> Device {
    assert_eq!(devices.len(), 1);
    devices.into_iter().next().unwrap()
}

fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u64> {
    let data = tensor.into_data();
    data.iter::<f64>().map(f64::to_bits).collect()
}

fn numbers<const D: usize>(shape: [usize; D], device: &Device, dtype: DType) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|i| ((i * 7919) % 613) as f64 / 307.0 - 1.0);
    let data = TensorData::new(values.collect::<Vec<_>>(), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype))
}

fn ints<const D: usize>(values: &[i64], shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

#[test]
fn a_served_cpu_is_a_cpu_with_a_name() {
    let (server, device) = serve_and_connect();
    for device in [device.clone(), device.clone().autodiff()] {
        assert_eq!(DeviceKind::of(&device), DeviceKind::Cpu);
        let here = DeviceKind::capability(&Device::flex());
        assert_eq!(DeviceKind::capability(&device), here);
        let known = remote::describe(&device).unwrap();
        assert_eq!(known.kernels, KernelOp::ALL);
        assert_eq!(known.name, server.devices()[0].name);
        assert_eq!(known.index, 0);
        assert!(known.same_host || cfg!(not(target_os = "linux")));
        let text = known.to_string();
        assert!(text.starts_with("cpu:0 ") && text.ends_with(&server.address().to_string()));
    }
    assert!(remote::describe(&Device::flex()).is_none());
    let report = verify_all(&Device::flex(), &Device::flex());
    assert_eq!(report.device, DeviceKind::Cpu);
}

declare_site! {
    static MLP = {
        kernel: "npu_fused_swiglu",
        item: "Served::forward",
        form: Form::Impl,
        key: SemanticsKey::Glu(GluKey::SWIGLU),
        key_json: r#"{"op":"not read here"}"#,
        layer: None,
    }
}

declare_site! {
    static LACKING = {
        kernel: "npu_fused_swiglu",
        item: "Lacking::forward",
        form: Form::Impl,
        key: SemanticsKey::Glu(GluKey::SWIGLU),
        key_json: r#"{"op":"not read here"}"#,
        layer: None,
    }
}

/// Returns the gradient of a site's input. Its reference is the same formula.
fn gradient(site: &'static Site, device: &Device) -> Vec<u64> {
    let x = numbers([5, 12], &device.clone().autodiff(), DType::F32).require_grad();
    let reference = &mut |x: Tensor<2>| burn::tensor::activation::silu(x.clone()) * x * 2.0;
    let project = &|x: Tensor<2>| (x.clone(), x);
    let y = glu_mlp(
        At::new(site),
        x.clone(),
        project,
        &|y| y * 2.0,
        None,
        None,
        reference,
    );
    bits(x.grad(&y.sum().backward()).unwrap())
}

/// Returns device and path of the calls of a site.
fn calls(site: &Site) -> Vec<(String, String, u64)> {
    let rows = report()
        .rows
        .into_iter()
        .filter(|row| row.site == site.name());
    rows.filter_map(|row| {
        let call = row.call?;
        Some((call.to_string(), call.path(), row.calls))
    })
    .collect()
}

#[test]
fn a_site_runs_the_kernel_where_its_device_is_served_and_the_report_says_so() {
    let _auto = scope(Policy::auto());
    let (_server, device) = serve_and_connect();
    let served = gradient(&MLP, &device);
    let seen = calls(&MLP);
    assert_eq!(
        seen,
        [(
            "cpu f32 training".to_owned(),
            "fused cpu-simd".to_owned(),
            1
        )]
    );
    assert_eq!(served, gradient(&MLP, &Device::flex()));
    // The report separates the served device from that of this process, although both are a CPU.
    assert_eq!(calls(&MLP).len(), 2);
    let _off = scope(Policy::reference());
    let plain = gradient(&MLP, &device);
    assert_eq!(plain, gradient(&MLP, &Device::flex()));
}

#[test]
fn a_server_that_lacks_a_kernel_leaves_the_site_to_its_reference() {
    let _auto = scope(Policy::auto());
    let server = Server::start_with::<Flex>(
        [Default::default()],
        ServeOptions::websocket(LOOPBACK),
        |kernels: Kernels<Flex>| kernels.rms_norm(),
    )
    .unwrap();
    let device = only(connect(server.address(), server.token()).unwrap());
    assert_eq!(
        remote::describe(&device).unwrap().kernels,
        [KernelOp::RmsNorm]
    );
    assert_eq!(gradient(&LACKING, &device), {
        let _off = scope(Policy::reference());
        gradient(&LACKING, &Device::flex())
    });
    let reference = format!("reference: {}", Reason::NotServed);
    let seen = calls(&LACKING);
    assert!(
        seen.contains(&("cpu f32 training".to_owned(), reference, 1)),
        "{seen:?}"
    );
    let inputs = glu::Inputs::Packed(numbers([3, 8], &device, DType::F32));
    let key = GluKey {
        projections: kernels_runtime::semantics::Projections::Chunked,
        ..GluKey::SWIGLU
    };
    let refused = glu::fused(inputs, glu::Settings::default(), key);
    assert_eq!(refused.unwrap_err(), Reason::NotServed);
    let tokens = numbers([4, 6], &device, DType::F32);
    let indices = ints(&[0, 1, 1, 0], [4, 1], &device);
    let refused = moe::permute::fused(tokens, indices, 2, None);
    assert_eq!(refused.unwrap_err(), Reason::NotServed);
    // The kernels that it has run.
    norm(&device).unwrap();
}

/// The gradient of a sum and its norm is that of RMSNorm, so a server with one kernel has the other's gradient.
#[test]
fn a_server_of_sums_and_norms_has_their_gradients() {
    let server = Server::start_with::<Flex>(
        [Default::default()],
        ServeOptions::websocket(LOOPBACK),
        |kernels: Kernels<Flex>| kernels.add_rms_norm(),
    )
    .unwrap();
    let served = only(connect(server.address(), server.token()).unwrap());
    let kernels = remote::describe(&served).unwrap().kernels;
    assert_eq!(kernels, [KernelOp::AddRmsNorm]);
    let gradients = |device: Device| {
        let device = device.autodiff();
        let x: Tensor<2> = numbers([3, 8], &device, DType::F32).require_grad();
        let inputs = add_rms_norm::Inputs {
            x: x.clone(),
            residual: x.clone() * 2.0,
            weight: Some(numbers([8], &device, DType::F32)),
            gate: None,
        };
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size: None,
        };
        let (y, sum) = add_rms_norm::fused(inputs, settings, AddRmsNormKey::LLAMA).unwrap();
        let grads = (y * sum).sum().backward();
        x.grad(&grads).unwrap().into_data()
    };
    assert_eq!(gradients(served), gradients(Device::flex()));
}

/// Each gradient is asked for alone and with the others: the messages leave out those that are not wanted.
#[test]
fn layer_norms_and_their_gradients_are_the_same_bits() {
    let (_server, served) = serve_and_connect();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for key in [LayerNormKey::GPT2, LayerNormKey::COHERE] {
            for tracked in 0..8_usize {
                let on = |device: &Device| {
                    let device = &device.clone().autodiff();
                    let is_tracked = |number: usize| tracked & (1 << number) != 0;
                    let mut x = numbers([3, 5, 12], device, dtype);
                    let [mut weight, mut bias] = [(); 2].map(|()| numbers([12], device, dtype));
                    if is_tracked(0) {
                        x = x.require_grad();
                    }
                    if is_tracked(1) {
                        weight = weight.require_grad();
                    }
                    if is_tracked(2) {
                        bias = bias.require_grad();
                    }
                    let inputs = layer_norm::Inputs {
                        x: x.clone(),
                        weight: weight.clone(),
                        bias: (key.shift == Shift::Bias).then(|| bias.clone()),
                    };
                    let settings = layer_norm::Settings { eps: 1e-5 };
                    let y = layer_norm::fused(inputs, settings, key).unwrap();
                    let mut all = vec![bits(y.clone())];
                    if !y.is_tracked() {
                        return all;
                    }
                    let dy = numbers([3, 5, 12], device, dtype);
                    let grads = (y.square() * dy).sum().backward();
                    all.extend(x.grad(&grads).map(bits));
                    all.extend(weight.grad(&grads).map(bits));
                    all.extend(bias.grad(&grads).map(bits));
                    all
                };
                let here = on(&Device::flex());
                assert_eq!(on(&served), here, "{key} in {dtype:?}, tracked {tracked}");
            }
        }
    }
}

/// Each gradient is asked for alone and with the others.
#[test]
fn linear_layers_and_their_gradients_are_the_same_bits() {
    let (_server, served) = serve_and_connect();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for key in [LinearKey::BURN, LinearKey::PROJECTION] {
            for tracked in 0..8_usize {
                let on = |device: &Device| {
                    let device = &device.clone().autodiff();
                    let is_tracked = |number: usize| tracked & (1 << number) != 0;
                    let mut x = numbers([3, 5, 12], device, dtype);
                    let mut weight = numbers([12, 7], device, dtype);
                    let mut bias = numbers([7], device, dtype);
                    if is_tracked(0) {
                        x = x.require_grad();
                    }
                    if is_tracked(1) {
                        weight = weight.require_grad();
                    }
                    if is_tracked(2) {
                        bias = bias.require_grad();
                    }
                    let inputs = linear::Inputs {
                        x: x.clone(),
                        weight: weight.clone(),
                        bias: (key.shift == Shift::Bias).then(|| bias.clone()),
                    };
                    let y = linear::fused(inputs, key).unwrap();
                    let mut all = vec![bits(y.clone())];
                    if !y.is_tracked() {
                        return all;
                    }
                    let dy = numbers([3, 5, 7], device, dtype);
                    let grads = (y.square() * dy).sum().backward();
                    all.extend(x.grad(&grads).map(bits));
                    all.extend(weight.grad(&grads).map(bits));
                    all.extend(bias.grad(&grads).map(bits));
                    all
                };
                let here = on(&Device::flex());
                assert_eq!(on(&served), here, "{key} in {dtype:?}, tracked {tracked}");
            }
        }
    }
}

/// Losses and gradients of logits, and of hidden states with every set of gradients that is wanted.
#[test]
fn losses_and_their_gradients_are_the_same_bits() {
    let (_server, served) = serve_and_connect();
    let classes = |device: &Device| ints(&[4, -100, 0, 6, 2], [5], &device.clone().inner());
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for reduction in [LossReduction::Mean, LossReduction::None] {
            let of_logits = |device: &Device| {
                let device = &device.clone().autodiff();
                let logits: Tensor<2> = numbers([5, 7], device, dtype).require_grad();
                let inputs = cross_entropy::Inputs {
                    logits: logits.clone(),
                    targets: classes(device),
                };
                let key = CrossEntropyKey {
                    reduction,
                    ..CrossEntropyKey::MEAN
                };
                let loss = cross_entropy::fused(inputs, Default::default(), key).unwrap();
                let grads = loss.clone().square().sum().backward();
                [bits(loss), bits(logits.grad(&grads).unwrap())]
            };
            assert_eq!(of_logits(&served), of_logits(&Device::flex()), "{dtype:?}");
            for tracked in 0..8_usize {
                let of_hidden = |device: &Device| {
                    let device = &device.clone().autodiff();
                    let mut hidden: Tensor<2> = numbers([5, 3], device, dtype);
                    let mut weight: Tensor<2> = numbers([3, 7], device, dtype);
                    let mut bias: Tensor<1> = numbers([7], device, dtype);
                    if tracked & 1 != 0 {
                        hidden = hidden.require_grad();
                    }
                    if tracked & 2 != 0 {
                        weight = weight.require_grad();
                    }
                    if tracked & 4 != 0 {
                        bias = bias.require_grad();
                    }
                    let inputs = linear_cross_entropy::Inputs {
                        hidden: hidden.clone(),
                        weight: weight.clone(),
                        bias: Some(bias.clone()),
                        targets: classes(device),
                    };
                    let key = LinearCrossEntropyKey {
                        reduction,
                        layout: OutputLayout::InputMajor,
                        shift: Shift::Bias,
                        ..LinearCrossEntropyKey::MEAN
                    };
                    let settings = Default::default();
                    let loss = linear_cross_entropy::fused(inputs, settings, key).unwrap();
                    let mut all = vec![bits(loss.clone())];
                    if !loss.is_tracked() {
                        return all;
                    }
                    let grads = loss.square().sum().backward();
                    all.extend(hidden.grad(&grads).map(bits));
                    all.extend(weight.grad(&grads).map(bits));
                    all.extend(bias.grad(&grads).map(bits));
                    all
                };
                let here = of_hidden(&Device::flex());
                assert_eq!(
                    of_hidden(&served),
                    here,
                    "{reduction:?}, {dtype:?}, {tracked}"
                );
            }
        }
    }
}

#[test]
fn a_target_that_is_no_class_ends_the_session_and_says_so() {
    let (_server, device) = serve_and_connect();
    let inputs = cross_entropy::Inputs {
        logits: numbers([2, 3], &device, DType::F32),
        targets: ints(&[0, 3], [2], &device),
    };
    let loss = cross_entropy::fused(inputs, Default::default(), CrossEntropyKey::MEAN).unwrap();
    assert!(loss.try_into_data().is_err());
    let why = remote::failure(&device).unwrap();
    assert!(
        why.contains("token 1 has the target 3, but there are 3 classes"),
        "{why}"
    );
}

/// Each gradient is asked for alone and with the others, those of the tables too.
#[test]
fn norms_and_rotations_and_their_gradients_are_the_same_bits() {
    let (_server, served) = serve_and_connect();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for key in [
            QkNormRopeKey::QWEN3,
            QkNormRopeKey::OLMO2,
            QkNormRopeKey::LLAMA,
        ] {
            let has_norm = key.norm != QkNorm::None;
            for tracked in 0..8_usize {
                let on = |device: &Device| {
                    let device = &device.clone().autodiff();
                    let is_tracked = |number: usize| tracked & (1 << number) != 0;
                    let mut q: Tensor<4> = numbers([2, 3, 2, 8], device, dtype);
                    let k: Tensor<4> = numbers([2, 3, 1, 8], device, dtype);
                    let elements = if key.norm == QkNorm::Row { 16 } else { 8 };
                    let mut weight: Tensor<1> = numbers([elements], device, dtype);
                    let mut cos: Tensor<3> = numbers([1, 3, 8], device, dtype);
                    if is_tracked(0) {
                        q = q.require_grad();
                    }
                    if is_tracked(1) {
                        weight = weight.require_grad();
                    }
                    if is_tracked(2) {
                        cos = cos.require_grad();
                    }
                    let inputs = qk_norm_rope::Inputs {
                        q: q.clone(),
                        k,
                        q_weight: has_norm.then(|| weight.clone()),
                        k_weight: has_norm.then(|| numbers([8], device, dtype)),
                        cos: cos.clone(),
                        sin: numbers([1, 3, 8], device, dtype),
                    };
                    let settings = qk_norm_rope::Settings {
                        eps: has_norm.then_some(1e-6),
                    };
                    let (y, other) = qk_norm_rope::fused(inputs, settings, key).unwrap();
                    let mut all = vec![bits(y.clone()), bits(other)];
                    if !y.is_tracked() {
                        return all;
                    }
                    let dy: Tensor<4> = numbers([2, 2, 3, 8], device, dtype);
                    let grads = (y.square() * dy).sum().backward();
                    all.extend(q.grad(&grads).map(bits));
                    all.extend(weight.grad(&grads).map(bits));
                    all.extend(cos.grad(&grads).map(bits));
                    all
                };
                let here = on(&Device::flex());
                assert_eq!(on(&served), here, "{key} in {dtype:?}, tracked {tracked}");
            }
        }
    }
}

/// A kernel adds its gradient to the one that is there, which its server does too: it rounds the sum where the kernel here does.
#[test]
fn gradients_of_a_tensor_that_several_kernels_take_are_the_same_bits() {
    let (_server, served) = serve_and_connect();
    let norms = [Gating::None, Gating::AfterNorm, Gating::BeforeNorm];
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for [rows, width] in [[3, 8], [200, 256]] {
            let on = |device: &Device| {
                let device = &device.clone().autodiff();
                let leaf: Tensor<2> = numbers([rows, width], device, dtype).require_grad();
                let x = leaf.clone() * 0.7;
                let linear = |outputs| {
                    let inputs = linear::Inputs {
                        x: x.clone(),
                        weight: numbers([width, outputs], device, dtype),
                        bias: None,
                    };
                    let key = LinearKey {
                        layout: OutputLayout::InputMajor,
                        shift: Shift::None,
                    };
                    linear::fused(inputs, key).unwrap().square()
                };
                let norm = |gating| {
                    let gated = gating != Gating::None;
                    let inputs = rms_norm::Inputs {
                        x: x.clone(),
                        weight: Some(numbers([width], device, dtype)),
                        gate: gated.then(|| numbers([rows, width], device, dtype)),
                    };
                    let settings = rms_norm::Settings {
                        eps: 1e-6,
                        group_size: None,
                    };
                    let key = RmsNormKey {
                        gating,
                        ..RmsNormKey::LLAMA
                    };
                    rms_norm::fused(inputs, settings, key).unwrap().square()
                };
                let products = [5, width].map(|outputs| linear(outputs).sum());
                let losses = products.into_iter().chain(norms.map(|key| norm(key).sum()));
                let loss = losses.reduce(|sum, loss| sum + loss).unwrap();
                bits(leaf.grad(&loss.backward()).unwrap())
            };
            let here = on(&Device::flex());
            assert!(on(&served) == here, "[{rows}, {width}] in {dtype:?}");
        }
    }
}

fn norm(device: &Device) -> Result<Tensor<2>, Reason> {
    let inputs = rms_norm::Inputs {
        x: numbers([3, 8], device, DType::F32),
        weight: Some(numbers([8], device, DType::F32)),
        gate: None,
    };
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    rms_norm::fused(inputs, settings, RmsNormKey::LLAMA)
}

#[test]
fn a_device_of_a_plain_burn_server_runs_references() {
    let listener = TcpListener::bind(SocketAddr::from(LOOPBACK)).unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let transport = burn::server::WebSocketTransport::from_listener(listener);
    runtime.spawn(RemoteServer::new([Device::flex()]).serve_async(transport));
    let host = burn::remote::RemoteHost::websocket(&url);
    let device = Device::remote_options(&host).init().unwrap();
    assert_eq!(DeviceKind::of(&device), DeviceKind::Other);
    assert_eq!(norm(&device).unwrap_err(), Reason::NoImplementation);
    // Connecting to it as a server of this project is an error, and its other sessions go on.
    let error = connect(url.as_str(), "token").unwrap_err();
    assert!(matches!(error, ConnectError::NotOurs { .. }), "{error}");
    assert_eq!(bits(numbers([2], &device, DType::F32)).len(), 2);
    runtime.shutdown_background();
}

#[test]
fn grouped_products_and_permutations_are_the_same_bits() {
    let (_server, served) = serve_and_connect();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        let on = |device: &Device| {
            let device = &device.clone().autodiff();
            let mut all = Vec::new();
            for layout in [ExpertLayout::Linear, ExpertLayout::Matmul] {
                let x = numbers([7, 5], device, dtype).require_grad();
                let stacked = match layout {
                    ExpertLayout::Linear => numbers([3, 4, 5], device, dtype),
                    ExpertLayout::Matmul => numbers([3, 5, 4], device, dtype),
                }
                .require_grad();
                let counts = ints(&[2, 0, 4], [3], device);
                let y =
                    grouped_matmul::fused(x.clone(), counts, Stack::from(stacked.clone()), layout);
                let y = y.unwrap();
                let grads = (y.clone() * numbers([7, 4], device, dtype))
                    .sum()
                    .backward();
                all.push(bits(y));
                all.push(bits(x.grad(&grads).unwrap()));
                all.push(bits(stacked.grad(&grads).unwrap()));
            }
            let tokens = numbers([6, 4], device, dtype).require_grad();
            let probs = numbers([6, 2], device, dtype).require_grad();
            let chosen = [0, 2, 1, 0, 2, 2, 0, 1, 1, 2, 0, 0];
            let sorted =
                moe::permute::fused(tokens.clone(), ints(&chosen, [6, 2], device), 3, None)
                    .unwrap();
            all.push(
                sorted
                    .row_map
                    .clone()
                    .into_data()
                    .iter::<f64>()
                    .map(f64::to_bits)
                    .collect(),
            );
            all.push(
                sorted
                    .counts
                    .into_data()
                    .iter::<f64>()
                    .map(f64::to_bits)
                    .collect(),
            );
            let weighed = moe::unpermute::fused(
                sorted.rows.clone(),
                sorted.row_map.clone(),
                Some(probs.clone()),
            )
            .unwrap();
            let summed = moe::unpermute::fused(sorted.rows, sorted.row_map, None).unwrap();
            all.push(bits(weighed.clone()));
            all.push(bits(summed.clone()));
            let grads = (weighed + summed * 3.0).sum().backward();
            all.push(bits(tokens.grad(&grads).unwrap()));
            all.push(bits(probs.grad(&grads).unwrap()));
            all
        };
        assert_eq!(on(&served), on(&Device::flex()), "{dtype:?}");
    }
}

/// The client reads no index to find out that a router names experts that are not there.
#[test]
fn a_router_of_other_experts_is_told() {
    let (_server, device) = serve_and_connect();
    let of = |shape| numbers::<3>(shape, &device, DType::F32);
    let (gate_up, down) = (of([4, 6, 10]), of([4, 5, 6]));
    let experts = |x, indices, routing| {
        let weights = StackedExperts::packed(&gate_up, &down);
        experts_reference(x, indices, routing, weights, None, MoeExpertsKey::LLAMA4)
    };
    for logits in [3, 4, 5] {
        let gate = |x: Tensor<2>| x.matmul(numbers([6, logits], &device, DType::F32));
        let block = Block::new(&gate, &experts, 2);
        let run = || {
            let x = numbers::<2>([7, 6], &device, DType::F32);
            block_reference(x, block, MoeBlockKey::QWEN3_MOE).0.dims()
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(shape) => assert_eq!((shape, logits), ([7, 6], 4)),
            Err(panic) => {
                let said = *panic.downcast::<String>().unwrap();
                let expected = format!("gives {logits} logits a token, but there are 4 experts");
                assert!(said.contains(&expected) && logits != 4, "{said}");
            }
        }
    }
}

#[test]
fn only_the_token_is_let_in() {
    let right = "the right token.";
    let server = serve(ServeOptions::websocket(LOOPBACK).token(right));
    for token in ["wrong", "", "the right token. ", "the right token"] {
        let error = connect(server.address(), token).unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("refuses the token"), "{error}");
    }
    assert_eq!(server.sessions(), 0);
    only(connect(server.address(), right).unwrap());
    assert_eq!(server.sessions(), 1);
    // A plain client of Burn only presents the token.
    let host = |token: &str| {
        let url = server.address().to_string();
        burn::remote::RemoteHost::websocket(&url).with_credential(token)
    };
    assert!(Device::remote_options(&host(right)).init().is_ok());
    assert!(Device::remote_options(&host("wrong")).init().is_err());
}

#[test]
fn tokens_and_open_doors_that_are_none_are_refused() {
    let start = |options| Server::start::<Flex>([Default::default()], options).map(|_| ());
    let websocket = || ServeOptions::websocket(LOOPBACK);
    let ambiguous = start(websocket().token("x\x000123456789abcdef"));
    assert!(matches!(ambiguous, Err(ServeError::Token)));
    for token in ["", "15 bytes do not"] {
        let said = start(websocket().token(token)).unwrap_err().to_string();
        let length = format!("has {} bytes, and needs 16", token.len());
        assert!(said.contains(&length), "{said}");
        let iroh = start(ServeOptions::iroh().token(token));
        assert!(matches!(iroh, Err(ServeError::ShortToken { .. })));
    }
    let everywhere = ServeOptions::websocket((Ipv4Addr::UNSPECIFIED, 0)).without_token();
    assert!(matches!(
        start(everywhere),
        Err(ServeError::OpenToOthers(_))
    ));
    let absent = start(websocket().weights("/no such folder"));
    let nowhere = start(ServeOptions::iroh_at(LOOPBACK));
    assert!(matches!(nowhere, Err(ServeError::Port(_))));
    let said = absent.unwrap_err().to_string();
    assert!(said.contains("/no such folder"), "{said}");
    let file = start(websocket().weights(std::env::current_exe().unwrap()));
    assert!(matches!(file, Err(ServeError::Weights { .. })));
    let none = Server::start::<Flex>([], websocket()).and_then(Server::stop);
    assert!(matches!(none, Err(ServeError::Burn(_))), "{none:?}");
    let open = serve(websocket().without_token());
    only(connect(open.address(), "").unwrap());
    let taken = match open.address() {
        Address::WebSocket { host } => host.parse::<SocketAddr>().unwrap(),
        other => panic!("{other}"),
    };
    let error = start(ServeOptions::websocket(taken))
        .unwrap_err()
        .to_string();
    assert!(error.contains("can't be listened on"), "{error}");
}

#[test]
fn garbage_on_the_socket_disturbs_nobody() {
    let (server, device) = serve_and_connect();
    let before = norm(&device).unwrap();
    let Address::WebSocket { host } = server.address() else {
        panic!("{}", server.address())
    };
    let garbage: [&[u8]; 4] = [
        b"\x00\xff\x13garbage\r\n\r\n",
        b"GET /session HTTP/1.1\r\n\r\n",
        b"",
        &[0x82; 4096],
    ];
    for bytes in garbage {
        let mut socket = TcpStream::connect(host).unwrap();
        socket.write_all(bytes).unwrap();
        drop(socket);
    }
    // A valid WebSocket with invalid messages.
    let mut socket = TcpStream::connect(host).unwrap();
    let upgrade = format!(
        "GET /session HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(upgrade.as_bytes()).unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    // A binary frame of four bytes, masked with zeros.
    let frame = [0x82, 0x84, 0, 0, 0, 0, 0xff, 0x13, 0x37, 0x00];
    socket.write_all(&frame).unwrap();
    drop(socket);
    assert_eq!(bits(norm(&device).unwrap()), bits(before));
    only(connect(server.address(), server.token()).unwrap());
}

#[test]
fn clients_share_a_server_and_nothing_else() {
    let server = serve(ServeOptions::websocket(LOOPBACK));
    let expected = bits(norm(&Device::flex()).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let device = only(connect(server.address(), server.token()).unwrap());
                for _ in 0..20 {
                    assert_eq!(bits(norm(&device).unwrap()), expected);
                }
            });
        }
    });
    assert_eq!(server.sessions(), 4);
}

#[test]
fn a_kernel_that_fails_ends_the_session_and_says_why_when_asked() {
    let (server, device) = serve_and_connect();
    let x = numbers([2, 3], &device, DType::F32);
    // The kernel on the CPU reads the counts and refuses more rows than there are.
    let counts = ints(&[2, 7], [2], &device);
    let weights = numbers([2, 3, 3], &device, DType::F32);
    let y = grouped_matmul::fused(x, counts, Stack::from(weights), ExpertLayout::Matmul).unwrap();
    assert!(y.try_into_data().is_err());
    let why = remote::failure(&device).unwrap();
    assert!(why.contains("are not those of 2 rows"), "{why}");
    let again = only(connect(server.address(), server.token()).unwrap());
    norm(&again).unwrap().into_data();
}

#[test]
fn an_operation_of_burn_that_fails_ends_the_session_and_says_why_when_asked() {
    let (server, device) = serve_and_connect();
    assert!(remote::failure(&device).is_none());
    let x = numbers([2, 3], &device, DType::F32);
    let begun = Instant::now();
    // Flex has no element 9.
    let outside = ints(&[9], [1], &device);
    let error = x.select(0, outside).try_into_data().unwrap_err();
    assert!(!error.to_string().is_empty());
    // Later operations don't hang either.
    assert!(numbers([2], &device, DType::F32).try_into_data().is_err());
    assert!(begun.elapsed() < Duration::from_secs(30));
    let why = remote::failure(&device).expect("the server says why");
    assert!(why.contains("out of bounds") || why.contains('9'), "{why}");
    let again = only(connect(server.address(), server.token()).unwrap());
    norm(&again).unwrap().into_data();
}

#[test]
fn a_server_that_stops_is_an_error_and_not_a_hang() {
    let (server, device) = serve_and_connect();
    let x = numbers([2, 3], &device, DType::F32);
    x.clone().into_data();
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(x.try_into_data().is_err());
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn over_iroh_it_is_the_same() {
    // A free port, released before the server takes it.
    let free = std::net::UdpSocket::bind(SocketAddr::from(LOOPBACK)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let server = serve(ServeOptions::iroh_at(address));
    assert!(server.address().to_string().starts_with("iroh://"));
    let text = server.address().to_string();
    let device = only(connect(text.as_str(), server.token()).unwrap());
    assert_eq!(DeviceKind::of(&device), DeviceKind::Cpu);
    let expected = bits(norm(&Device::flex()).unwrap());
    assert_eq!(bits(norm(&device).unwrap()), expected);
    let error = connect(text.as_str(), "wrong").unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
}

#[test]
fn weights_are_read_by_the_server() {
    let folder = std::env::temp_dir().join(format!("kernels-remote-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("w.safetensors");
    let values = [0.1_f32, -2.5, 3e-20, 65504.0, 1.0, 7.0];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2, 3], &bytes);
    let file = safetensors::serialize([("w", view.unwrap())], None).unwrap();
    std::fs::write(&path, file).unwrap();
    let options = ServeOptions::websocket(LOOPBACK).weights(&folder);
    let server = serve(options);
    let device = only(connect(server.address(), server.token()).unwrap());
    let tensor = remote::load_tensor::<2>(&device, &path, "w", None).unwrap();
    assert_eq!(tensor.into_data(), TensorData::new(values.to_vec(), [2, 3]));
    let half = remote::load_tensor::<2>(&device, &path, "w", Some(FloatDType::BF16)).unwrap();
    let expected = TensorData::new(values.to_vec(), [2, 3]).convert_dtype(DType::BF16);
    assert_eq!(half.into_data(), expected);
    let load = |path: &std::path::Path, name| remote::load_tensor::<2>(&device, path, name, None);
    let refused = |result: Result<Tensor<2>, LoadError>| result.unwrap_err().to_string();
    assert!(refused(load(&path, "v")).contains("no tensor `v`"));
    let outside = refused(load(std::path::Path::new("/etc/passwd"), "w"));
    assert!(
        outside.contains("is not a file in the folders"),
        "{outside}"
    );
    let rank = remote::load_tensor::<3>(&device, &path, "w", None).unwrap_err();
    assert!(matches!(rank, LoadError::Rank { .. }), "{rank}");
    let here = remote::load_tensor::<2>(&Device::flex(), &path, "w", None).unwrap_err();
    assert_eq!(here, LoadError::NotRemote);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Connects to two devices behind one address.
#[test]
fn a_server_of_two_devices_gives_two() {
    let options = ServeOptions::websocket(LOOPBACK);
    let server = Server::start::<Flex>([Default::default(), Default::default()], options).unwrap();
    let devices = connect(server.address(), server.token()).unwrap();
    assert_eq!((devices.len(), server.sessions()), (2, 2));
    let identity = |_: &Device| -> Identity { <Flex as Host>::identity(&Default::default()) };
    assert_eq!(server.devices()[1], identity(&devices[1]));
    let x = numbers([3], &devices[0], DType::F32).to_device(&devices[1]);
    assert_eq!(bits(x), bits(numbers([3], &Device::flex(), DType::F32)));
    assert_eq!(remote::describe(&devices[1]).unwrap().index, 1);
}
