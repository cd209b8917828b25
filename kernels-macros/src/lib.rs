//! The attribute of burn-kernels.
//!
//! Use it through that crate, as `burn_kernels::fused_kernel`: the code that it writes calls into
//! `burn_kernels::__private`.
//!
//! An expansion has three steps, each a plain function over `proc_macro2` types: parse (`attr`,
//! `target`), check (`check`, against a kernel's `contract`), `expand`.

mod attr;
mod check;
mod contract;
mod errors;
mod expand;
mod facade;
mod near;
mod order;
mod origin;
mod outline;
mod scan;
mod target;
#[cfg(test)]
mod testing;

use proc_macro2::TokenStream;
use quote::quote;

use origin::Origin;

/// Replaces a forward pass by a fused kernel that is chosen for each device.
///
/// The plain computation stays compiled in, as `<name>_reference`: it runs where no kernel does,
/// and it is what every kernel is verified against, forward and backward. Nothing is added to your
/// struct, so parameters and checkpoint keys keep their names.
///
/// # Forms
///
/// On a **struct** the macro writes `forward` and `forward_reference`, as visible as the struct:
///
/// ```ignore
/// #[fused_kernel("npu_fused_swiglu")]
/// #[derive(Module, Debug)]
/// pub struct LlamaMlp {
///     gate_proj: Linear,
///     up_proj: Linear,
///     down_proj: Linear,
/// }
/// ```
///
/// On an **impl block** it dispatches the method `forward` (or `method = name`), and on a **method**
/// that one; your body becomes the reference. Its operands are its parameters, and the fields that
/// the body reads:
///
/// ```ignore
/// #[fused_kernel("npu_fused_rmsnorm", eps = tiny)]
/// impl MyNorm {
///     pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
///         let mean_square = x.clone().square().mean_dim(D - 1);
///         x / (mean_square + self.tiny).sqrt() * self.weight.val().unsqueeze()
///     }
/// }
/// ```
///
/// On a **free function** the parameters are the operands:
///
/// ```ignore
/// #[fused_kernel("npu_fused_rope", style = half)]
/// pub fn apply_rotary_pos_emb(
///     q: Tensor<4>,
///     k: Tensor<4>,
///     cos: Tensor<2>,
///     sin: Tensor<2>,
/// ) -> (Tensor<4>, Tensor<4>) {
///     let half = q.dims()[3] / 2;
///     let turn = |x: Tensor<4>| {
///         let (a, b) = (
///             x.clone().narrow(3, 0, half),
///             x.clone().narrow(3, half, half),
///         );
///         x * cos.clone().unsqueeze() + Tensor::cat(vec![-b, a], 3) * sin.clone().unsqueeze()
///     };
///     (turn(q), turn(k))
/// }
/// ```
///
/// On an **impl of a trait** it works as on any impl block, but the trait has no room for a
/// `forward_reference`: the plain body stays inside the method, and the policy `none` runs it.
///
/// A block may carry several attributes, each with its own `method = name`, and methods in it
/// attributes of their own. A function of a type that has no `self` is annotated through its impl
/// block; so is every method of a trait's impl.
///
/// # One seed, one model
///
/// Burn initialises a parameter when it is first used, and draws from the device's random generator
/// then. Kernels use a layer's parameters in the order in which your body does; the macro reads it off
/// the body, by Rust's order of evaluation. Without a body it is the order of the fields, with `down`
/// after what it projects, and experts after their router. So one seed gives one model, whether kernels
/// run or not.
///
/// If only the running program can tell (a helper that takes `self`, branches, macros, experts in
/// a list), your body runs before the kernel for as long as a parameter is not initialised. That
/// result is dropped, so a body should do nothing but compute. Two cases have no remedy: in such a
/// body, layers whose type is a parameter without the bound `Module`, and functions that take a
/// value beside the tensors which the body moves. There kernels have an order of their own.
///
/// # Kernels
///
/// Settings say what *your* code computes; the first value is the default. They decide which
/// operands there are. Operands are found under their usual names, or named: `weight = my_field`.
///
/// ## `npu_fused_rmsnorm`
///
/// `x / √(mean(x²) + ε) · (offset + weight)` over the last dimension.
///
/// | setting | values | |
/// |---|---|---|
/// | `offset` | `0`, `1` | what is added to the weight (`1`: Gemma, Qwen3-Next) |
/// | `rounding` | `llama`, `gemma` | half types: to the dtype before the weight, or once at the end |
/// | `scale` | `weight`, `none` | `none`: there is no weight (Llama 4's L2 norm) |
/// | `gating` | `none`, `after_norm`, `before_norm` | `norm(x) · silu(gate)` (Qwen3-Next), `norm(x · silu(gate))` (Mamba 2) |
/// | `groups` | `one`, `many` | `many`: a mean for each `group_size` elements (Zamba 2) |
///
/// | operand | usual names | is | with |
/// |---|---|---|---|
/// | the input | any | a parameter, `Tensor<D>` | |
/// | `gate` | `gate`, `z` | a parameter, `Tensor<D>` | `gating` |
/// | `weight` | `weight`, `gamma`, `scale` | `Param<Tensor<1>>` or `Tensor<1>` | `scale = weight` |
/// | `eps` | `eps`, `epsilon`, `variance_epsilon`, `norm_eps` | `f64` or `f32` | |
/// | `group_size` | `group_size` | `usize` | `groups = many` |
///
/// `offset = 1` excludes `scale = none`.
///
/// ## `npu_fused_swiglu`
///
/// `down(activation(gate(x)) · (up_offset + up(x)))`. A function, or a method that takes these
/// tensors, computes what stands before `down`.
///
/// | setting | values | |
/// |---|---|---|
/// | `activation` | `silu`, `gelu`, `gelu_tanh`, `quick_gelu`, `relu`, `relu2`, `sigmoid`, `identity` | `gelu_tanh`: Gemma; `quick_gelu`, `a · σ(1.702 a)`: gpt-oss |
/// | `projections` | `separate`, `chunked`, `interleaved` | gate and up in two tensors, in the halves of one (Phi 3, GLM-4), or in its even and odd elements (gpt-oss) |
/// | `clamp` | `none`, `limit` | gate to at most `limit`, up to `±limit` (gpt-oss) |
/// | `up_offset` | `0`, `1` | what is added to up (`1`: gpt-oss) |
/// | `topk` | `none`, `gaussian` | Gemma 3n's sparse gate |
///
/// | operand | usual names | is | with |
/// |---|---|---|---|
/// | the input of a layer | any | a parameter, `Tensor<D>` | |
/// | `gate` | `gate_proj`, `gate`, `w1` | a layer; of a function `Tensor<D>` | `projections = separate` |
/// | `up` | `up_proj`, `up`, `w3` | a layer; of a function `Tensor<D>` | `projections = separate` |
/// | `gate_up` | `gate_up_proj`, `gate_up`, `w13` | a layer; of a function `Tensor<D>` | other `projections` |
/// | `down` | `down_proj`, `down`, `w2` | a layer | |
/// | `limit` | `limit`, `swiglu_limit` | `f64` or `f32` | `clamp = limit` |
/// | `sparsity` | `sparsity`, `activation_sparsity` | `f64` or `f32` | `topk = gaussian` |
///
/// A layer is anything with `forward(Tensor<D>) -> Tensor<D>`. It is called through that method, so
/// adapters and quantised layers are never bypassed. `topk = gaussian` excludes packed projections.
///
/// ## `npu_fused_rope`
///
/// Rotates queries and keys: the pair `(a, b)` becomes `(a · cos - b · sin, b · cos + a · sin)`.
///
/// | setting | values | |
/// |---|---|---|
/// | `style` | `half`, `interleaved`, `interleaved_to_half` | pairs `i` with `i + w/2`; `2i` with `2i + 1` (GLM-4, Cohere); the same, written in halves (DeepSeek V3) |
/// | `width` | `full`, `partial` | whole heads, or as much of them as the table is wide (Phi 3, GLM-4) |
/// | `layout` | `bnsd`, `bsnd` | `[batch, heads, seq, dim]` or `[batch, seq, heads, dim]` |
/// | `table` | `halves`, `neighbours`, `pairs` | each angle twice, as `cat(freqs, freqs)`; twice in a row (Cohere); once |
/// | `sections` | `none`, `chunked`, `interleaved` | three positions a token, in sections (Qwen2.5-VL) or in turn (Qwen3-VL) |
///
/// | operand | usual names | is | with |
/// |---|---|---|---|
/// | `q` | `q`, `query`, `query_states` | a parameter, `Tensor<4>` | |
/// | `k` | `k`, `key`, `key_states` | a parameter, `Tensor<4>` | |
/// | `cos`, `sin` | `cos`, `sin` | `Tensor<2>`, `<3>` or `<4>`; `Tensor<4>` with `sections` | |
/// | `mrope_section` | `mrope_section`, `sections` | `[usize; 3]`, `Vec<usize>` or `&[usize]`, in pairs | `sections` |
///
/// `table = neighbours` needs `style = interleaved`; `sections` need `style = half` and
/// `table = halves`.
///
/// ## `npu_fused_moe`
///
/// Mixtures of experts. `part = experts`, the default, is the experts of a layer: for each token the
/// weighted sum of its experts' `down(activation(gate(x)) · (up_offset + up(x)))`. `part = block` is
/// the layer around them, with its router and perhaps a shared expert.
///
/// ```ignore
/// #[fused_kernel("npu_fused_moe")]
/// #[derive(Module, Debug)]
/// pub struct Qwen3MoeExperts {
///     gate_up_proj: Param<Tensor<3>>,
///     down_proj: Param<Tensor<3>>,
/// }
///
/// #[fused_kernel("npu_fused_moe", part = block, renormalise = sum)]
/// #[derive(Module, Debug)]
/// pub struct Qwen3MoeBlock {
///     gate: Linear,
///     experts: Qwen3MoeExperts,
///     top_k: usize,
/// }
/// ```
///
/// ### Experts
///
/// `forward(x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2>`, of tokens
/// `[tokens, hidden]`, the experts of each, `[tokens, k]`, and their weights.
///
/// | setting | values | |
/// |---|---|---|
/// | `experts` | `stacked`, `list` | all experts' weights in one tensor a projection, or a layer for each in a list |
/// | `activation`, `clamp`, `up_offset` | as of `npu_fused_swiglu` | |
/// | `projections` | `chunked`, `interleaved`, `separate` | gate and up in the halves of one weight (Qwen, Mixtral), in its even and odd features (gpt-oss), or in two |
/// | `layout` | `linear`, `matmul` | `[experts, out, in]`, or `[experts, in, out]` (gpt-oss, Llama 4); of a list always `matmul` |
/// | `bias` | `none`, `all` | whether every projection has one (gpt-oss) |
///
/// | operand | usual names | is | with |
/// |---|---|---|---|
/// | `x` | `x`, `hidden_states`, `hidden`, `tokens` | a parameter, `Tensor<2>` | |
/// | `indices` | `indices`, `selected_experts`, `expert_indices`, `top_k_index`, `topk_indices` | a parameter, `Tensor<2, Int>` | |
/// | `routing` | `routing`, `routing_weights`, `top_k_weights`, `topk_weights` | a parameter, `Tensor<2>` | |
/// | `gate_up` | `gate_up_proj`, `gate_up`, `w13` | `Param<Tensor<3>>` or `Tensor<3>` | packed `projections` |
/// | `gate`, `up` | `gate_proj`, `gate`, `w1`; `up_proj`, `up`, `w3` | the same | `projections = separate` |
/// | `down` | `down_proj`, `down`, `w2` | the same | |
/// | `gate_up_bias`, `gate_bias`, `up_bias`, `down_bias` | those, or with `_proj_bias` | `Param<Tensor<2>>` or `Tensor<2>` | `bias = all` |
/// | `num_experts` | `num_experts`, `n_routed_experts`, `num_local_experts` | `usize`, compared with the weights | if there |
/// | `limit` | `limit`, `swiglu_limit` | `f64` or `f32` | `clamp = limit` |
///
/// With `experts = list` the experts are a field `experts` (or `list = name`), a `Vec` or an array, or
/// a parameter `&[Mlp]`. `gate`, `up`, `down` and `gate_up` then name layers that each element has:
/// `gate_proj`, `up_proj`, `down_proj` and `gate_up_proj` if nothing is said. A kernel reads the
/// weights of Burn's `Linear` where they are floats without an adapter. If a single projection is
/// anything else (quantised, with an adapter, a type of your own, a type parameter) the reference
/// runs, through the layers' own `forward`, and the report says so.
///
/// ### Blocks
///
/// `forward(hidden_states: Tensor<D>) -> (Tensor<D>, Tensor<2>)`: the output and the router's logits,
/// `[tokens, experts]`, which a load balancing loss takes. The kernel is the router's; experts and
/// shared expert are called through their own `forward` and have kernels of their own. There is no
/// form of a free function.
///
/// | setting | values | |
/// |---|---|---|
/// | `scoring` | `softmax`, `sigmoid`, `softmax_of_chosen` | over all experts; each for itself (DeepSeek-V3); over the chosen ones (gpt-oss) |
/// | `correction` | `none`, `bias` | what the choice, but not the weights, adds to the scores (DeepSeek-V3) |
/// | `grouping` | `none`, `max`, `top_two` | a choice from the groups with the best expert (DeepSeek-V2), or with the best two (V3) |
/// | `renormalise` | `none`, `sum` | `sum`: the weights of a token sum to one (Qwen3-MoE, Mixtral) |
/// | `weights` | `logits`, `wide` | the dtype of the weights: that of the logits, or f32 (Mixtral) |
/// | `shared` | `none`, `plain`, `gated` | an expert for every token (DeepSeek), with a gate of its own (Qwen2-MoE) |
///
/// | operand | usual names | is | with |
/// |---|---|---|---|
/// | the input | any | a parameter, `Tensor<D>` | |
/// | `gate` | `gate`, `router` | a layer | |
/// | `experts` | `experts` | a layer with the `forward` of experts | |
/// | `top_k` | `top_k`, `num_experts_per_tok` | `usize` | |
/// | `num_experts` | `num_experts`, `n_routed_experts`, `num_local_experts` | `usize`, compared with the logits | if there |
/// | `shared_expert` | `shared_expert`, `shared_experts` | a layer | `shared` |
/// | `shared_expert_gate` | `shared_expert_gate` | a layer, one number a token | `shared = gated` |
/// | `e_score_correction_bias` | that, `correction_bias` | `Param<Tensor<1>>` or `Tensor<1>` | `correction` |
/// | `n_group`, `topk_group` | those | `usize` | `grouping` |
/// | `routed_scaling_factor` | that | `f64` or `f32`, multiplies the weights | if there |
///
/// `scoring = softmax_of_chosen` excludes `correction`, `renormalise` and `grouping = top_two`.
///
/// ## Kernels of other crates
///
/// A kernel of another crate is named by the path of its module, on an impl block, a method or a
/// function. Its operands are all parameters, and the fields that arguments name:
///
/// ```ignore
/// #[fused_kernel(acme::soft_cap, cap = limit)]
/// impl Head {
///     pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
///         (x / self.limit).tanh() * self.limit
///     }
/// }
/// ```
///
/// The module has `ID: &str`, `KEY: CustomKey` and a struct `Operands` with public fields, here `x`
/// and `cap`; see `burn_kernels::kernel`. A parameter goes to the field of its name, or to another
/// one: `x = logits`. Fields of `self` and parameters by reference are cloned.
///
/// # Arguments of every kernel
///
/// * `method = name`: the generated method of a struct, or the dispatched method of an impl block;
///   `forward` by default.
/// * `layer = "RMSNorm"`: a name for the site, by which mappings choose its kernel.
/// * `when = expression`: a condition, evaluated at each call before anything else. If it is false,
///   the reference runs. It may use `self` and the parameters; what it reads may differ between
///   instances, and the body may branch on it:
///
/// ```ignore
/// #[fused_kernel("npu_fused_swiglu", when = self.act == Act::Silu)]
/// impl Mlp {
///     fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
///         let gate = self.gate_proj.forward(x.clone());
///         let gate = match self.act {
///             Act::Silu => silu(gate),
///             Act::Gelu => gelu(gate),
///         };
///         self.down_proj.forward(gate * self.up_proj.forward(x))
///     }
/// }
/// ```
///
/// * `crate = path`: where `burn_kernels` is, if you re-export it. A dependency that `Cargo.toml`
///   renames is found without it.
///
/// # What is refused
///
/// All errors of an item come at once, each at its token, and say what to write. Beside misspelled
/// and missing things these are:
///
/// * settings that no computation has together, and operands that the settings don't bring;
/// * a field, parameter or `self.field` in a body that the kernel would ignore, such as a dropout or
///   a bias: its effect would be lost. A condition that mentions it accounts for it;
/// * names and calls that tell another computation: a struct `LayerNorm`, a function `geglu` with
///   `activation = silu`, a body that calls `gelu` under it.
///
/// The macro sees tokens, not types: it follows neither `self` into other functions nor what a name
/// stands for. What only the types say, rustc reports, at the same tokens. Live verification compares
/// the body itself with the kernel. An item in error stays as it was written, and the generated
/// functions keep their signatures.
///
/// # What stays where
///
/// Generics, bounds, visibility, docs, derives, `cfg` and all other attributes stay on your item, in
/// any order. Of a function's attributes the reference gets those that must hold for its body:
/// lint levels, `cfg`, `inline`, `cold`, `must_use`, `track_caller`, `target_feature`, `deprecated`
/// and `doc(hidden)`. All others, attribute macros such as `#[tracing::instrument]` among them, stay
/// on the dispatched function alone, so that they act once.
#[proc_macro_attribute]
pub fn fused_kernel(
    attribute: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    run(attribute.into(), item.into(), &Origin::of_expansion()).into()
}

/// Parse, check, expand. On an error the item stays as it was written, and what would have been
/// generated has its signatures, so that the rest of the user's code (and the editor) finds both.
fn run(attribute: TokenStream, item: TokenStream, origin: &Origin) -> TokenStream {
    try_run(attribute.clone(), item.clone(), origin).unwrap_or_else(|error| {
        let errors = error.into_compile_error();
        let outline = outline::of(attribute, item.clone());
        quote!(#item #outline #errors)
    })
}

fn try_run(attribute: TokenStream, item: TokenStream, origin: &Origin) -> syn::Result<TokenStream> {
    let mut errors = errors::Errors::default();
    let attribute = attr::parse(attribute, &mut errors);
    let target = errors.keep(target::parse(item));
    let form = attribute
        .zip(target)
        .and_then(|(attribute, target)| check::check(&attribute, target, &mut errors));
    let form = errors.finish(form)?;
    Ok(expand::expand(form, origin))
}
