//! Functions that every crate with sites calls, compiled here at the ranks that models use. A development build shares
//! them, so a user's crate does not compile them again. Optimised builds do not share code between crates, so this
//! would have no effect there.

use super::{
    add_rms_norm, add_rms_norm_gated, add_rms_norm_gated_reference, add_rms_norm_reference, block,
    block_reference, glu, glu_mlp, glu_packed, glu_packed_mlp, glu_packed_reference, glu_reference,
    layer_norm, layer_norm_reference, linear, linear_reference, rms_norm, rms_norm_gated,
    rms_norm_gated_reference, rms_norm_reference,
};
use burn::tensor::Tensor;

macro_rules! shared {
    ($($rank:literal)*) => {
        /// A list that makes the compiler compile the functions. It is never used at run time.
        #[used]
        static SHARED: &[fn()] = &[$(compile::<$rank>),*];
    };
}

shared!(2 3 4);

fn compile<const D: usize>() {
    fn keep<F: Copy>(function: F) {
        std::hint::black_box(function);
    }
    keep(rms_norm::<D> as fn(_, _, _, _, _, _) -> Tensor<D>);
    keep(rms_norm_gated::<D> as fn(_, _, _, _, _, _, _) -> Tensor<D>);
    keep(add_rms_norm::<D> as fn(_, _, _, _, _, _, _) -> _);
    keep(add_rms_norm_gated::<D> as fn(_, _, _, _, _, _) -> _);
    keep(add_rms_norm_reference::<D> as fn(_, _, _, _, _, _) -> _);
    keep(add_rms_norm_gated_reference::<D> as fn(_, _, _, _, _) -> _);
    keep(layer_norm::<D> as fn(_, _, _, _, _) -> Tensor<D>);
    keep(layer_norm_reference::<D> as fn(_, _, _, _) -> Tensor<D>);
    keep(linear::<D> as fn(_, _, _, _) -> Tensor<D>);
    keep(linear_reference::<D> as fn(_, _, _) -> Tensor<D>);
    keep(glu::<D> as fn(_, _, _, _, _, _) -> Tensor<D>);
    keep(glu_packed::<D> as fn(_, _, _, _) -> Tensor<D>);
    keep(glu_mlp::<D> as fn(_, _, _, _, _, _, _) -> Tensor<D>);
    keep(glu_packed_mlp::<D> as fn(_, _, _, _, _, _) -> Tensor<D>);
    keep(block::<D> as fn(_, _, _, _) -> _);
    keep(block_reference::<D> as fn(_, _, _) -> _);
    keep(rms_norm_reference::<D> as fn(_, _, _, _, _) -> Tensor<D>);
    keep(rms_norm_gated_reference::<D> as fn(_, _, _, _, _, _) -> Tensor<D>);
    keep(glu_reference::<D> as fn(_, _, _, _, _) -> Tensor<D>);
    keep(glu_packed_reference::<D> as fn(_, _, _) -> Tensor<D>);
}
