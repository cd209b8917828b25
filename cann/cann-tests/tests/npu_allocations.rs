//! Tests that the check whether CANN's operators accept a call allocates nothing if they do. Every call asks this, also
//! with a cached decision. It is a program of its own because its allocator counts.

#[path = "../../../kernels-runtime/tests/counting/mod.rs"]
mod counting;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "npu/npu.rs"]
mod npu;

use burn::backend::TensorMetadata;
use burn::tensor::{IntDType, Tensor};
use burn_cann::{DType, Spec, backend};
use counting::allocations;
use kernels_runtime::dispatch::DeviceKind;
use kernels_runtime::npu::Seen;
use kernels_runtime::ops::moe::router::{self, Routing};
use kernels_runtime::ops::moe::{grouped_matmul, permute};
use kernels_runtime::ops::{
    adam_w, add_rms_norm, attention, cross_entropy, glu, layer_norm, linear, linear_cross_entropy,
    rms_norm, rope,
};
use kernels_runtime::registry::{Implementation, kernel};
use kernels_runtime::semantics::*;
use npu::common::Scenario;
use npu::*;

/// Checks that a decision accepts a call without an allocation.
macro_rules! allocates_nothing {
    ($what:literal, $decision:expr) => {
        $decision.expect($what);
        assert_eq!(allocations(|| $decision.is_ok()), 0, $what);
    };
}

#[test]
fn norms_units_rotations_routers_and_steps_are_decided_in_place() {
    assert!(allocations(|| vec![0_u8; 100]) > 0, "the test can fail");
    let here = &platform();
    let bf16 = |shape: &[usize]| spec(DType::BF16, shape);
    let (x, weight) = (bf16(&[2, 7, 64]), bf16(&[64]));
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    for key in [RmsNormKey::LLAMA, RmsNormKey::GEMMA] {
        let (x, weight) = (Seen(x.clone()), Some(Seen(weight.clone())));
        let norm = rms_norm::Operands::new(x, weight, None, settings, key).unwrap();
        allocates_nothing!("a norm", rms_norm::npu::decide(here, &norm));
    }
    let settings_of_layer = layer_norm::Settings { eps: 1e-5 };
    let [scale, bias] = [&weight, &weight].map(|spec| Seen(spec.clone()));
    let (x_seen, bias, gpt2) = (Seen(x.clone()), Some(bias), LayerNormKey::GPT2);
    let norm = layer_norm::Operands::new(x_seen, scale, bias, settings_of_layer, gpt2).unwrap();
    allocates_nothing!("a layer norm", layer_norm::npu::decide(here, &norm));
    let square = Seen(bf16(&[64, 64]));
    let layer =
        linear::Operands::new(Seen(x.clone()), square, None, LinearKey::PROJECTION).unwrap();
    allocates_nothing!("a linear layer", linear::npu::decide(here, &layer));
    let [first, second] = [&x, &x].map(|spec| Seen(spec.clone()));
    let (weight, llama) = (Some(Seen(weight.clone())), AddRmsNormKey::LLAMA);
    let sum = add_rms_norm::Operands::new(first, second, weight, None, settings, llama).unwrap();
    allocates_nothing!("a sum", add_rms_norm::npu::decide(here, &sum));
    let (first, second) = (Seen(x.clone()), Seen(x.clone()));
    let (weight, gemma) = (Some(Seen(bf16(&[64]))), AddRmsNormKey::GEMMA);
    let sum = add_rms_norm::Operands::new(first, second, weight, None, settings, gemma).unwrap();
    allocates_nothing!("a sum in two steps", add_rms_norm::npu::decide(here, &sum));
    let [gate, up] = [&x, &x].map(|spec| Seen(spec.clone()));
    let two = glu::Projected::Separate { gate, up };
    let unit = glu::Operands::of_projected(two, glu::Settings::default(), GluKey::SWIGLU).unwrap();
    allocates_nothing!("a gated unit", glu::npu::decide(here, &unit));
    let (heads, table) = (bf16(&[2, 4, 7, 16]), bf16(&[1, 7, 16]));
    let [heads, cos, sin] = [&heads, &table, &table].map(|spec| Seen(spec.clone()));
    let rotation = rope::Operands::new(heads, cos, sin, RopeKey::LLAMA).unwrap();
    allocates_nothing!("a rotation", rope::npu::decide(here, &rotation));
    let [q, k, v] = [4, 2, 2].map(|heads| Seen(bf16(&[2, heads, 7, 16])));
    let (plain, causal) = (attention::Settings::default(), AttentionKey::CAUSAL);
    let whole = attention::Lengths::default();
    let attended = attention::Operands::new(q, k, v, None, None, plain, whole, causal).unwrap();
    allocates_nothing!("attention", attention::npu::decide(here, &attended));
    let (logits, targets) = (Seen(bf16(&[14, 8])), || Seen(spec(DType::I32, &[14])));
    let (plain, mean) = (cross_entropy::Settings::default(), CrossEntropyKey::MEAN);
    let loss = cross_entropy::Operands::new(logits, targets(), plain, mean).unwrap();
    allocates_nothing!("a loss", cross_entropy::npu::decide(here, &loss));
    let [hidden, head, bias] = [&[14, 64][..], &[8, 64], &[8]].map(|shape| Seen(bf16(shape)));
    let key = LinearCrossEntropyKey {
        shift: Shift::Bias,
        ..LinearCrossEntropyKey::MEAN
    };
    let bias = Some(bias);
    let loss = linear_cross_entropy::Operands::new(hidden, head, bias, targets(), plain, key);
    let loss = loss.unwrap();
    allocates_nothing!(
        "a loss of hidden states",
        linear_cross_entropy::npu::decide(here, &loss)
    );
    let logits = bf16(&[14, 8]);
    let routing = Routing::new(RouterKey::QWEN3_MOE, 8, 2).unwrap();
    let routed = router::Operands::new(Seen(logits), None, routing, IntDType::I64).unwrap();
    allocates_nothing!("a router", router::npu::decide(here, &routed));
    let [parameter, moment_1, moment_2, gradient] = [(); 4].map(|()| Seen(x.clone()));
    let state = adam_w::State {
        parameter,
        moment_1,
        moment_2,
    };
    let settings = adam_w::Settings {
        learning_rate: 0.01,
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 1,
    };
    let step = adam_w::Operands::of_state(state, gradient, settings).unwrap();
    allocates_nothing!("a step", adam_w::npu::decide(here, &step));
}

#[test]
fn rows_and_stacked_experts_are_decided_in_place() {
    let here = &platform();
    let indices = || Seen(spec(DType::I32, &[14, 2]));
    let slots = permute::Sort::<Seen<Spec>, _>::new(indices(), 8, 28, IntDType::I64).unwrap();
    allocates_nothing!("a sort", permute::npu::decide_sort(here, &slots));
    let rows = Seen(spec(DType::BF16, &[28, 64]));
    let probs = Seen(spec(DType::F32, &[14, 2]));
    let weighed = permute::Weigh::new(rows.clone(), indices(), probs).unwrap();
    allocates_nothing!("a permutation", permute::npu::decide_move(here, &weighed));
    let counts = Seen(spec(DType::I32, &[8]));
    let weights = vec![Seen(spec(DType::BF16, &[8, 32, 64]))];
    let product = grouped_matmul::Operands::new(rows, weights, counts, ExpertLayout::Linear, None);
    let product = product.unwrap();
    allocates_nothing!(
        "a grouped product",
        grouped_matmul::npu::decide(here, &product)
    );
}

/// The limits' questions about tensors on a device allocate no more than Burn does to name the tensor's device.
#[test]
fn limits_allocate_no_more_than_naming_the_device() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();
        let x = Tensor::<3>::ones([2, 7, 64], (&device, burn::tensor::DType::F32)).into_dispatch();
        let weight = Tensor::<1>::ones([64], (&device, burn::tensor::DType::F32)).into_dispatch();
        let norm = kernel("npu_fused_rmsnorm");
        let here = |known: &&Implementation| known.device.contains(DeviceKind::Npu);
        let norm = norm.unwrap().implementations.iter().find(here).unwrap();
        let (limits, key) = (
            norm.limits.unwrap(),
            SemanticsKey::RmsNorm(RmsNormKey::LLAMA),
        );
        let asked = || limits(&key, &[&x, &weight]);
        assert_eq!(asked(), Ok(()));
        let named = allocations(|| x.kind.device());
        let allocated = allocations(asked);
        assert!(
            allocated <= named,
            "{allocated} allocations, {named} to name the device"
        );
        drop((x, weight));
        kernels_serving::npu::close();
        backend::close();
    });
}
