impl Block {
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        ::burn_kernels::__private::declare_site! {
            static SITE = { kernel : "npu_fused_moe", item : "Block::forward", form :
            Form::Impl, key : SemanticsKey::MoeBlock(MoeBlockKey { scoring :
            Scoring::Softmax, correction : Correction::None, grouping : Grouping::None,
            renormalise : Renormalise::None, weights : RouterWeights::Logits, shared :
            SharedExpert::Plain }), key_json :
            "{\"op\":\"moe\",\"part\":\"block\",\"scoring\":\"softmax\",\"correction\":\"none\",\"grouping\":\"none\",\"renormalise\":\"none\",\"weights\":\"logits\",\"shared\":\"plain\"}",
            layer : ::core::option::Option::None }
        }
        ::burn_kernels::__private::block(
            ::burn_kernels::__private::At::when(&SITE, self.fast),
            x,
            ::burn_kernels::__private::Block::new(
                    &|x| self.router.forward(x),
                    &|x, indices, routing| self.experts.forward(x, indices, routing),
                    ::burn_kernels::__private::Count::count(&self.top_k),
                )
                .shared(&|x| self.shared_experts.forward(x)),
            |x| self.forward_reference::<D>(x),
        )
    }
    /// The plain computation of [`Self::forward`], which the kernel `npu_fused_moe` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        x: Tensor<D>,
    ) -> (Tensor<D>, Tensor<2>) {
        let logits = self.router.forward(x);
        let shared = self.shared_experts.forward(x);
        let y = self.experts.forward(x, choose(logits, self.top_k));
        (y + shared, logits)
    }
}
