//! Writes the expansions, one file per form. Nothing can fail here.

mod attributes;
mod block;
mod copied;
mod custom;
mod dispatch;
mod function;
mod record;
#[cfg(test)]
mod snapshots;
mod structure;
#[cfg(test)]
mod tests;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};

pub(crate) use structure::signature;

use crate::check::{BuiltIn, Form, Kernel, Site};
use crate::contract::{CallContext, Role};
use crate::origin::Origin;
use record::Label;

/// The item with its dispatched function and its reference.
pub(crate) fn expand(form: Form, origin: &Origin) -> TokenStream {
    match form {
        Form::Struct(site, target) => structure::expand(&site, &target, origin),
        Form::Impl(block, parts) => block::expand_impl(&block, &parts, origin),
        Form::Method(site, method) => block::expand_method(&site, &method, origin),
        Form::Function(site, function) => function::expand(&site, &function, origin),
    }
}

/// The user's computation, for the runtime.
struct Body {
    /// The closure.
    closure: TokenStream,
    /// True if it moves what it captures, so that it runs at most once.
    runs_once: bool,
}

/// The body of a dispatched function: the site's record, then the call. `open_rank` is that of [`CallContext`].
fn dispatched_body(
    site: &Site,
    label: &Label<'_>,
    open_rank: Option<Ident>,
    reference: impl FnOnce(&Kernel) -> Body,
) -> TokenStream {
    let declaration = record::declare(site, label);
    let reference = reference(&site.kernel);
    let call = match &site.kernel {
        Kernel::BuiltIn(kernel) => {
            let call = call(site, kernel, open_rank);
            let first_use = first_use(kernel, &call, reference.runs_once);
            let at = at(site);
            (kernel.shape.call)(&CallContext {
                at: quote!(#at #first_use),
                reference: reference.closure,
                ..call
            })
        }
        Kernel::Custom(kernel) => custom::call(site, kernel, &reference.closure),
    };
    quote! {
        #declaration
        #call
    }
}

/// One pattern or type for what the runtime hands back: itself, or a tuple of several.
fn one_pattern<T: ToTokens>(parts: &[T]) -> TokenStream {
    match parts {
        [one] => one.to_token_stream(),
        several => quote!((#(#several),*)),
    }
}

/// The call of the site. The condition is evaluated here, before anything moves. The type of a closure tells the instances of
/// a generic item apart.
fn at(site: &Site) -> TokenStream {
    let runtime = &site.runtime;
    let at = match &site.when {
        Some(when) => quote!(#runtime::At::when(&SITE, #when)),
        None => quote!(#runtime::At::new(&SITE)),
    };
    match site.is_generic {
        true => quote!(#at.instance(&|| ())),
        false => at,
    }
}

/// Marks the call where only the body itself can tell in which order it uses its
/// parameters first: the runtime then lets it run before the kernel, if it can run twice.
fn first_use(kernel: &BuiltIn, call: &CallContext<'_>, runs_once: bool) -> TokenStream {
    let mut roles = kernel.bindings.iter().map(|binding| binding.operand.role);
    if runs_once {
        // Of a list the runtime asks by itself.
        return match roles.any(|role| role == Role::List) {
            true => quote!(.once()),
            false => TokenStream::new(),
        };
    }
    if kernel.first_use.is_known() {
        return TokenStream::new();
    }
    let runtime = call.runtime;
    let operands = kernel.first_use.operands().iter();
    let are_lazy = operands.map(|operand| {
        let operand = call.borrow(operand);
        quote!(#runtime::is_lazy!(#operand))
    });
    quote!(.body_first(#(#are_lazy)||*))
}

/// Returns the context from which a contract writes a call; a composition needs neither the site nor a reference.
fn call<'a>(site: &'a Site, kernel: &'a BuiltIn, open_rank: Option<Ident>) -> CallContext<'a> {
    CallContext {
        runtime: &site.runtime,
        key: &kernel.key,
        bindings: &kernel.bindings,
        first_use: &kernel.first_use,
        this: &site.this,
        open_rank,
        at: TokenStream::new(),
        reference: TokenStream::new(),
    }
}
