use crate::acme;
use crate::common::{assert_near, assert_paths, assert_same, assert_site, device};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

// A parameter under the operand's name, one by reference, and one that only the condition reads.
#[fused_kernel(acme::soft_cap, x = logits, when = *cap > 0.0, layer = "SoftCap")]
fn capped<const D: usize>(logits: Tensor<D>, cap: &f64) -> Tensor<D> {
    (logits / *cap).tanh() * *cap
}

struct Head {
    limit: f64,
}

#[fused_kernel(self::acme::soft_cap, cap = limit)]
impl Head {
    fn forward(&self, mut x: Tensor<2>) -> Tensor<2> {
        x = x / self.limit;
        x.tanh() * self.limit
    }
}

mod inner {
    use super::Head;
    use crate::acme::soft_cap;
    use burn::tensor::Tensor;
    use burn_kernels::fused_kernel;

    impl Head {
        #[fused_kernel(soft_cap, cap = limit)]
        pub(super) fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
            (x / self.limit).tanh() * self.limit
        }
    }
}

trait Layer {
    fn run(&self, x: Tensor<2>) -> Tensor<2>;
}

#[fused_kernel(crate::acme::soft_cap, cap = limit, method = run)]
impl Layer for Head {
    fn run(&self, mut x: Tensor<2>) -> Tensor<2> {
        x = x / self.limit;
        x.tanh() * self.limit
    }
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[-60.0, 15.0]], &device());
    let head = Head { limit: 30.0 };
    let expected = [-28.920_828, 13.863_514];
    assert_near(capped(x.clone(), &30.0), &expected);
    assert_near(head.forward(x.clone()), &expected);
    assert_near(head.apply(x.clone()), &expected);
    assert_near(head.run(x.clone()), &expected);
    assert_same(
        head.forward_reference(x.clone()),
        head.apply_reference(x.clone()),
    );
    assert_same(capped_reference(x.clone(), &30.0), head.run(x.clone()));
    capped(x, &-30.0);

    let key = "soft_cap(function=tanh)";
    assert_site("path_forms::capped", key);
    assert_site("path_forms::Head::forward", key);
    assert_site("path_forms::inner::Head::apply", key);
    assert_site("path_forms::Head::run", key);
    assert_paths(
        "path_forms::capped",
        &["fused", "reference: the site's condition is false"],
    );
    assert_paths("path_forms::Head::forward", &["fused"]);
}
