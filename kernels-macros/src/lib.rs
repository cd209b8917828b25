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
mod outline;
mod scan;
mod target;
#[cfg(test)]
mod testing;

use proc_macro2::TokenStream;
use quote::quote;

/// Replaces a forward pass by a fused kernel that is chosen for each device.
///
/// The plain computation stays compiled in, as `<name>_reference`: it runs where no kernel does,
/// and it is what every kernel is verified against, forward and backward. Nothing is added to your
/// struct, so parameters and checkpoint keys keep their names.
///
/// # Three forms
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
/// On an **impl block** it dispatches the method `forward` (or `method = name`), and on a
/// **method** that one; your body becomes the reference. The fields are those that the body reads;
/// one that the kernel does not read, such as a dropout, is an error, because it would be lost:
///
/// ```ignore
/// #[fused_kernel("npu_fused_rmsnorm", eps = tiny)]
/// impl MyNorm {
///     pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
///         let variance = x.clone().square().mean_dim(D - 1);
///         x / (variance + self.tiny).sqrt() * self.weight.val().unsqueeze()
///     }
/// }
/// ```
///
/// On a **free function** the parameters are the operands. A function of a type that has no `self`
/// is annotated through its impl block:
///
/// ```ignore
/// #[fused_kernel("npu_fused_rope", style = half)]
/// pub fn apply_rotary_pos_emb(
///     q: Tensor<4>,
///     k: Tensor<4>,
///     cos: Tensor<3>,
///     sin: Tensor<3>,
/// ) -> (Tensor<4>, Tensor<4>) {
///     /* your composition */
/// }
/// ```
///
/// # Kernels
///
/// | id | computes | operands (usual names) | parameters of the maths |
/// |---|---|---|---|
/// | `npu_fused_rmsnorm` | `x / √(mean(x²) + ε) · (offset + weight)` | `weight` (`weight`, `gamma`, `scale`), `eps` (`eps`, `epsilon`, `variance_epsilon`, `norm_eps`) | `offset` = `0`, `1`; `rounding` = `llama` (to the dtype before the weight), `gemma` (once, at the end) |
/// | `npu_fused_swiglu` | `down(silu(gate(x)) · up(x))`; as a function `silu(gate) · up` | `gate` (`gate_proj`, `gate`, `w1`), `up` (`up_proj`, `up`, `w3`), `down` (`down_proj`, `down`, `w2`) | `activation` = `silu` |
/// | `npu_fused_rope` | `x · cos + rotate_half(x) · sin` for queries and keys | `q` (`q`, `query`, `query_states`), `k` (`k`, `key`, `key_states`), `cos`, `sin` | `style` = `half` |
///
/// # Arguments
///
/// * An operand under another name: `weight = my_field`. The one tensor that flows through a norm
///   or an MLP may have any name.
/// * The parameters of the maths, `rounding = gemma`; the first value in the table is the default.
///   They have to say what *your* code computes: a kernel that computes something else does not
///   compile here.
/// * `method = name`: the generated method of a struct, or the dispatched method of an impl block;
///   `forward` by default.
/// * `crate = path`: where `burn_kernels` is, if you re-export or rename it.
#[proc_macro_attribute]
pub fn fused_kernel(
    attribute: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    run(attribute.into(), item.into()).into()
}

/// Parse, check, expand. On an error the item stays as it was written, and what would have been
/// generated has its signatures, so that the rest of the user's code (and the editor) finds both.
fn run(attribute: TokenStream, item: TokenStream) -> TokenStream {
    try_run(attribute.clone(), item.clone()).unwrap_or_else(|error| {
        let errors = error.into_compile_error();
        let outline = outline::of(attribute, item.clone());
        quote!(#item #outline #errors)
    })
}

fn try_run(attribute: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut errors = errors::Errors::default();
    let attribute = attr::parse(attribute, &mut errors);
    let target = errors.keep(target::parse(item));
    let form = attribute
        .zip(target)
        .and_then(|(attribute, target)| check::check(&attribute, target, &mut errors));
    errors.finish(form).map(expand::expand)
}
