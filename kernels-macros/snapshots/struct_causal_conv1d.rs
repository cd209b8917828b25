/// A short convolution.
#[derive(Module, Debug)]
pub struct ShortConvolution {
    weight: Param<Tensor<2>>,
}
impl ShortConvolution {
    /**Short causal convolution of each channel, `y[t] = silu(Σ_j weight[j] · x[t − K + 1 + j])`.

`x` and the result are `[batch, tokens, channels]`, `weight` is `[channels, K]` with 2 to 8 weights for a channel. `conv_state` has the inputs before the first token, `[sequences, K − 1, channels]`, and the second result the last ones, from which the next call goes on.

Runs the kernel `npu_fused_causal_conv1d` (`activation = silu`, `shift = none`, `state = given`, `lengths = none`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
        conv_state: ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
        ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
    ) {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_causal_conv1d", item : "ShortConvolution::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::CausalConv1d(::burn_kernels::__private::CausalConv1dKey
            { activation : ::burn_kernels::__private::ConvActivation::Silu, shift :
            ::burn_kernels::__private::Shift::None, state :
            ::burn_kernels::__private::InitialState::Given, lengths :
            ::burn_kernels::__private::SequenceLengths::None }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_causal_conv1d\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"ShortConvolution::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"causal_conv1d\",\"activation\":\"silu\",\"shift\":\"none\",\"state\":\"given\",\"lengths\":\"none\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::causal_conv1d_from_state(
            ::burn_kernels::__private::At::new(&SITE),
            [x, conv_state],
            ::burn_kernels::__private::LinearParameters::new(&self.weight),
            ::core::option::Option::None,
            &mut |(x, conv_state)| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x, conv_state)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_causal_conv1d` is verified against.
    pub fn forward_reference(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
        conv_state: ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
        ::burn_kernels::__private::burn::tensor::Tensor<3usize>,
    ) {
        ::burn_kernels::__private::causal_conv1d_from_state_reference(
            [x, conv_state],
            ::burn_kernels::__private::LinearParameters::new(&self.weight),
            ::core::option::Option::None,
            ::burn_kernels::__private::CausalConv1dKey {
                activation: ::burn_kernels::__private::ConvActivation::Silu,
                shift: ::burn_kernels::__private::Shift::None,
                state: ::burn_kernels::__private::InitialState::Given,
                lengths: ::burn_kernels::__private::SequenceLengths::None,
            },
        )
    }
}
