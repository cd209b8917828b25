//! Impl blocks and methods in them.

use proc_macro2::{Group, TokenStream};
use quote::{ToTokens, quote};
use syn::Ident;
use syn::ext::IdentExt;

use super::dispatch::{Scope, split};
use super::record::Label;
use crate::check::{Part, Site};
use crate::enclosing;
use crate::origin::Origin;
use crate::target::{Function, Impl, Member};

/// The block with its method taken apart; everything else stays as it is.
pub(super) fn expand_impl(block: &Impl, parts: &[Part], origin: &Origin) -> TokenStream {
    let type_name = block.type_name();
    let parts = parts.iter().map(|part| match part {
        Part::Plain(member) => member.to_token_stream(),
        Part::Dispatched(dispatched) => {
            let (site, method) = dispatched.as_ref();
            let name = site.method.unraw();
            let label = Label {
                form: "Impl",
                item: inside(type_name, &name),
                origin,
            };
            split(site, method, Scope::Type, &label)
        }
    });
    let (header, inner) = (&block.header, &block.inner_attributes);
    quote!(#header { #(#inner)* #(#parts)* })
}

/// The method taken apart. The type that it belongs to is out of sight of the attribute, and is that of the source file.
pub(super) fn expand_method(site: &Site, method: &Function, origin: &Origin) -> TokenStream {
    let type_name = enclosing::of_expansion();
    let label = Label {
        form: "Method",
        item: inside(type_name.as_ref(), &site.method.unraw()),
        origin,
    };
    split(site, method, Scope::Type, &label)
}

/// The name of a method with its type, if that is known.
pub(super) fn inside(type_name: Option<&Ident>, method: &Ident) -> String {
    match type_name {
        Some(type_name) => format!("{}::{method}", type_name.unraw()),
        None => method.to_string(),
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
