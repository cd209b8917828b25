use crate::common::{assert_same, assert_site, device};
use burn::module::Module;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

// Qwen2.5-VL.
#[fused_kernel("npu_fused_rope", sections = chunked)]
#[derive(Module, Debug)]
struct Chunked {
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
}

// Qwen3-VL.
#[fused_kernel("npu_fused_rope", sections = interleaved, mrope_section = lengths)]
#[derive(Module, Debug)]
struct InTurn {
    cos: Tensor<4>,
    sin: Tensor<4>,
    lengths: Vec<usize>,
}

pub fn main() {
    let random = |shape| Tensor::<4>::random(shape, Distribution::Default, &device());
    // Every angle twice.
    let table = || random([3, 1, 5, 4]).repeat_dim(3, 2);
    let (q, k) = (random([1, 2, 5, 8]), random([1, 1, 5, 8]));

    let chunked = Chunked {
        cos: table(),
        sin: table(),
        mrope_section: [2, 1, 1],
    };
    let (a, b) = chunked.forward(q.clone(), k.clone());
    let (c, d) = chunked.forward_reference(q.clone(), k.clone());
    assert_same(a, c);
    assert_same(b, d);
    assert_site(
        "struct_rope_sections::Chunked::forward",
        "rope(style=half, sections=chunked)",
    );

    let in_turn = InTurn {
        cos: table(),
        sin: table(),
        lengths: vec![2, 1, 1],
    };
    let (a, b) = in_turn.forward(q.clone(), k.clone());
    let (c, d) = in_turn.forward_reference(q, k);
    assert_same(a, c);
    assert_same(b, d);
    assert_site(
        "struct_rope_sections::InTurn::forward",
        "rope(style=half, sections=interleaved)",
    );
}
