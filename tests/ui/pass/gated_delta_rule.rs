use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

// Token by token.
#[fused_kernel("npu_fused_gated_delta_rule", norm = none)]
fn recurrence(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    g: Tensor<3>,
    beta: Tensor<3>,
    scale: f64,
) -> (Tensor<4>, Tensor<4>) {
    let [batch, tokens, heads, width] = v.dims();
    let keys = k.dims()[3];
    let mut state = Tensor::<4>::zeros([batch, heads, keys, width], &device());
    let mut all = Vec::new();
    for token in 0..tokens {
        let of = |x: &Tensor<4>| x.clone().narrow(1, token, 1).swap_dims(1, 2);
        let number = |x: &Tensor<3>| -> Tensor<4> {
            x.clone()
                .narrow(1, token, 1)
                .swap_dims(1, 2)
                .unsqueeze_dim(3)
        };
        let key = of(&k).swap_dims(2, 3);
        state = state * number(&g).exp();
        let recalled = (state.clone() * key.clone()).sum_dim(2);
        state = state + key * ((of(&v) - recalled) * number(&beta));
        all.push((state.clone() * of(&q).swap_dims(2, 3)).sum_dim(2) * scale);
    }
    (Tensor::cat(all, 2).swap_dims(1, 2), state)
}

// A method with a decay for each channel, from a state.
struct Kimi {
    scaling: f64,
}

impl Kimi {
    #[fused_kernel("npu_fused_gated_delta_rule", decay = channel, norm = none, state = given, scale = scaling)]
    fn step(
        &self,
        query: Tensor<4>,
        key: Tensor<4>,
        value: Tensor<4>,
        g: Tensor<4>,
        beta: Tensor<3>,
        recurrent_state: Tensor<4>,
    ) -> (Tensor<4>, Tensor<4>) {
        let [q, k, v, g] = [query, key, value, g].map(|x| x.swap_dims(1, 2));
        let k = k.swap_dims(2, 3);
        let beta: Tensor<4> = beta.swap_dims(1, 2).unsqueeze_dim(3);
        let state = recurrent_state * g.swap_dims(2, 3).exp();
        let recalled = (state.clone() * k.clone()).sum_dim(2);
        let state = state + k * ((v - recalled) * beta);
        let y = (state.clone() * q.swap_dims(2, 3)).sum_dim(2) * self.scaling;
        (y.swap_dims(1, 2), state)
    }
}

pub fn main() {
    let random = |shape: [usize; 4]| -> Tensor<4> {
        Tensor::random(shape, Distribution::Uniform(-0.5, 0.5), &device())
    };
    let (q, k, v) = (
        random([1, 9, 2, 4]),
        random([1, 9, 2, 4]),
        random([1, 9, 2, 3]),
    );
    let numbers: Tensor<3> = Tensor::random([1, 9, 2], Distribution::Uniform(0.0, 1.0), &device());
    let all = || {
        let (q, k, v) = (q.clone(), k.clone(), v.clone());
        let (y, last) = recurrence(q, k, v, -numbers.clone(), numbers.clone(), 0.5);
        [y, last]
    };
    let one = || {
        let of = |x: &Tensor<4>| x.clone().narrow(1, 0, 1);
        let kimi = Kimi { scaling: 0.25 };
        let g = -of(&k).abs();
        let state = q.clone().narrow(1, 0, 3).reshape([1, 2, 4, 3]);
        let beta = numbers.clone().narrow(1, 0, 1);
        let (y, last) = kimi.step(of(&q), of(&k), of(&v), g, beta, state);
        [y, last]
    };
    let fused = [all(), one()];
    let _off = scope(Policy::reference());
    for (fused, plain) in fused
        .into_iter()
        .flatten()
        .zip([all(), one()].into_iter().flatten())
    {
        assert_same(fused, plain);
    }
    let key = "gated_delta_rule(decay=head, norm=none)";
    assert_site("gated_delta_rule::recurrence", key);
    let key = "gated_delta_rule(decay=channel, norm=none, state=given)";
    assert_site("gated_delta_rule::Kimi::step", key);
    let paths = ["fused", "reference: switched off by the policy"];
    assert_paths("gated_delta_rule::recurrence", &paths);
    assert_paths("gated_delta_rule::Kimi::step", &paths);
}
