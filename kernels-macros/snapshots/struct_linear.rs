/// A projection.
#[derive(Module, Debug)]
pub struct Projection {
    bias: Param<Tensor<1>>,
    weight: Param<Tensor<2>>,
}
impl Projection {
    /**Linear layer over the last dimension, `y = x · weight + bias`.

`x` is `[.., inputs]`, `weight` is `[inputs, outputs]` and `bias` `[outputs]`; the result is `[.., outputs]` in the dtype of `x`. Half types are summed in `f32` and rounded once.

Runs the kernel `npu_fused_linear` (`layout = input_major`, `shift = bias`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_linear", item : "Projection::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::Linear(::burn_kernels::__private::LinearKey
            { layout : ::burn_kernels::__private::OutputLayout::InputMajor, shift :
            ::burn_kernels::__private::Shift::Bias }), layer :
            ::core::option::Option::Some("Linear"), condition :
            ::core::option::Option::None }, json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_linear\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Projection::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"linear\",\"layout\":\"input_major\",\"shift\":\"bias\"},\"layer\":\"Linear\",\"condition\":null}")
        }
        ::burn_kernels::__private::linear(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            ::burn_kernels::__private::LinearParameters::new(&self.weight)
                .bias(&self.bias)
                .bias_first(),
            &mut |x| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_linear` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::linear_reference(
            x,
            ::burn_kernels::__private::LinearParameters::new(&self.weight)
                .bias(&self.bias)
                .bias_first(),
            ::burn_kernels::__private::LinearKey {
                layout: ::burn_kernels::__private::OutputLayout::InputMajor,
                shift: ::burn_kernels::__private::Shift::Bias,
            },
        )
    }
}
