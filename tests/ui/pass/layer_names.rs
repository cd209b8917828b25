use crate::common::{device, site};
use burn::tensor::Tensor;
use burn::tensor::activation::silu;
use burn_kernels::fused_kernel;
use burn_kernels::registry::Form;
use burn_kernels::registry::section::decode;

#[fused_kernel("npu_fused_rmsnorm", layer = "Llama \"RMSNorm\"")]
struct Norm {
    weight: Tensor<1>,
    eps: f64,
}

#[fused_kernel("npu_fused_swiglu")]
fn gated(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    silu(gate) * up
}

pub fn main() {
    let norm = Norm {
        weight: Tensor::ones([2], &device()),
        eps: 1e-6,
    };
    let x = norm.forward(Tensor::ones([1, 2], &device()));
    let _ = gated(x.clone(), x);

    let named = site("layer_names::Norm::forward");
    assert_eq!(named.spec().layer, Some("Llama \"RMSNorm\""));
    assert_eq!(named.spec().kernel, "npu_fused_rmsnorm");
    assert_eq!(named.spec().form, Form::Struct);
    let records = decode(named.record()).unwrap();
    assert_eq!(records[0].json()["layer"], "Llama \"RMSNorm\"");

    let unnamed = site("layer_names::gated");
    assert_eq!(unnamed.spec().layer, None);
    assert_eq!(unnamed.spec().form, Form::Function);
    assert_eq!(unnamed.spec().module, module_path!());
    let records = decode(unnamed.record()).unwrap();
    assert!(records[0].json()["layer"].is_null());
}
