impl Block {
    #[track_caller]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_moe",
            item : "Block::forward", path : ::core::option::Option::None, module :
            ::core::module_path!(), krate : "models", crate_version : "1.2.3", file :
            "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Impl, key
            :
            ::burn_kernels::__private::SemanticsKey::MoeBlock(::burn_kernels::__private::MoeBlockKey
            { scoring : ::burn_kernels::__private::Scoring::Softmax, correction :
            ::burn_kernels::__private::Correction::None, grouping :
            ::burn_kernels::__private::Grouping::None, renormalise :
            ::burn_kernels::__private::Renormalise::None, weights :
            ::burn_kernels::__private::RouterWeights::Logits, shared :
            ::burn_kernels::__private::SharedExpert::Plain }), layer :
            ::core::option::Option::None, condition :
            ::core::option::Option::Some("self . fast") }, json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_moe\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"impl\",\"item\":\"Block::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"moe\",\"part\":\"block\",\"scoring\":\"softmax\",\"correction\":\"none\",\"grouping\":\"none\",\"renormalise\":\"none\",\"weights\":\"logits\",\"shared\":\"plain\"},\"layer\":null,\"condition\":\"self . fast\"}")
        }
        ::burn_kernels::__private::block(
            ::burn_kernels::__private::At::when(&SITE, self.fast).instance(&|| ()),
            x,
            ::burn_kernels::__private::Block::new(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(& self.router);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.router)).forward(x)
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
                            & self.shared_experts
                        );
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.shared_experts)).forward(x)
                    },
                )
                .first_used(
                    &[
                        ::burn_kernels::__private::Part::Router,
                        ::burn_kernels::__private::Part::Shared,
                        ::burn_kernels::__private::Part::Experts,
                    ],
                ),
            &mut |x| {
                let copy_of_self = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy_of_self.get(self).forward_reference::<D>(x)
            },
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
