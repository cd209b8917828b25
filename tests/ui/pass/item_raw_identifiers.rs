use crate::common::{assert_same, assert_site, device, vector};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[allow(non_camel_case_types)]
#[fused_kernel("npu_fused_rmsnorm", weight = type, eps = r#final, method = r#match)]
struct r#struct {
    r#type: Tensor<1>,
    r#final: f64,
}

#[fused_kernel("npu_fused_rmsnorm", method = try, weight = type, eps = final)]
impl r#struct {
    fn r#try(&self, r#in: Tensor<2>) -> Tensor<2> {
        let mean = r#in.clone().square().mean_dim(1);
        r#in / (mean + self.r#final).sqrt() * self.r#type.clone().unsqueeze()
    }
}

pub fn main() {
    let norm = r#struct {
        r#type: vector(&[1.0, 2.0]),
        r#final: 1e-6,
    };
    let x = Tensor::<2>::from_floats([[1.0, -2.0]], &device());
    assert_same(norm.r#match(x.clone()), norm.match_reference(x.clone()));
    assert_same(norm.r#try(x.clone()), norm.try_reference(x));
    let key = "rms_norm(offset=0, rounding=llama)";
    assert_site("item_raw_identifiers::struct::match", key);
    assert_site("item_raw_identifiers::struct::try", key);
}
