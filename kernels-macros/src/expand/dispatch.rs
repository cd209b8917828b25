//! A user's function, taken apart: the dispatched one in its place, and its body beside it, or in
//! an impl of a trait inside it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{FnArg, Pat, PatIdent as Pattern, Type};

use super::record::Label;
use super::{Body, attributes, copied, dispatched_body, one_pattern};
use crate::check::{BuiltIn, Custom, Kernel, Reference, Site, Source};
use crate::contract::{Place, Role};
use crate::target::{Function, turbofish};

/// The path from the dispatched function to the reference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Both are free functions of one module.
    Module,
    /// Both are associated functions of one type.
    Type,
}

/// The dispatched function, and the reference if it is an item of its own.
pub(super) fn split(
    site: &Site,
    function: &Function,
    scope: Scope,
    label: &Label<'_>,
) -> TokenStream {
    let dispatched = dispatched(site, function, scope, label);
    let reference = match &site.reference {
        Reference::Beside(name) => reference(site, function, name, scope),
        Reference::Inside => TokenStream::new(),
    };
    quote!(#dispatched #reference)
}

/// The user's signature with a new body.
fn dispatched(site: &Site, function: &Function, scope: Scope, label: &Label<'_>) -> TokenStream {
    let attributes = attributes::for_dispatched(&function.attributes, &function.signature);
    let visibility = &function.visibility;
    let body = dispatched_body(site, label, None, |kernel| match &site.reference {
        Reference::Beside(name) => {
            let call = call_reference(site, function, name, scope, &flowing(kernel));
            closure(site, function, fresh, &call)
        }
        Reference::Inside => {
            let as_written = |name: &Ident| pattern(function, name);
            closure(site, function, as_written, &copied::body(site, function))
        }
    });

    let mut signature = function.signature.clone();
    let moved = flowing(&site.kernel);
    for input in &mut signature.inputs {
        // Only the plain body changes its parameters.
        if let FnArg::Typed(typed) = input
            && let Pat::Ident(pattern) = typed.pat.as_mut()
        {
            let stays = matches!(site.reference, Reference::Inside);
            if !stays || moved.contains(&&pattern.ident) {
                pattern.mutability = None;
            }
        }
    }
    quote! {
        #(#attributes)*
        #visibility #signature { #body }
    }
}

/// The user's function under another name.
fn reference(site: &Site, function: &Function, name: &Ident, scope: Scope) -> TokenStream {
    let attributes = attributes::for_reference(&function.attributes);
    let (visibility, body) = (&function.visibility, &function.body);
    let mut signature = function.signature.clone();
    signature.ident = name.clone();
    let target = match scope {
        Scope::Module => site.method.to_string(),
        Scope::Type => format!("Self::{}", site.method),
    };
    let docs = format!(
        " The plain computation of [`{target}`], which the kernel `{}` is verified against.",
        site.kernel.name()
    );
    quote! {
        #[doc = #docs]
        #(#attributes)*
        #visibility #signature #body
    }
}

/// The parameters that flow through, in the order in which the runtime hands them back.
fn flowing(kernel: &Kernel) -> Vec<&Ident> {
    parameters(kernel, Role::flows, |source| match source {
        Source::Flowing(name) => Some(name),
        Source::Borrowed(_) | Source::Field(_) => None,
    })
}

/// The parameters of operands with some roles, and of those of another crate's kernel with some sources.
pub(super) fn parameters(
    kernel: &Kernel,
    is_role: impl Fn(Role) -> bool,
    of_source: impl Fn(&Source) -> Option<&Ident>,
) -> Vec<&Ident> {
    match kernel {
        Kernel::BuiltIn(BuiltIn { bindings, .. }) => bindings
            .iter()
            .filter(|binding| is_role(binding.operand.role))
            .filter_map(|binding| match &binding.place {
                Place::Parameter { name, .. } => Some(name),
                Place::Field(_) | Place::OfElement(_) | Place::Constant(_) => None,
            })
            .collect(),
        Kernel::Custom(Custom { operands, .. }) => operands
            .iter()
            .filter_map(|operand| of_source(&operand.source))
            .collect(),
    }
}

/// The reference as a closure over what flows through, each bound by a pattern.
fn closure<P: ToTokens>(
    site: &Site,
    function: &Function,
    pattern: impl Fn(&Ident) -> P,
    body: &TokenStream,
) -> Body {
    let kernel = &site.kernel;
    // The user's own names have to stand alone, or rustc calls them redundant.
    let is_written = matches!(site.reference, Reference::Inside);
    match kernel {
        Kernel::BuiltIn(_) => {
            let flowing = flowing(kernel);
            let runs_once = function.parameters().any(|parameter| {
                let flows = matches!(parameter.pat.as_ref(), Pat::Ident(pattern)
                    if flowing.contains(&&pattern.ident));
                !flows && is_moved(&parameter.ty)
            });
            let patterns: Vec<_> = flowing.iter().copied().map(pattern).collect();
            let pattern = one_pattern(&patterns);
            // Behind `once`, and for a body as it is written, the types of the parameters can't be
            // inferred.
            let types: Vec<_> = flowing.iter().map(|name| type_of(function, name)).collect();
            let (runtime, type_) = (&site.runtime, one_pattern(&types));
            let closure = match (runs_once, is_written) {
                (true, _) => quote!(&mut #runtime::once(|#pattern: #type_| #body)),
                (false, true) => quote!(&mut |#pattern: #type_| #body),
                (false, false) => quote!(&mut |#pattern| #body),
            };
            Body { closure, runs_once }
        }
        Kernel::Custom(Custom { path, operands }) => {
            let fields = operands.iter().filter_map(|operand| match &operand.source {
                Source::Flowing(parameter) => {
                    let (name, written) = (&operand.name, pattern(parameter));
                    let shorthand = is_written && name == parameter;
                    let name = (!shorthand).then(|| quote!(#name:));
                    Some(quote!(#name #written,))
                }
                Source::Borrowed(_) | Source::Field(_) => None,
            });
            Body {
                closure: quote!(|#path::Operands { #(#fields)* .. }| #body),
                runs_once: true,
            }
        }
    }
}

/// Returns true if a closure that mentions a variable of this type may move it.
fn is_moved(ty: &Type) -> bool {
    const COPIED: &[&str] = &["bool", "f32", "f64", "i32", "i64", "u32", "u64", "usize"];
    match ty {
        Type::Reference(ty) => ty.mutability.is_some(),
        Type::Path(path) => {
            let name = path.path.get_ident();
            !name.is_some_and(|name| COPIED.iter().any(|copied| name == copied))
        }
        _ => true,
    }
}

/// The parameter's type, as it is written.
fn type_of<'a>(function: &'a Function, name: &Ident) -> Option<&'a Type> {
    let mut parameters = function.parameters();
    let found = parameters.find(
        |parameter| matches!(parameter.pat.as_ref(), Pat::Ident(pattern) if pattern.ident == *name),
    );
    found.map(|parameter| parameter.ty.as_ref())
}

/// A call of the reference with all parameters in the user's order.
fn call_reference(
    site: &Site,
    function: &Function,
    name: &Ident,
    scope: Scope,
    flowing: &[&Ident],
) -> TokenStream {
    let runtime = &site.runtime;
    let captured = copied::captured(&site.kernel);
    let mut copies = TokenStream::new();
    let mut arguments = Vec::new();
    for parameter in function.parameters() {
        let Pat::Ident(Pattern { ident, .. }) = parameter.pat.as_ref() else {
            continue;
        };
        arguments.push(if flowing.contains(&ident) {
            fresh(ident).to_token_stream()
        } else if captured.contains(&ident) {
            let copy = copied::local(ident);
            let is_reference = matches!(parameter.ty.as_ref(), Type::Reference(_));
            let (lent, read) = match is_reference {
                true => (quote!(#ident), quote!(#copy.get(#ident))),
                false => (quote!(&#ident), quote!(#copy.own(#ident))),
            };
            copies.extend(quote!(let #copy = #runtime::detached!(#lent);));
            read
        } else {
            ident.to_token_stream()
        });
    }
    let generics = turbofish(&function.signature.generics);
    let path = match (function.has_receiver(), scope) {
        (true, _) => {
            let (this, copy) = (&site.this, copied::local(&site.this));
            copies.extend(quote!(let #copy = #runtime::detached!(#this);));
            quote!(#copy.get(#this).#name #generics)
        }
        (false, Scope::Type) => quote!(Self::#name #generics),
        (false, Scope::Module) => quote!(#name #generics),
    };
    quote!({
        #copies
        #runtime::begin();
        #path(#(#arguments),*)
    })
}

/// The same name, invisible to the user's code.
fn fresh(name: &Ident) -> Ident {
    let mut name = name.clone();
    name.set_span(Span::mixed_site());
    name
}

/// The parameter as the user's body has it, `mut` included.
fn pattern(function: &Function, name: &Ident) -> TokenStream {
    let parameters = function.parameters();
    let mut patterns = parameters.map(|parameter| parameter.pat.as_ref());
    let found =
        patterns.find(|pattern| matches!(pattern, Pat::Ident(found) if found.ident == *name));
    match found {
        Some(pattern) => pattern.to_token_stream(),
        None => name.to_token_stream(),
    }
}
