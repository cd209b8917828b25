//! Writes the expansions, one file per form. Nothing can fail here.

mod attributes;
mod block;
mod custom;
mod dispatch;
mod function;
mod record;
#[cfg(test)]
mod snapshots;
mod structure;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

pub(crate) use structure::signature;

use crate::check::{BuiltIn, Form, Kernel, Site};
use crate::contract::Call;
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

/// The body of a dispatched function: the site's record, then the call.
fn dispatched_body(
    site: &Site,
    label: &Label<'_>,
    reference: impl FnOnce(&Kernel) -> TokenStream,
) -> TokenStream {
    let declaration = record::declare(site, label);
    let call = match &site.kernel {
        Kernel::BuiltIn(kernel) => (kernel.shape.call)(&Call {
            at: at(site),
            reference: reference(&site.kernel),
            ..call(site, kernel)
        }),
        Kernel::Custom(kernel) => custom::call(site, kernel, &reference(&site.kernel)),
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

/// The call of the site. The condition is evaluated here, before anything moves.
fn at(site: &Site) -> TokenStream {
    let runtime = &site.runtime;
    match &site.when {
        Some(when) => quote!(#runtime::At::when(&SITE, #when)),
        None => quote!(#runtime::At::new(&SITE)),
    }
}

/// What a contract needs; a composition needs neither the site nor a reference.
fn call<'a>(site: &'a Site, kernel: &'a BuiltIn) -> Call<'a> {
    Call {
        runtime: &site.runtime,
        key: &kernel.key,
        bindings: &kernel.bindings,
        this: &site.this,
        at: TokenStream::new(),
        reference: TokenStream::new(),
    }
}
