use crate::common::{assert_paths, assert_same, assert_site, device, linear};
use burn::module::{Lora, Module, Quantizer};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::quantization::{Calibration, QuantScheme};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_moe", experts = list, projections = separate)]
#[derive(Module, Debug)]
struct Plain {
    experts: Vec<Mlp>,
}

#[derive(Module, Debug)]
struct Packed {
    w13: Linear,
    w2: Linear,
}

// gpt-oss's unit, with biases, under other names.
#[fused_kernel(
    "npu_fused_moe",
    experts = list,
    list = layers,
    gate_up = w13,
    down = w2,
    projections = interleaved,
    activation = quick_gelu,
    clamp = limit,
    up_offset = 1,
    bias = all
)]
#[derive(Module, Debug)]
struct Units {
    layers: [Packed; 4],
    limit: f64,
}

/// A low-rank adapter of the user's own.
#[derive(Module, Debug)]
struct Adapted {
    base: Linear,
    a: Linear,
    b: Linear,
}

impl Adapted {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.base.forward(x.clone()) + self.b.forward(self.a.forward(x))
    }
}

#[derive(Module, Debug)]
struct AdaptedMlp {
    gate_proj: Linear,
    up_proj: Adapted,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_moe", experts = list, projections = separate)]
#[derive(Module, Debug)]
struct WithAdapter {
    experts: Vec<AdaptedMlp>,
}

trait Project {
    fn forward(&self, x: Tensor<2>) -> Tensor<2>;
}

impl Project for Linear {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        Linear::forward(self, x)
    }
}

struct Any<L> {
    gate_proj: L,
    up_proj: L,
    down_proj: L,
}

// What `L` is, the attribute does not know.
#[fused_kernel("npu_fused_moe", experts = list, projections = separate)]
struct OfAny<L: Project> {
    experts: Vec<Any<L>>,
}

fn bare(inputs: usize, outputs: usize, device: &Device) -> Linear {
    LinearConfig::new(inputs, outputs)
        .with_bias(false)
        .init(device)
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

/// Three tokens, two of four experts each.
fn tokens(device: &Device) -> (Tensor<2>, Tensor<2, Int>, Tensor<2>) {
    let indices = TensorData::new(vec![0_i64, 3, 3, 1, 2, 0], [3, 2]);
    (
        Tensor::from_data(random([3, 6]).into_data(), device),
        Tensor::from_data(indices, device),
        Tensor::from_data(random([3, 2]).into_data(), device),
    )
}

fn plain(device: &Device) -> Plain {
    let expert = |_| Mlp {
        gate_proj: bare(6, 5, device),
        up_proj: bare(6, 5, device),
        down_proj: bare(5, 6, device),
    };
    Plain {
        experts: (0..4).map(expert).collect(),
    }
}

const LAYERS: &str = "reference: a projection is not a plain";

pub fn main() {
    let (x, indices, routing) = tokens(&device());
    let run = || (x.clone(), indices.clone(), routing.clone());
    let experts = plain(&device());
    let of = |experts: &Plain| {
        let (x, indices, routing) = run();
        experts.forward(x, indices, routing)
    };
    let of_reference = |experts: &Plain| {
        let (x, indices, routing) = run();
        experts.forward_reference(x, indices, routing)
    };
    let y = of(&experts);
    assert_same(y.clone(), of_reference(&experts));
    let name = "list_of_experts::Plain::forward";
    assert_site(
        name,
        "moe(activation=silu, projections=separate, layout=matmul)",
    );
    assert_paths(name, &["fused cpu-simd"]);

    // Quantised weights are the layer's to multiply with.
    let mut quantizer = Quantizer::new(Calibration::MinMax, QuantScheme::default());
    let quantised = experts.clone().quantize_weights(&mut quantizer);
    assert_same(of(&quantised), of_reference(&quantised));
    assert_paths(name, &["fused cpu-simd", LAYERS]);

    let units = Units {
        layers: [(); 4].map(|()| Packed {
            w13: linear(6, 10),
            w2: linear(5, 6),
        }),
        limit: 0.3,
    };
    let (a, b, c) = run();
    let z = units.forward(a, b, c);
    let (a, b, c) = run();
    assert_same(z, units.forward_reference(a, b, c));
    assert_paths("list_of_experts::Units::forward", &["fused cpu-simd"]);

    let layer = |layer: &Linear| layer.clone();
    let any = OfAny {
        experts: (experts.experts.iter())
            .map(|expert| Any {
                gate_proj: layer(&expert.gate_proj),
                up_proj: layer(&expert.up_proj),
                down_proj: layer(&expert.down_proj),
            })
            .collect(),
    };
    let (a, b, c) = run();
    assert_same(any.forward(a, b, c), y);
    assert_paths("list_of_experts::OfAny::forward", &[LAYERS]);

    plain_layers_get_their_gradients();
    burns_adapters_get_their_gradients();
    adapters_of_the_users_get_their_gradients();
}

fn plain_layers_get_their_gradients() {
    let device = device().autodiff();
    let (x, indices, routing) = tokens(&device);
    let experts = plain(&device);
    let y = experts.forward(x.clone(), indices.clone(), routing.clone());
    let ours = y.square().sum().backward();
    let y = experts.forward_reference(x, indices, routing);
    let theirs = y.square().sum().backward();
    for Mlp {
        gate_proj,
        up_proj,
        down_proj,
    } in &experts.experts
    {
        for layer in [gate_proj, up_proj, down_proj] {
            let gradient = |of| layer.weight.val().grad(of).expect("a gradient");
            assert_same(gradient(&ours), gradient(&theirs));
        }
    }
}

/// Experts that an adapter of Burn's changes.
fn burns_adapters_get_their_gradients() {
    let device = device().autodiff();
    let (x, indices, routing) = tokens(&device);
    let adapted = plain(&device).apply_lora(Lora::new(2, 4.0));
    let y = adapted.forward(x.clone(), indices.clone(), routing.clone());
    let gradients = y.clone().square().sum().backward();
    for expert in &adapted.experts {
        let adapter = expert.down_proj.weight.adapter().expect("LoRA is applied");
        // At the start the second factor is zero, so it alone has a gradient.
        let gradient = adapter.b.val().grad(&gradients).expect("a gradient");
        assert!(gradient.abs().sum().into_scalar::<f32>() > 0.0);
        assert!(expert.down_proj.weight.base().grad(&gradients).is_none());
    }
    assert_same(y, adapted.forward_reference(x, indices, routing));
}

fn adapters_of_the_users_get_their_gradients() {
    let device = device().autodiff();
    let (x, indices, routing) = tokens(&device);
    let expert = |_| AdaptedMlp {
        gate_proj: bare(6, 5, &device),
        up_proj: Adapted {
            base: bare(6, 5, &device),
            a: bare(6, 2, &device),
            b: bare(2, 5, &device),
        },
        down_proj: bare(5, 6, &device),
    };
    let adapted = WithAdapter {
        experts: (0..4).map(expert).collect(),
    };
    let y = adapted.forward(x.clone(), indices.clone(), routing.clone());
    let gradients = y.clone().square().sum().backward();
    for expert in &adapted.experts {
        for layer in [&expert.up_proj.a, &expert.up_proj.b] {
            let gradient = layer.weight.val().grad(&gradients).expect("a gradient");
            assert!(gradient.abs().sum().into_scalar::<f32>() > 0.0);
        }
    }
    // The same with the adapters merged, by the kernel.
    let merged = Plain {
        experts: (adapted.experts.iter())
            .map(|expert| {
                let Adapted { base, a, b } = &expert.up_proj;
                let mut up_proj = base.clone();
                up_proj.weight = burn::module::Param::from_tensor(
                    (base.weight.val() + a.weight.val().matmul(b.weight.val())).detach(),
                );
                Mlp {
                    gate_proj: expert.gate_proj.clone(),
                    up_proj,
                    down_proj: expert.down_proj.clone(),
                }
            })
            .collect(),
    };
    assert_same(y, merged.forward(x, indices, routing));
    assert_paths("list_of_experts::WithAdapter::forward", &[LAYERS]);
}
