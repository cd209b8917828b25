pub struct Experts {
    experts: Vec<Mlp>,
}
impl Experts {
    /**The experts of a mixture: for each token the sum of its experts' results, weighted by `routing`. An expert computes `down(silu(gate) · up)`; `gate` and `up` are two projections of the token.

`x` is `[tokens, hidden]`, `indices` and `routing` are `[tokens, k]`; the result is like `x`. An index that is the number of experts is one on another device and adds nothing. A kernel runs if all projections are plain `Linear`s; any other layer, such as one with an adapter, is called through its own `forward`.

Runs the kernel `npu_fused_moe` (`part = experts`, `experts = list`, `activation = silu`, `projections = separate`, `clamp = none`, `up_offset = 0`, `layout = matmul`, `bias = none`) where the device has it, else [`Self::forward_reference`].*/
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
            ::burn_kernels::__private::Projections::Separate, clamp :
            ::burn_kernels::__private::Clamp::None, up_offset :
            ::burn_kernels::__private::Offset::Zero, layout :
            ::burn_kernels::__private::ExpertLayout::Matmul, bias :
            ::burn_kernels::__private::ExpertBias::None }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_moe\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Experts::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"moe\",\"part\":\"experts\",\"activation\":\"silu\",\"projections\":\"separate\",\"clamp\":\"none\",\"up_offset\":\"zero\",\"layout\":\"matmul\",\"bias\":\"none\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::experts_list(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            indices,
            routing,
            self.experts.len(),
            &|expert| ::burn_kernels::__private::ListedExpert::separate(
                ::burn_kernels::__private::plain_linear!(& self.experts[expert].w1),
                ::burn_kernels::__private::plain_linear!(& self.experts[expert].up_proj),
                ::burn_kernels::__private::plain_linear!(
                    & self.experts[expert].down_proj
                ),
            ),
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
        ::burn_kernels::__private::experts_list_reference(
            x,
            indices,
            routing,
            self.experts.len(),
            &|expert, x| ::burn_kernels::__private::UnitInputs::Separate {
                gate: self.experts[expert].w1.forward(::core::clone::Clone::clone(&x)),
                up: self.experts[expert].up_proj.forward(x),
            },
            &|expert, hidden| self.experts[expert].down_proj.forward(hidden),
            ::core::option::Option::None,
            ::burn_kernels::__private::MoeExpertsKey {
                activation: ::burn_kernels::__private::Activation::Silu,
                projections: ::burn_kernels::__private::Projections::Separate,
                clamp: ::burn_kernels::__private::Clamp::None,
                up_offset: ::burn_kernels::__private::Offset::Zero,
                layout: ::burn_kernels::__private::ExpertLayout::Matmul,
                bias: ::burn_kernels::__private::ExpertBias::None,
            },
        )
    }
}
