struct Rotary {
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
}
impl Rotary {
    /**Rotary position embedding of queries and keys: turns the pair `(a, b)` into `(a · cos - b · sin, b · cos + a · sin)`. It pairs element `i` with `i + dim/2`, and rotates whole heads.

`q` is `[batch, heads, seq, dim]` and `k` is `[batch, kv_heads, seq, dim]`; `cos` and `sin` are `[3, batch, seq, dim]`, for time, height and width: the first pairs take the first, as many as its section is long, and so on; they hold every angle twice, as `cat(freqs, freqs)`. The results have the shapes and dtypes of `q` and `k`.

Runs the kernel `npu_fused_rope` (`style = half`, `width = full`, `layout = bnsd`, `table = halves`, `sections = chunked`) where the device has it, else [`Self::rotate_reference`].*/
    #[track_caller]
    fn rotate(
        &self,
        q: ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
        k: ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
        ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
    ) {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_rope", item : "Rotary::rotate", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Struct, key :
            ::burn_kernels::__private::SemanticsKey::Rope(::burn_kernels::__private::RopeKey
            { style : ::burn_kernels::__private::RopeStyle::Half, width :
            ::burn_kernels::__private::RotaryWidth::Full, layout :
            ::burn_kernels::__private::HeadLayout::Bnsd, table :
            ::burn_kernels::__private::TableLayout::Halves, sections :
            ::burn_kernels::__private::Sections::Chunked }), layer :
            ::core::option::Option::None, condition : ::core::option::Option::None },
            json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_rope\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"struct\",\"item\":\"Rotary::rotate\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"rope\",\"style\":\"half\",\"width\":\"full\",\"layout\":\"bnsd\",\"table\":\"halves\",\"sections\":\"chunked\"},\"layer\":null,\"condition\":null}")
        }
        ::burn_kernels::__private::rope_sections(
            ::burn_kernels::__private::At::new(&SITE),
            q,
            k,
            &self.cos,
            &self.sin,
            ::burn_kernels::__private::SectionLengths::lengths(&self.mrope_section),
            &mut |(q, k)| {
                let copy = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy.get(self).rotate_reference(q, k)
            },
        )
    }
    ///The plain computation of [`Self::rotate`], which the kernel `npu_fused_rope` is verified against.
    fn rotate_reference(
        &self,
        q: ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
        k: ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
    ) -> (
        ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
        ::burn_kernels::__private::burn::tensor::Tensor<4usize>,
    ) {
        ::burn_kernels::__private::rope_sections_reference(
            q,
            k,
            &self.cos,
            &self.sin,
            ::burn_kernels::__private::SectionLengths::lengths(&self.mrope_section),
            ::burn_kernels::__private::RopeKey {
                style: ::burn_kernels::__private::RopeStyle::Half,
                width: ::burn_kernels::__private::RotaryWidth::Full,
                layout: ::burn_kernels::__private::HeadLayout::Bnsd,
                table: ::burn_kernels::__private::TableLayout::Halves,
                sections: ::burn_kernels::__private::Sections::Chunked,
            },
        )
    }
}
