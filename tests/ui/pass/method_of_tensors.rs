use crate::common::{assert_same, assert_site, device};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

struct Experts {
    limit: f64,
}

impl Experts {
    // gpt-oss has its gated unit in a method of its own: its tensor is a parameter, its limit a field.
    #[fused_kernel(
        "npu_fused_swiglu",
        projections = interleaved,
        activation = quick_gelu,
        clamp = limit,
        up_offset = 1
    )]
    fn apply_gate(&self, gate_up: Tensor<2>) -> Tensor<2> {
        let [rows, columns] = gate_up.dims();
        let pairs = gate_up.reshape([rows, columns / 2, 2]);
        let part = |i| pairs.clone().narrow(2, i, 1).reshape([rows, columns / 2]);
        let gate: Tensor<2> = part(0).clamp_max(self.limit);
        let up: Tensor<2> = part(1).clamp(-self.limit, self.limit);
        (up + 1.0) * (gate.clone() * sigmoid(gate * 1.702))
    }
}

pub fn main() {
    let experts = Experts { limit: 1.0 };
    let x = Tensor::<2>::random([3, 8], Distribution::Normal(0.0, 2.0), &device());
    let y = experts.apply_gate(x.clone());
    assert_same(y, experts.apply_gate_reference(x));
    assert_site(
        "method_of_tensors::Experts::apply_gate",
        "glu(activation=quick_gelu, projections=interleaved, clamp=limit, up_offset=1)",
    );
}
