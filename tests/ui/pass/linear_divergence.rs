use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

// Distillation as users write it, with whole logits.
#[fused_kernel("npu_fused_linear_divergence", mixture = 0.0)]
fn distilled(
    hidden_states: Tensor<2>,
    lm_head: Tensor<2>,
    teacher_hidden: Tensor<2>,
    teacher_weight: Tensor<2>,
    factors: Tensor<1>,
    temperature: f64,
) -> Tensor<1> {
    let student = log_softmax(hidden_states.matmul(lm_head) / temperature, 1);
    let teacher = log_softmax(teacher_hidden.matmul(teacher_weight) / temperature, 1);
    let terms = teacher.clone().exp() * (teacher - student);
    (terms.sum_dim(1).squeeze_dim::<1>(1) * factors).sum()
}

// Biases, and caps as fields of a method.
struct Pair {
    softcap: f64,
    teacher_softcap: f32,
}

#[fused_kernel("npu_fused_linear_divergence", shift = bias, method = reversed)]
impl Pair {
    #[allow(clippy::too_many_arguments)] // They are the operands.
    fn reversed(
        &self,
        hidden: Tensor<2>,
        weight: Tensor<2>,
        bias: Tensor<1>,
        teacher_hidden: Tensor<2>,
        teacher_weight: Tensor<2>,
        teacher_bias: Tensor<1>,
        factors: Tensor<1>,
        beta: f64,
    ) -> Tensor<1> {
        assert_eq!(beta, 1.0);
        let capped = |logits: Tensor<2>, cap: f64| log_softmax((logits / cap).tanh() * cap, 1);
        let student = capped(hidden.matmul(weight) + bias.unsqueeze(), self.softcap);
        let teacher = teacher_hidden.matmul(teacher_weight) + teacher_bias.unsqueeze();
        let teacher = capped(teacher, self.teacher_softcap.into());
        let terms = student.clone().exp() * (student - teacher);
        (terms.sum_dim(1).squeeze_dim::<1>(1) * factors).sum()
    }
}

pub fn main() {
    let random =
        |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &device());
    let row = |elements| random([1, elements]).squeeze_dim::<1>(0);
    let (hidden, weight, bias) = (random([5, 4]), random([4, 9]), row(9));
    let (teacher, teacher_weight, teacher_bias) = (random([5, 3]), random([3, 9]), row(9));
    let pair = Pair {
        softcap: 2.0,
        teacher_softcap: 3.0,
    };
    let factors = row(5);
    let all = || {
        let plain = distilled(
            hidden.clone(),
            weight.clone(),
            teacher.clone(),
            teacher_weight.clone(),
            factors.clone(),
            1.5,
        );
        let biased = pair.reversed(
            hidden.clone(),
            weight.clone(),
            bias.clone(),
            teacher.clone(),
            teacher_weight.clone(),
            teacher_bias.clone(),
            factors.clone(),
            1.0,
        );
        [plain, biased]
    };
    let fused = all();
    let plain = {
        let _off = scope(Policy::reference());
        all()
    };
    for (fused, plain) in fused.into_iter().zip(plain) {
        assert_same(fused, plain);
    }
    let site = "linear_divergence::distilled";
    assert_site(site, "linear_divergence");
    assert_site(
        "linear_divergence::Pair::reversed",
        "linear_divergence(shift=bias)",
    );
    let paths = ["fused", "reference: switched off by the policy"];
    assert_paths(site, &paths);
    assert_paths("linear_divergence::Pair::reversed", &paths);
}
