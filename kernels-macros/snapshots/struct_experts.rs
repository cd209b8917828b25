pub struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    gate_up_proj_bias: Param<Tensor<2>>,
    down_proj: Param<Tensor<3>>,
    down_proj_bias: Param<Tensor<2>>,
}
impl Experts {
    /**The experts of a mixture: for each token the sum of its experts' results, weighted by `routing`. An expert computes `down(silu(gate) · up)`; `gate` and `up` are the halves of one projection of the token. Every projection has a bias.

`x` is `[tokens, hidden]`, `indices` and `routing` are `[tokens, k]`; the result is like `x`. An index that is the number of experts is one on another device and adds nothing. The weights are `[experts, out, in]`.

Runs the kernel `npu_fused_moe` (`part = experts`, `experts = stacked`, `activation = silu`, `projections = chunked`, `clamp = none`, `up_offset = 0`, `layout = linear`, `bias = all`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
        indices: ::burn_kernels::__private::burn::tensor::Tensor<
            2usize,
            ::burn_kernels::__private::burn::tensor::Int,
        >,
        routing: ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<2usize> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_moe",
            item : "Experts::forward", path : ::core::option::Option::None, module :
            ::core::module_path!(), krate : "models", crate_version : "1.2.3", file :
            "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Struct,
            key :
            ::burn_kernels::__private::SemanticsKey::MoeExperts(::burn_kernels::__private::MoeExpertsKey
            { activation : ::burn_kernels::__private::Activation::Silu, projections :
            ::burn_kernels::__private::Projections::Chunked, clamp :
            ::burn_kernels::__private::Clamp::None, up_offset :
            ::burn_kernels::__private::Offset::Zero, layout :
            ::burn_kernels::__private::ExpertLayout::Linear, bias :
            ::burn_kernels::__private::ExpertBias::All }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_moe\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Experts::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"moe\",\"part\":\"experts\",\"activation\":\"silu\",\"projections\":\"chunked\",\"clamp\":\"none\",\"up_offset\":\"zero\",\"layout\":\"linear\",\"bias\":\"all\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::experts(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            indices,
            routing,
            ::burn_kernels::__private::StackedExperts::packed(
                    &self.gate_up_proj,
                    &self.down_proj,
                )
                .biases(&[&self.gate_up_proj_bias, &self.down_proj_bias]),
            ::core::option::Option::None,
            &mut |(x, indices, routing)| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x, indices, routing)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_moe` is verified against.
    pub fn forward_reference(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
        indices: ::burn_kernels::__private::burn::tensor::Tensor<
            2usize,
            ::burn_kernels::__private::burn::tensor::Int,
        >,
        routing: ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<2usize> {
        ::burn_kernels::__private::experts_reference(
            x,
            indices,
            routing,
            ::burn_kernels::__private::StackedExperts::packed(
                    &self.gate_up_proj,
                    &self.down_proj,
                )
                .biases(&[&self.gate_up_proj_bias, &self.down_proj_bias]),
            ::core::option::Option::None,
            ::burn_kernels::__private::MoeExpertsKey {
                activation: ::burn_kernels::__private::Activation::Silu,
                projections: ::burn_kernels::__private::Projections::Chunked,
                clamp: ::burn_kernels::__private::Clamp::None,
                up_offset: ::burn_kernels::__private::Offset::Zero,
                layout: ::burn_kernels::__private::ExpertLayout::Linear,
                bias: ::burn_kernels::__private::ExpertBias::All,
            },
        )
    }
}
