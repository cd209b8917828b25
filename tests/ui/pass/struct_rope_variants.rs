use crate::common::{assert_near, assert_same, assert_site, device};
use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// A rotation of one head of four elements by the angles 90° and 0°.
macro_rules! rotary {
    ($name:ident($($setting:tt)*), $cos:expr, $sin:expr, $expected:expr, $key:expr) => {{
        #[fused_kernel("npu_fused_rope", $($setting)*)]
        #[derive(Module, Debug)]
        struct $name {
            cos: Tensor<2>,
            sin: Tensor<2>,
        }

        let rotary = $name {
            cos: Tensor::from_floats([$cos], &device()),
            sin: Tensor::from_floats([$sin], &device()),
        };
        let x = Tensor::<4>::from_floats([[[[1.0, 2.0, 3.0, 4.0]]]], &device());
        let (q, k) = rotary.forward(x.clone(), x.clone());
        assert_near(q.clone(), &$expected);
        let (q2, k2) = rotary.forward_reference(x.clone(), x);
        assert_same(q, q2);
        assert_same(k, k2);
        assert_site(concat!("struct_rope_variants::", stringify!($name), "::forward"), $key);
    }};
}

pub fn main() {
    rotary!(
        Half(style = half),
        [0.0, 1.0, 0.0, 1.0],
        [1.0, 0.0, 1.0, 0.0],
        [-3.0, 2.0, 1.0, 4.0],
        "rope(style=half)"
    );
    rotary!(
        Neighbours(style = interleaved, table = neighbours),
        [0.0, 0.0, 1.0, 1.0],
        [1.0, 1.0, 0.0, 0.0],
        [-2.0, 1.0, 3.0, 4.0],
        "rope(style=interleaved, table=neighbours)"
    );
    rotary!(
        ToHalf(style = interleaved_to_half, table = pairs),
        [0.0, 1.0],
        [1.0, 0.0],
        [-2.0, 3.0, 1.0, 4.0],
        "rope(style=interleaved_to_half, table=pairs)"
    );
    rotary!(
        Partial(width = partial, layout = bsnd),
        [0.0, 0.0],
        [1.0, 1.0],
        [-2.0, 1.0, 3.0, 4.0],
        "rope(style=half, width=partial, layout=bsnd)"
    );
}
