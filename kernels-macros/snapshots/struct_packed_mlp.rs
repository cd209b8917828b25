#[derive(Module, Debug)]
struct Experts<L>
where
    L: Layer,
{
    gate_up_proj: L,
    down_proj: L,
    limit: f64,
    fast: bool,
}
impl<L> Experts<L>
where
    L: Layer,
{
    /**The gated MLP, `down(quick_gelu(gate) · (1 + up))`, where `quick_gelu(a) = a · σ(1.702 a)`. `gate` and `up` are the even and odd elements of `gate_up(x)`. Before, `gate` is clamped to at most `limit`, `up` to `±limit`.

`x` is `[.., d]`; the result is what `down` makes of `[.., hidden]`. The projections are the layers of this struct, called through their own `forward`.

Runs the kernel `npu_fused_swiglu` (`activation = quick_gelu`, `projections = interleaved`, `clamp = limit`, `up_offset = 1`, `topk = none`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_swiglu", item : "Experts::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::Glu(::burn_kernels::__private::GluKey
            { activation : ::burn_kernels::__private::Activation::QuickGelu, projections
            : ::burn_kernels::__private::Projections::Interleaved, clamp :
            ::burn_kernels::__private::Clamp::Limit, up_offset :
            ::burn_kernels::__private::Offset::One, topk :
            ::burn_kernels::__private::TopK::None }), layer :
            ::core::option::Option::None, condition :
            ::core::option::Option::Some("self . fast") }, json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_swiglu\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Experts::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"glu\",\"activation\":\"quick_gelu\",\"projections\":\"interleaved\",\"clamp\":\"limit\",\"up_offset\":\"one\",\"topk\":\"none\"},\"layer\":null,\"condition\":\"self . fast\"}")
        }
        ::burn_kernels::__private::glu_packed_mlp(
            ::burn_kernels::__private::At::when(&SITE, self.fast),
            x,
            &|x| ::burn_kernels::__private::layer_output::<
                D,
                _,
            >({
                let copy = ::burn_kernels::__private::detached!(& self.gate_up_proj);
                ::burn_kernels::__private::begin();
                (*copy.get(&self.gate_up_proj))
                    .forward(::burn_kernels::__private::layer_input(x))
            }),
            &|hidden| ::burn_kernels::__private::layer_output::<
                D,
                _,
            >({
                let copy = ::burn_kernels::__private::detached!(& self.down_proj);
                ::burn_kernels::__private::begin();
                (*copy.get(&self.down_proj))
                    .forward(::burn_kernels::__private::layer_input(hidden))
            }),
            ::core::option::Option::Some(
                ::burn_kernels::__private::Number::number(&self.limit),
            ),
            &mut |x| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_swiglu` is verified against.
    fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::layer_output::<
            D,
            _,
        >(
            self
                .down_proj
                .forward(
                    ::burn_kernels::__private::layer_input(
                        ::burn_kernels::__private::glu_packed_reference(
                            ::burn_kernels::__private::layer_output::<
                                D,
                                _,
                            >(
                                self
                                    .gate_up_proj
                                    .forward(::burn_kernels::__private::layer_input(x)),
                            ),
                            ::core::option::Option::Some(
                                ::burn_kernels::__private::Number::number(&self.limit),
                            ),
                            ::burn_kernels::__private::GluKey {
                                activation: ::burn_kernels::__private::Activation::QuickGelu,
                                projections: ::burn_kernels::__private::Projections::Interleaved,
                                clamp: ::burn_kernels::__private::Clamp::Limit,
                                up_offset: ::burn_kernels::__private::Offset::One,
                                topk: ::burn_kernels::__private::TopK::None,
                            },
                        ),
                    ),
                ),
        )
    }
}
