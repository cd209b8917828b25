//! Live verification of bodies that compute the rule token by token, as models without a kernel do.

use super::{GDN, leaves, refusal};
use crate::declared::sites;
use burn::tensor::{Device, FloatDType, Tensor};
use kernels_runtime::__private::{At, gated_delta_rule, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::gated_delta_rule::Decays;
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;

const KEY: SemanticsKey = SemanticsKey::GatedDeltaRule(GDN);

sites! {
    RIGHT: "npu_fused_gated_delta_rule", KEY;
    RIGHT_IN_HALF: "npu_fused_gated_delta_rule", KEY;
    NO_DECAY: "npu_fused_gated_delta_rule", KEY;
    NO_NORM: "npu_fused_gated_delta_rule", KEY;
    NO_RECALL: "npu_fused_gated_delta_rule", KEY;
    OTHER_STATE: "npu_fused_gated_delta_rule", KEY;
}

/// Mistakes of a body.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    Decay,
    Norm,
    Recall,
    State,
}

type Flowing = (Tensor<4>, Tensor<4>, Tensor<4>, Tensor<3>, Tensor<3>);

/// A user's body, token by token, for one head of keys.
fn body((q, k, v, g, beta): Flowing, mistake: Mistake) -> (Tensor<4>, Tensor<4>) {
    let dtype = FloatDType::from(q.dtype());
    let [q, k, v] = [q, k, v].map(|x| x.cast(FloatDType::F32));
    let beta = beta.cast(FloatDType::F32);
    let unit = |x: Tensor<4>| match mistake {
        Mistake::Norm => x,
        _ => x.clone() / x.square().sum_dim(3).add_scalar(1e-6).sqrt(),
    };
    let (q, k) = (unit(q) * 6.0_f64.powf(-0.5), unit(k));
    let [batch, tokens, heads, width] = v.dims();
    let mut state = Tensor::<4>::zeros([batch, heads, 6, width], &v.device());
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
        if mistake != Mistake::Decay {
            state = state * number(&g).exp();
        }
        let recalled = match mistake {
            Mistake::Recall => of(&v) * 0.0,
            _ => (state.clone() * key.clone()).sum_dim(2),
        };
        state = state + key * ((of(&v) - recalled) * number(&beta));
        all.push((state.clone() * of(&q).swap_dims(2, 3)).sum_dim(2));
    }
    let y = Tensor::cat(all, 2).swap_dims(1, 2).cast(dtype);
    let state = match mistake {
        Mistake::State => state * 2.0,
        _ => state,
    };
    (y, state)
}

fn call(site: &'static Site, dtype: FloatDType, mistake: Mistake) {
    let device = Device::flex().autodiff();
    device.seed(9);
    let of = leaves(100, &device);
    let Decays::Heads(g) = of.g else {
        unreachable!("decays of heads")
    };
    let cast = |tensor: Tensor<4>| tensor.cast(dtype).detach().require_grad();
    let beta = of.beta.cast(dtype).detach().require_grad();
    let q = cast(of.q);
    let flowing = (q.clone(), cast(of.k), cast(of.v), g, beta);
    let mut body = once(|flowing: Flowing| body(flowing, mistake));
    let (y, last) = gated_delta_rule(At::new(site), flowing, None, None, &mut body);
    let loss = y.cast(FloatDType::F32).sum() + last.sum();
    assert!(q.grad(&loss.backward()).is_some());
}

#[test]
fn bodies_are_verified() {
    let _first = live::scope(Sampling::first());
    for (site, dtype) in [
        (&RIGHT, FloatDType::F32),
        (&RIGHT_IN_HALF, FloatDType::BF16),
    ] {
        call(site, dtype, Mistake::None);
        let rows = live::report().rows;
        let row = rows.iter().find(|row| row.site == site.name());
        let row = row.expect("checked");
        assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    }
    for (site, mistake) in [
        (&NO_DECAY, Mistake::Decay),
        (&NO_NORM, Mistake::Norm),
        (&NO_RECALL, Mistake::Recall),
        (&OTHER_STATE, Mistake::State),
    ] {
        let why = refusal(|| call(site, FloatDType::F32, mistake));
        assert!(why.contains(&site.name()), "{why}");
    }
}
