struct Attention {
    o_proj: Linear,
    k_proj: Linear,
    k_norm: RmsNorm,
    q_proj: Linear,
    v_proj: Linear,
    rotary: RotaryEncoding,
    sinks: Param<Tensor<1>>,
    num_heads: usize,
    num_key_value_heads: usize,
}
impl Attention {
    /**Self-attention with its projections, `o(softmax(scale · q·kᵀ) · v)`. A query sees the key at its own position and all before it. Each head's sink takes part in the sum of the softmax.

`x` is `[.., positions, width]`, and the result is what `o` makes of `[.., positions, num_heads · value_width]`. `q(x)` is split into `num_heads` heads, `k(x)` and `v(x)` into `num_kv_heads`, which divides `num_heads`. Norms of `q` and `k` run on the heads, `[batch, positions, heads, head_width]`, and the rotation after them on `[batch, heads, positions, head_width]`. All are the layers of this struct, called through their own `forward`.

Runs the kernel `npu_fused_attention` (`part = layer`, `mask = causal`, `window = none`, `bias = none`, `cap = none`, `sink = learned`, `lengths = none`, `layout = bsnd`) where the device has it, else [`Self::forward_reference`].*/
    #[track_caller]
    fn forward<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_attention", item : "Attention::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::Attention(::burn_kernels::__private::AttentionKey
            { mask : ::burn_kernels::__private::AttentionMask::Causal, window :
            ::burn_kernels::__private::AttentionWindow::None, bias :
            ::burn_kernels::__private::AttentionBias::None, cap :
            ::burn_kernels::__private::ScoreCap::None, sink :
            ::burn_kernels::__private::Sinks::Learned, lengths :
            ::burn_kernels::__private::SequenceLengths::None, layout :
            ::burn_kernels::__private::HeadLayout::Bsnd }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_attention\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Attention::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"attention\",\"mask\":\"causal\",\"window\":\"none\",\"bias\":\"none\",\"cap\":\"none\",\"sink\":\"learned\",\"lengths\":\"none\",\"layout\":\"bsnd\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::attention_layer(
            ::burn_kernels::__private::At::new(&SITE),
            x,
            ::burn_kernels::__private::AttentionLayer::new(
                    [
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.q_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.q_proj)).forward(x)
                        },
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.k_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.k_proj)).forward(x)
                        },
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.v_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.v_proj)).forward(x)
                        },
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.o_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.o_proj)).forward(x)
                        },
                    ],
                    ::burn_kernels::__private::Count::count(&self.num_heads),
                    ::burn_kernels::__private::AttentionSettings {
                        scale: ::core::option::Option::None,
                        prefix: ::core::option::Option::None,
                        window: ::core::option::Option::None,
                        cap: ::core::option::Option::None,
                        offset: ::core::option::Option::None,
                    },
                )
                .kv_heads(
                    ::burn_kernels::__private::Count::count(&self.num_key_value_heads),
                )
                .k_norm(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(& self.k_norm);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.k_norm)).forward(x)
                    },
                )
                .rotary(
                    &|q, k| {
                        let copy = ::burn_kernels::__private::detached!(& self.rotary);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.rotary)).forward(q, k)
                    },
                )
                .sinks(
                    &|| {
                        let copy = ::burn_kernels::__private::detached!(& self.sinks);
                        ::burn_kernels::__private::begin();
                        ::core::option::Option::Some(
                            ::burn_kernels::__private::SinkScores::sink_scores(
                                copy.get(&self.sinks),
                            ),
                        )
                    },
                )
                .first_used(
                    &[
                        ::burn_kernels::__private::AttentionPart::Key,
                        ::burn_kernels::__private::AttentionPart::KeyNorm,
                        ::burn_kernels::__private::AttentionPart::Query,
                        ::burn_kernels::__private::AttentionPart::Value,
                        ::burn_kernels::__private::AttentionPart::Rotary,
                        ::burn_kernels::__private::AttentionPart::Sinks,
                        ::burn_kernels::__private::AttentionPart::Output,
                    ],
                ),
            &mut |x| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).forward_reference(x)
            },
        )
    }
    ///The plain computation of [`Self::forward`], which the kernel `npu_fused_attention` is verified against.
    fn forward_reference<const D: usize>(
        &self,
        x: ::burn_kernels::__private::burn::tensor::Tensor<D>,
    ) -> ::burn_kernels::__private::burn::tensor::Tensor<D> {
        ::burn_kernels::__private::attention_layer_reference(
            x,
            ::burn_kernels::__private::AttentionLayer::new(
                    [
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.q_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.q_proj)).forward(x)
                        },
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.k_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.k_proj)).forward(x)
                        },
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.v_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.v_proj)).forward(x)
                        },
                        &|x| {
                            let copy = ::burn_kernels::__private::detached!(
                                & self.o_proj
                            );
                            ::burn_kernels::__private::begin();
                            (*copy.get(&self.o_proj)).forward(x)
                        },
                    ],
                    ::burn_kernels::__private::Count::count(&self.num_heads),
                    ::burn_kernels::__private::AttentionSettings {
                        scale: ::core::option::Option::None,
                        prefix: ::core::option::Option::None,
                        window: ::core::option::Option::None,
                        cap: ::core::option::Option::None,
                        offset: ::core::option::Option::None,
                    },
                )
                .kv_heads(
                    ::burn_kernels::__private::Count::count(&self.num_key_value_heads),
                )
                .k_norm(
                    &|x| {
                        let copy = ::burn_kernels::__private::detached!(& self.k_norm);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.k_norm)).forward(x)
                    },
                )
                .rotary(
                    &|q, k| {
                        let copy = ::burn_kernels::__private::detached!(& self.rotary);
                        ::burn_kernels::__private::begin();
                        (*copy.get(&self.rotary)).forward(q, k)
                    },
                )
                .sinks(
                    &|| {
                        let copy = ::burn_kernels::__private::detached!(& self.sinks);
                        ::burn_kernels::__private::begin();
                        ::core::option::Option::Some(
                            ::burn_kernels::__private::SinkScores::sink_scores(
                                copy.get(&self.sinks),
                            ),
                        )
                    },
                )
                .first_used(
                    &[
                        ::burn_kernels::__private::AttentionPart::Key,
                        ::burn_kernels::__private::AttentionPart::KeyNorm,
                        ::burn_kernels::__private::AttentionPart::Query,
                        ::burn_kernels::__private::AttentionPart::Value,
                        ::burn_kernels::__private::AttentionPart::Rotary,
                        ::burn_kernels::__private::AttentionPart::Sinks,
                        ::burn_kernels::__private::AttentionPart::Output,
                    ],
                ),
            ::burn_kernels::__private::AttentionKey {
                mask: ::burn_kernels::__private::AttentionMask::Causal,
                window: ::burn_kernels::__private::AttentionWindow::None,
                bias: ::burn_kernels::__private::AttentionBias::None,
                cap: ::burn_kernels::__private::ScoreCap::None,
                sink: ::burn_kernels::__private::Sinks::Learned,
                lengths: ::burn_kernels::__private::SequenceLengths::None,
                layout: ::burn_kernels::__private::HeadLayout::Bsnd,
            },
        )
    }
}
