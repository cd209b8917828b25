//! Tests the memory that experts with adapters take.

use crate::comparison::{largest, relative};
use crate::counting::{alone, peak};
use burn::module::{Initializer, Module, Param, Reparameterizer};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::LowRankExperts;
use burn_kernels::semantics::ExpertLayout;

const EXPERTS: usize = 4;
const HIDDEN: usize = 768;
const WIDTH: usize = 768;
const RANK: usize = 4;
const TOKENS: usize = 12;
/// The bytes of the down projections, the smaller of the two weights.
const WEIGHT: usize = EXPERTS * HIDDEN * WIDTH * size_of::<f32>();

#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

/// Adapts all projections.
struct Adapt(Device);

impl Reparameterizer for Adapt {
    type Reparam = LowRankExperts;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRankExperts>) {
        let dims = param.base().dims();
        let random = |shape: [usize; 3]| {
            let range = Distribution::Normal(0.0, 0.1);
            Param::from_tensor(Tensor::random(shape, range, &self.0))
        };
        let adapter = LowRankExperts {
            a: random([EXPERTS, dims[2], RANK]),
            b: random([EXPERTS, RANK, dims[1]]),
            scale: 2.0,
            layout: ExpertLayout::Linear,
        };
        (param.set_require_grad(false), Some(adapter))
    }
}

/// Neither pass makes a tensor of the size of the weights, which the sum of weights and adapters needs. The results and the
/// gradients of all factors are those of the sum.
#[test]
fn adapters_of_experts_have_no_weight_of_their_own() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let weight = |rows, columns| {
        let shape = [EXPERTS, rows, columns];
        Initializer::Normal {
            mean: 0.0,
            std: 0.03,
        }
        .init(shape, &device)
    };
    let plain = Experts {
        gate_up_proj: weight(2 * WIDTH, HIDDEN),
        down_proj: weight(HIDDEN, WIDTH),
    };
    let ours = plain.apply_reparameterization(Adapt(device.clone()));
    let random = |shape| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let x = random([TOKENS, HIDDEN]).require_grad();
    let routing = random([TOKENS, 2]).abs();
    let chosen: Vec<i64> = (0..2 * TOKENS as i64).map(|slot| slot % 3).collect();
    let indices = Tensor::<1, Int>::from_data(chosen.as_slice(), &device.clone().inner());
    let indices = indices.reshape([TOKENS, 2]);
    let up = random([TOKENS, HIDDEN]);
    let train = |experts: &Experts| {
        let y = experts.forward(x.clone(), indices.clone(), routing.clone());
        let gradients = (y.clone() * up.clone()).sum().backward();
        (y.without_autodiff(), gradients)
    };
    // A first call is compared with its reference, which takes memory of its own.
    let (y, gradients) = train(&ours);
    let taken = peak(|| drop(train(&ours)));
    assert!(taken < WEIGHT / 4, "{taken} of {WEIGHT} bytes");

    let summed = || Experts {
        gate_up_proj: Param::from_tensor(ours.gate_up_proj.val().detach()),
        down_proj: Param::from_tensor(ours.down_proj.val().detach()),
    };
    let taken = peak(|| drop(summed()));
    assert!(taken > WEIGHT, "{taken} of {WEIGHT} bytes");
    let near = |one: Tensor<3>, other: Tensor<3>| {
        let [one, other] = [one, other].map(|tensor| {
            let numbers = tensor.into_data();
            numbers.iter::<f64>().collect::<Vec<_>>()
        });
        let far = relative(&one, &other);
        assert!(largest(&other) > 0.0 && far < 1e-4, "{far}");
    };
    let weights = summed();
    let (expected, of_weights) = train(&weights);
    near(y.unsqueeze(), expected.unsqueeze());
    for (param, weight) in [
        (&ours.gate_up_proj, &weights.gate_up_proj),
        (&ours.down_proj, &weights.down_proj),
    ] {
        let adapter = param
            .reparameterization::<LowRankExperts>()
            .expect("attached");
        let of_weight = weight.val().grad(&of_weights).expect("a gradient");
        let of_product = of_weight.swap_dims(1, 2).mul_scalar(adapter.scale);
        let [a, b] = [&adapter.a, &adapter.b].map(|factor| factor.val());
        let gradient = |factor: &Tensor<3>| factor.grad(&gradients).expect("a gradient");
        let [found_a, found_b] = [gradient(&a), gradient(&b)];
        let [a, b] = [a, b].map(|factor| factor.without_autodiff());
        near(found_a, of_product.clone().matmul(b.swap_dims(1, 2)));
        near(found_b, a.swap_dims(1, 2).matmul(of_product));
    }
}
