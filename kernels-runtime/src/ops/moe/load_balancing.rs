use super::top_k::top_k;
use crate::ops::{compute_dtype, same_dtype_as};
use burn::tensor::{DType, IndexingUpdateOp, Tensor, activation::softmax};

/// Computes the load balancing loss of Switch Transformer (Fedus et al., arXiv:2101.03961, equations 4 to
/// 6) over the layers of a model: `E · Σₑ fₑ · Pₑ`. `fₑ` is the number of times that a token chose
/// expert `e` among its `top_k`, and `Pₑ` is the sum of the softmax probabilities of `e`, both
/// divided by the number of tokens of all layers. This is the `load_balancing_loss_func` of Hugging
/// Face transformers. It is `top_k` if experts are used evenly, and larger if not.
///
/// `logits` has one tensor `[tokens, num_experts]` for each layer. `mask` is `[tokens]`, 1 for a token that
/// counts and 0 for padding; all layers share it. The result is one number in f32 (f64
/// for f64 logits), with a gradient for the logits through `Pₑ`.
///
/// On half types, the probabilities are rounded to the logits' dtype before they are added, as in
/// transformers. The choice is made among the logits, with the lower index first where they are equal, as
/// routers choose. If no token counts, the result is NaN.
///
/// # Panics
/// Panics if there is no layer, if a layer has another number of experts, if `mask` has another number of tokens, or
/// if `top_k` is 0 or larger than `num_experts`.
#[track_caller]
pub fn load_balancing_loss(
    logits: &[Tensor<2>],
    num_experts: usize,
    top_k: usize,
    mask: Option<Tensor<1>>,
) -> Tensor<1> {
    LoadBalance::of(logits, num_experts, top_k, mask).loss()
}

#[track_caller]
fn check(layer: &Tensor<2>, num_experts: usize, top_k: usize, mask: Option<&Tensor<1>>) {
    let [tokens, experts] = layer.dims();
    assert!(
        experts == num_experts,
        "load_balancing_loss: router logits are [{tokens}, {experts}], but there are {num_experts} \
         experts"
    );
    assert!(
        (1..=num_experts).contains(&top_k),
        "load_balancing_loss: a token can't choose {top_k} of {num_experts} experts"
    );
    if let Some([masked]) = mask.map(Tensor::dims) {
        assert!(
            masked == tokens,
            "load_balancing_loss: the mask has {masked} tokens, but router logits are \
             [{tokens}, {experts}]; flatten a mask of [batch, sequence]"
        );
    }
}

/// What the [load balancing loss](load_balancing_loss) is computed from: sums over tokens and layers. Processes that share
/// a batch add theirs up.
#[derive(Clone, Debug)]
pub struct LoadBalance {
    /// The number of times that each expert was chosen, `[num_experts]`.
    pub choices: Tensor<1>,
    /// The sum of each expert's probabilities, `[num_experts]`, with a gradient.
    pub probabilities: Tensor<1>,
    /// The number of tokens that count, `[1]`.
    pub tokens: Tensor<1>,
}

impl LoadBalance {
    /// Sums over tokens and layers; the arguments are those of [`load_balancing_loss`]. The sums are in f32 (f64 for f64
    /// logits).
    ///
    /// # Panics
    /// Panics as `load_balancing_loss` does.
    #[track_caller]
    pub fn of(
        logits: &[Tensor<2>],
        num_experts: usize,
        top_k: usize,
        mask: Option<Tensor<1>>,
    ) -> Self {
        assert!(
            !logits.is_empty(),
            "load_balancing_loss: there are no router logits; leave the loss out of a model without \
             sparse layers"
        );
        for layer in logits {
            check(layer, num_experts, top_k, mask.as_ref());
        }
        let layers = logits
            .iter()
            .map(|layer| layer_sums(layer.clone(), top_k, mask.clone()));
        layers.reduce(Self::plus).expect("there is a layer")
    }

    /// Returns the loss, `E · Σₑ fₑ · Pₑ`, `[1]`.
    pub fn loss(self) -> Tensor<1> {
        let [num_experts] = self.choices.dims();
        let products = (self.choices / self.tokens.clone()) * (self.probabilities / self.tokens);
        products.sum().mul_scalar(num_experts as f64)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            choices: self.choices + other.choices,
            probabilities: self.probabilities + other.probabilities,
            tokens: self.tokens + other.tokens,
        }
    }
}

fn layer_sums(logits: Tensor<2>, k: usize, mask: Option<Tensor<1>>) -> LoadBalance {
    let (dtype, device) = (logits.dtype(), logits.device());
    let compute = compute_dtype(dtype);
    let [tokens, experts] = logits.dims();
    let weight = match mask {
        Some(mask) => same_dtype_as(mask, compute),
        None => Tensor::ones([tokens], (&device, compute)),
    };
    let zeros = |count| Tensor::<1>::zeros([count], (&device, compute));
    if tokens == 0 {
        return LoadBalance {
            choices: zeros(experts),
            probabilities: zeros(experts),
            tokens: zeros(1),
        };
    }
    let chosen = top_k(logits.clone(), None, k).reshape([tokens * k]);
    let each: Tensor<2> = weight.clone().unsqueeze_dim(1);
    let per_choice = each.clone().expand([tokens, k]).reshape([tokens * k]);
    LoadBalance {
        choices: zeros(experts).scatter(0, chosen, per_choice, IndexingUpdateOp::Add),
        probabilities: (probabilities(logits, dtype, compute) * each)
            .sum_dim(0)
            .reshape([experts]),
        tokens: weight.sum(),
    }
}

/// Returns the softmax, rounded to `dtype`.
fn probabilities(logits: Tensor<2>, dtype: DType, compute: DType) -> Tensor<2> {
    let exact = softmax(same_dtype_as(logits, compute), 1);
    same_dtype_as(same_dtype_as(exact, dtype), compute)
}
