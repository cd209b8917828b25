//! Impl blocks and methods in them.

use proc_macro2::{Group, TokenStream};
use quote::{ToTokens, quote};
use syn::Type;

use super::dispatch::{Scope, split};
use crate::check::{Block, Site};
use crate::target::{Function, Member};

/// The block with its method taken apart; everything else stays as it is.
pub(super) fn expand_impl(site: &Site, block: &Block) -> TokenStream {
    let item = match type_name(&block.block.self_type) {
        Some(type_name) => format!("{type_name}::{}", site.method),
        None => site.method.to_string(),
    };
    let method = split(site, &block.method, Scope::Type, "Impl", &item);

    let (header, inner) = (&block.block.header, &block.block.inner_attributes);
    let (before, after) = (block.before.iter(), block.after.iter());
    quote!(#header { #(#inner)* #(#before)* #method #(#after)* })
}

/// The method taken apart. The type that it belongs to is out of sight.
pub(super) fn expand_method(site: &Site, method: &Function) -> TokenStream {
    split(
        site,
        method,
        Scope::Type,
        "Method",
        &site.method.to_string(),
    )
}

fn type_name(self_type: &Type) -> Option<String> {
    match self_type {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

impl ToTokens for Member {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Method(method) => method.to_tokens(tokens),
            Self::Other(other) => other.to_tokens(tokens),
        }
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self {
            attributes,
            visibility,
            signature,
            body,
        } = self;
        let body: &Group = body;
        tokens.extend(quote!(#(#attributes)* #visibility #signature #body));
    }
}
