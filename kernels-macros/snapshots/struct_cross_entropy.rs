/// A loss.
#[derive(Module, Debug)]
pub struct Loss {
    smoothing: f64,
    final_logit_softcapping: f64,
}
impl Loss {
    /**Cross-entropy of `logits`, `[tokens, classes]`.

`targets` holds the class of each token, `[tokens]`, or the ignored index, -100 by default. Ignored tokens have the loss 0 and no gradient. Logits become `softcap · tanh(logit / softcap)` first.

The result is the mean over the tokens that are not ignored, `[1]`; it is NaN if all are. It is computed in `f32` (`f64` for `f64`), and is of that type.

Runs the kernel `npu_fused_cross_entropy` (`reduction = mean`, `cap = tanh`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    pub fn forward(
        &self,
        logits: ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
        targets: ::burn_kernels::__private::burn::tensor::Tensor<
            1usize,
            ::burn_kernels::__private::burn::tensor::Int,
        >,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<1usize> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_cross_entropy", item : "Loss::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::CrossEntropy(::burn_kernels::__private::CrossEntropyKey
            { reduction : ::burn_kernels::__private::LossReduction::Mean, cap :
            ::burn_kernels::__private::LogitCap::Tanh }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_cross_entropy\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Loss::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"cross_entropy\",\"reduction\":\"mean\",\"cap\":\"tanh\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::cross_entropy(
            ::burn_kernels::__private::At::new(&SITE),
            logits,
            targets,
            ::burn_kernels::__private::LossNumbers {
                ignore_index: ::core::option::Option::Some(
                    ::burn_kernels::__private::Integer::integer(&(-1 as i64)),
                ),
                label_smoothing: ::core::option::Option::Some(
                    ::burn_kernels::__private::Number::number(&self.smoothing),
                ),
                cap: ::core::option::Option::Some(
                    ::burn_kernels::__private::Number::number(
                        &self.final_logit_softcapping,
                    ),
                ),
                z_loss: ::core::option::Option::None,
            },
            &mut |(logits, targets)| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(logits, targets)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_cross_entropy` is verified against.
    pub fn forward_reference(
        &self,
        logits: ::burn_kernels::__private::burn::tensor::Tensor<2usize>,
        targets: ::burn_kernels::__private::burn::tensor::Tensor<
            1usize,
            ::burn_kernels::__private::burn::tensor::Int,
        >,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<1usize> {
        ::burn_kernels::__private::cross_entropy_reference(
            logits,
            targets,
            ::burn_kernels::__private::LossNumbers {
                ignore_index: ::core::option::Option::Some(
                    ::burn_kernels::__private::Integer::integer(&(-1 as i64)),
                ),
                label_smoothing: ::core::option::Option::Some(
                    ::burn_kernels::__private::Number::number(&self.smoothing),
                ),
                cap: ::core::option::Option::Some(
                    ::burn_kernels::__private::Number::number(
                        &self.final_logit_softcapping,
                    ),
                ),
                z_loss: ::core::option::Option::None,
            },
            ::burn_kernels::__private::CrossEntropyKey {
                reduction: ::burn_kernels::__private::LossReduction::Mean,
                cap: ::burn_kernels::__private::LogitCap::Tanh,
            },
        )
    }
}
