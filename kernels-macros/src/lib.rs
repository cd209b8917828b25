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
mod enclosing;
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
/// The plain computation stays compiled in, as `<name>_reference`. It runs where no kernel does, and
/// every kernel is verified against it, forward and backward. The macro adds no field to your struct,
/// so parameters and checkpoint keys keep their names.
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
/// A struct that has a `forward` of its own can't get another one (rustc's E0592): annotate its impl block.
///
/// On an **impl block** the attribute dispatches the method `forward` (or `method = name`). On a
/// **method** it dispatches that method. Your body becomes the reference. The operands are the
/// method's parameters, and the fields that the body reads:
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
/// An **impl of a trait** is annotated like any impl block. A trait's impl can't have an extra
/// `forward_reference`, so the plain body stays inside the method; the policy `none` runs it.
///
/// A block may have several attributes, each with its own `method = name`. Its methods may have
/// attributes too. Annotate the impl block, not the method, for an associated function without
/// `self` and for methods of a trait's impl.
///
/// # One seed, one model
///
/// Burn initialises a parameter at its first use, from the device's random generator. Kernels use the
/// parameters of a layer in the same order as your body, which the macro finds by Rust's order of
/// evaluation. Without a body the order is that of the fields, with `down` after its input's layers
/// and experts after their router. So one seed gives one model, with or without kernels.
///
/// The macro can't know the order of some bodies: a helper that takes `self`, branches, macros, experts
/// in a list. There your body runs before the kernel while a parameter is not initialised, and its
/// result is dropped, so a body should have no side effects. Two cases of such bodies keep the
/// kernel's own order: layers whose type is a type parameter without the bound `Module`, and functions
/// whose body moves a parameter that is not a tensor.
///
#[doc = include_str!("../kernels.md")]
///
/// ## Kernels of other crates
///
/// The path of its module names a kernel of another crate, on an impl block, a method or a function.
/// The operands are all parameters, and the fields that arguments name:
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
///   the reference runs. It may use `self` and the parameters. Its fields may differ between instances,
///   and the body may branch on them:
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
/// * `ignore(dropout, aux)`: fields of an annotated struct that have no part in its forward pass. Every other
///   field that may hold parameters or layers must be an operand, `#[module(skip)]`, or read by `when`.
/// * Numbers (`eps`, `limit`, `group_size`, …) are a field, or a constant: `eps = 1e-5`, `eps = EPS`,
///   `eps = Self::EPS`.
/// * `crate = path`: the path of `burn_kernels`, if you re-export it. A dependency that `Cargo.toml`
///   renames is found without it.
///
/// # What is refused
///
/// All errors of an item come at once, each at its token with the correction. Besides misspelled and
/// missing arguments, the macro refuses:
///
/// * settings that no computation has together, and operands that the settings don't bring;
/// * a field, parameter or `self.field` in a body that the kernel would ignore, such as a dropout or
///   a bias: its effect would be lost. A condition that mentions it accounts for it;
/// * names and calls that mean another computation: a struct `LayerNorm`, a function `geglu` with
///   `activation = silu`, a body that calls `gelu` under it.
///
/// The macro sees tokens, not types. It doesn't follow `self` into other functions, and it doesn't
/// resolve names. rustc reports errors of types at the same tokens. Live verification compares the
/// result of the body with the kernel's. An item in error stays as it was written, and the generated
/// functions keep their signatures.
///
/// # Attributes of the item
///
/// Generics, bounds, visibility, docs, derives, `cfg` and all other attributes stay on your item, in
/// any order. The reference gets the attributes that must hold for its body:
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

/// Parses, checks and expands. On an error the item stays as it was written, and the generated functions
/// have their signatures, so that the rest of the user's code (and the editor) finds both.
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
