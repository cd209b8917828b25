//! Load-balancing losses of batches that several processes share.

use std::fmt;
use std::sync::Arc;

use burn::tensor::Tensor;
use burn_kernels::ops::moe::LoadBalance;

use crate::config::MoeConfig;
use crate::model::causal_lm::CausalLm;

/// The batches that load-balancing losses are of: those that a model sees, or larger ones that these are parts of.
#[derive(Clone, Default)]
pub(crate) struct Balanced(Option<Arc<dyn Fn(LoadBalance) -> LoadBalance + Send + Sync>>);

impl fmt::Debug for Balanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "parts" } else { "whole" })
    }
}

impl Balanced {
    pub(crate) fn loss(
        &self,
        moe: &MoeConfig,
        router_logits: &[Tensor<2>],
        mask: Option<Tensor<1>>,
    ) -> Tensor<1> {
        let (experts, top_k) = (moe.num_experts, moe.num_experts_per_tok);
        let part = LoadBalance::of(router_logits, experts, top_k, mask);
        match &self.0 {
            Some(of_whole) => of_whole(part).loss(),
            None => part.loss(),
        }
    }
}

impl CausalLm {
    /// Returns the model with load-balancing losses of larger batches than it sees. `of_whole` gets the sums over a batch
    /// and returns those that the loss is computed from, such as choices and tokens that were added up over processes. It
    /// is called once for each batch whose losses are computed, if the model has [sparse layers](Self::is_sparse).
    pub fn balanced_by(
        self,
        of_whole: impl Fn(LoadBalance) -> LoadBalance + Send + Sync + 'static,
    ) -> Self {
        let balanced = Balanced(Some(Arc::new(of_whole)));
        Self { balanced, ..self }
    }

    /// Returns `true` if a layer is a mixture of experts.
    pub fn is_sparse(&self) -> bool {
        let config = self.config();
        (0..config.num_hidden_layers).any(|layer| config.is_sparse(layer))
    }
}
