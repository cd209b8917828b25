pub struct SparseMoeBlock {
    gate: Linear,
    e_score_correction_bias: Param<Tensor<1>>,
    experts: Experts,
    shared_expert: Mlp,
    shared_expert_gate: Linear,
    top_k: usize,
    n_group: usize,
    topk_group: usize,
    routed_scaling_factor: f64,
}
impl SparseMoeBlock {
    /**A sparse block: every token goes to its `top_k` best experts. Scores are the logistic function of the router's logits; the choice, but not the weights, adds a bias to them. A token chooses from the `topk_group` of `n_group` groups of experts whose two best scores have the largest sum. The shared expert's result is multiplied with the logistic function of its gate and added.

`hidden_states` is `[.., hidden]`. The results are one like it, and the router's logits, `[tokens, experts]`. All layers are called through their own `forward`.

Runs the kernel `npu_fused_moe` (`part = block`, `scoring = sigmoid`, `correction = bias`, `grouping = top_two`, `renormalise = none`, `weights = logits`, `shared = gated`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward<const D: usize>(
        &self,
        hidden_states: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<D>,
        ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
    ) {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_moe",
            item : "SparseMoeBlock::forward", path : ::core::option::Option::None, module
            : ::core::module_path!(), krate : "models", crate_version : "1.2.3", file :
            "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Struct,
            key :
            ::burn_kernels::__private::SemanticsKey::MoeBlock(::burn_kernels::__private::MoeBlockKey
            { scoring : ::burn_kernels::__private::Scoring::Sigmoid, correction :
            ::burn_kernels::__private::Correction::Bias, grouping :
            ::burn_kernels::__private::Grouping::TopTwo, renormalise :
            ::burn_kernels::__private::Renormalise::None, weights :
            ::burn_kernels::__private::RouterWeights::Logits, shared :
            ::burn_kernels::__private::SharedExpert::Gated }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_moe\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"SparseMoeBlock::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"moe\",\"part\":\"block\",\"scoring\":\"sigmoid\",\"correction\":\"bias\",\"grouping\":\"top_two\",\"renormalise\":\"none\",\"weights\":\"logits\",\"shared\":\"gated\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::block(
            ::burn_kernels::__private::At::new(&SITE),
            hidden_states,
            ::burn_kernels::__private::Block::new(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(& self.gate);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.gate)).forward(x)
                    },
                    &|x, indices, routing| {
                        let copy = ::burn_kernels::__private::detached!(& self.experts);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.experts)).forward(x, indices, routing)
                    },
                    ::burn_kernels::__private::Count::count(&self.top_k),
                )
                .shared(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(
                            & self.shared_expert
                        );
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.shared_expert)).forward(x)
                    },
                )
                .shared_gate(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(
                            & self.shared_expert_gate
                        );
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.shared_expert_gate)).forward(x)
                    },
                )
                .correction(&self.e_score_correction_bias)
                .groups(
                    ::burn_kernels::__private::Count::count(&self.n_group),
                    ::burn_kernels::__private::Count::count(&self.topk_group),
                )
                .scale(
                    ::burn_kernels::__private::Number::number(
                        &self.routed_scaling_factor,
                    ),
                ),
            &mut |hidden_states| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(hidden_states)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_moe` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        hidden_states: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<D>,
        ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
    ) {
        ::burn_kernels::__private::block_reference(
            hidden_states,
            ::burn_kernels::__private::Block::new(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(& self.gate);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.gate)).forward(x)
                    },
                    &|x, indices, routing| {
                        let copy = ::burn_kernels::__private::detached!(& self.experts);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.experts)).forward(x, indices, routing)
                    },
                    ::burn_kernels::__private::Count::count(&self.top_k),
                )
                .shared(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(
                            & self.shared_expert
                        );
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.shared_expert)).forward(x)
                    },
                )
                .shared_gate(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(
                            & self.shared_expert_gate
                        );
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.shared_expert_gate)).forward(x)
                    },
                )
                .correction(&self.e_score_correction_bias)
                .groups(
                    ::burn_kernels::__private::Count::count(&self.n_group),
                    ::burn_kernels::__private::Count::count(&self.topk_group),
                )
                .scale(
                    ::burn_kernels::__private::Number::number(
                        &self.routed_scaling_factor,
                    ),
                ),
            ::burn_kernels::__private::MoeBlockKey {
                scoring: ::burn_kernels::__private::Scoring::Sigmoid,
                correction: ::burn_kernels::__private::Correction::Bias,
                grouping: ::burn_kernels::__private::Grouping::TopTwo,
                renormalise: ::burn_kernels::__private::Renormalise::None,
                weights: ::burn_kernels::__private::RouterWeights::Logits,
                shared: ::burn_kernels::__private::SharedExpert::Gated,
            },
        )
    }
}
