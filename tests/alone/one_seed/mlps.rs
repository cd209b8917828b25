//! Tests gated MLPs in every form, with all ways to write a body.

use super::train::{WIDTH, initial, one_seed_one_model};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;

fn linear(inputs: usize, outputs: usize, device: &Device) -> Linear {
    LinearConfig::new(inputs, outputs).init(device)
}

/// Declares layers with the same fields and different bodies.
macro_rules! mlps {
    ($($name:ident)*) => {
        $(
            #[derive(Module, Debug)]
            struct $name {
                gate_proj: Linear,
                up_proj: Linear,
                down_proj: Linear,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        gate_proj: linear(WIDTH, 5, device),
                        up_proj: linear(WIDTH, 5, device),
                        down_proj: linear(5, WIDTH, device),
                    }
                }
            }
        )*
    };
}

mlps! {
    GateFirst UpFirst Nested Closures TakenApart Late Branching Helped ByHand OfATrait OfATraitHelped
    OfAMethod
}

#[fused_kernel("npu_fused_swiglu")]
impl GateFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = silu(self.gate_proj.forward(x.clone()));
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
}

#[fused_kernel("npu_fused_swiglu")]
impl UpFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.up_proj.forward(x.clone());
        let gate = silu(self.gate_proj.forward(x));
        self.down_proj.forward(gate * up)
    }
}

#[test]
fn the_projection_that_a_body_calls_first_is_initialised_first() {
    one_seed_one_model("GateFirst", GateFirst::init, GateFirst::forward);
    one_seed_one_model("UpFirst", UpFirst::init, UpFirst::forward);
    assert_ne!(
        initial(GateFirst::init, GateFirst::forward),
        initial(UpFirst::init, UpFirst::forward),
        "the order makes a difference"
    );
}

#[fused_kernel("npu_fused_swiglu")]
impl Nested {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.down_proj
            .forward(self.up_proj.forward(x.clone()) * silu(self.gate_proj.forward(x)))
    }
}

#[fused_kernel("npu_fused_swiglu")]
impl Closures {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = |x| silu(self.gate_proj.forward(x));
        let up = |x| self.up_proj.forward(x);
        let hidden = { up(x.clone()) * gate(x) };
        self.down_proj.forward(hidden)
    }
}

#[fused_kernel("npu_fused_swiglu")]
impl TakenApart {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let Self {
            gate_proj,
            up_proj: up,
            down_proj,
        } = self;
        let (hidden, x) = (up.forward(x.clone()), x);
        down_proj.forward(hidden * silu(gate_proj.forward(x)))
    }
}

#[fused_kernel("npu_fused_swiglu")]
impl Late {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let (gate, up) = (&self.gate_proj, &self.up_proj);
        let up = up.forward(x.clone());
        self.down_proj.forward(silu(gate.forward(x)) * up)
    }
}

#[test]
fn evaluation_decides_and_not_the_text() {
    one_seed_one_model("Nested", Nested::init, Nested::forward);
    one_seed_one_model("Closures", Closures::init, Closures::forward);
    one_seed_one_model("TakenApart", TakenApart::init, TakenApart::forward);
    one_seed_one_model("Late", Late::init, Late::forward);
}

#[fused_kernel("npu_fused_swiglu")]
impl Branching {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let (gate, up) = match x.dims()[0] > 1 {
            true => {
                let up = self.up_proj.forward(x.clone());
                (self.gate_proj.forward(x), up)
            }
            false => (self.gate_proj.forward(x.clone()), self.up_proj.forward(x)),
        };
        self.down_proj.forward(silu(gate) * up)
    }
}

#[fused_kernel("npu_fused_swiglu", gate = gate_proj, up = up_proj)]
impl Helped {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.down_proj.forward(self.hidden(x))
    }

    fn hidden(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.up_proj.forward(x.clone());
        silu(self.gate_proj.forward(x)) * up
    }
}

/// Uses the weights of `down` before those of the others, and the biases last.
#[fused_kernel("npu_fused_swiglu")]
impl ByHand {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let [down, up, gate] =
            [&self.down_proj, &self.up_proj, &self.gate_proj].map(|layer| layer.weight.val());
        let bias = |layer: &Linear| layer.bias.as_ref().unwrap().val().unsqueeze::<2>();
        let gate = x.clone().matmul(gate) + bias(&self.gate_proj);
        let up = x.matmul(up) + bias(&self.up_proj);
        (silu(gate) * up).matmul(down) + bias(&self.down_proj)
    }
}

#[test]
fn where_only_the_running_body_can_tell_it_does() {
    one_seed_one_model("Branching", Branching::init, Branching::forward);
    one_seed_one_model("Helped", Helped::init, Helped::forward);
    one_seed_one_model("ByHand", ByHand::init, ByHand::forward);
}

trait Forward {
    fn forward(&self, x: Tensor<2>) -> Tensor<2>;
}

#[fused_kernel("npu_fused_swiglu")]
impl Forward for OfATrait {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.up_proj.forward(x.clone());
        self.down_proj.forward(silu(self.gate_proj.forward(x)) * up)
    }
}

#[fused_kernel("npu_fused_swiglu", gate = gate_proj, up = up_proj)]
impl Forward for OfATraitHelped {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.down_proj.forward(self.hidden(x))
    }
}

impl OfATraitHelped {
    fn hidden(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.up_proj.forward(x.clone());
        silu(self.gate_proj.forward(x)) * up
    }
}

impl OfAMethod {
    #[fused_kernel("npu_fused_swiglu")]
    fn up_first(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.up_proj.forward(x.clone());
        self.down_proj.forward(silu(self.gate_proj.forward(x)) * up)
    }
}

#[test]
fn a_trait_and_a_method_are_no_exception() {
    one_seed_one_model("OfATrait", OfATrait::init, OfATrait::forward);
    one_seed_one_model(
        "OfATraitHelped",
        OfATraitHelped::init,
        OfATraitHelped::forward,
    );
    one_seed_one_model("up_first", OfAMethod::init, OfAMethod::up_first);
}

/// A layer whose type the attribute doesn't know.
trait Layer {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>;
}

impl Layer for Linear {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        Linear::forward(self, x)
    }
}

#[derive(Module, Debug)]
struct Generic<L> {
    gate: L,
    up: L,
    down: L,
}

#[fused_kernel("npu_fused_swiglu")]
impl<L: Layer> Generic<L> {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let up = self.up.forward(x.clone());
        self.down.forward(silu(self.gate.forward(x)) * up)
    }
}

#[test]
fn layers_of_any_type_are_called_in_order() {
    let init = |device: &Device| Generic {
        gate: linear(WIDTH, 5, device),
        up: linear(WIDTH, 5, device),
        down: linear(5, WIDTH, device),
    };
    one_seed_one_model("Generic", init, Generic::forward);
}

#[derive(Module, Debug)]
struct Packed {
    down_proj: Linear,
    gate_up_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu", projections = chunked)]
impl Packed {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        // Only a body written by hand can use these before the projection.
        let down = self.down_proj.weight.val();
        let bias = self.down_proj.bias.as_ref().unwrap().val();
        let both = self.gate_up_proj.forward(x);
        let [gate, up] = [0, 5].map(|from| both.clone().narrow(1, from, 5));
        (silu(gate) * up).matmul(down) + bias.unsqueeze()
    }
}

#[fused_kernel("npu_fused_swiglu", projections = chunked)]
#[derive(Module, Debug)]
struct PackedStruct {
    down_proj: Linear,
    gate_up_proj: Linear,
}

#[test]
fn one_projection_for_both_is_no_exception() {
    let init = |device: &Device| Packed {
        down_proj: linear(5, WIDTH, device),
        gate_up_proj: linear(WIDTH, 10, device),
    };
    one_seed_one_model("mlps::Packed::", init, Packed::forward);
    let init = |device: &Device| PackedStruct {
        down_proj: linear(5, WIDTH, device),
        gate_up_proj: linear(WIDTH, 10, device),
    };
    one_seed_one_model("PackedStruct", init, PackedStruct::forward);
}

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct OfFields {
    down_proj: Linear,
    up_proj: Linear,
    gate_proj: Linear,
}

#[test]
fn a_struct_has_the_order_of_its_fields() {
    let init = |device: &Device| OfFields {
        down_proj: linear(5, WIDTH, device),
        up_proj: linear(WIDTH, 5, device),
        gate_proj: linear(WIDTH, 5, device),
    };
    one_seed_one_model("OfFields", init, OfFields::forward);
    // The other layer has the same fields in another order.
    let layers = initial(init, OfFields::forward);
    let layers: Vec<_> = layers.rchunks(2).flatten().cloned().collect();
    assert_eq!(layers, initial(UpFirst::init, UpFirst::forward));
}
