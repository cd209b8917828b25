//! The copies of what a body captures. Live verification runs a body on them, so that its backward pass does not reach the
//! program's own parameters.

use proc_macro2::{Group, Ident, Punct, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use super::dispatch::parameters;
use crate::check::{Kernel, Site, Source};
use crate::contract::Role;
use crate::target::Function;

/// The parameters that hold tensors and don't flow through the body.
pub(super) fn captured(kernel: &Kernel) -> Vec<&Ident> {
    parameters(kernel, holds_tensors, |source| match source {
        Source::Borrowed(name) => Some(name),
        Source::Flowing(_) | Source::Field(_) => None,
    })
}

fn holds_tensors(role: Role) -> bool {
    matches!(
        role,
        Role::Weight
            | Role::Matrix
            | Role::Table
            | Role::SectionTable
            | Role::Stacked { .. }
            | Role::List
    )
}

/// The variable of a copy.
pub(super) fn local(of: &Ident) -> Ident {
    quote::format_ident!("copy_of_{of}", span = Span::mixed_site())
}

/// The body of a method as it is written, with a copy in place of `self`.
pub(super) fn body(site: &Site, function: &Function) -> TokenStream {
    let (runtime, body) = (&site.runtime, function.body.to_token_stream());
    if !function.has_receiver() {
        return body;
    }
    let this = &site.this;
    let (copy, own) = (local(this), Ident::new("_this", Span::mixed_site()));
    if has_items(body.clone()) {
        // An item in the body may have a `self` of its own. A closure stands for a value that can't be copied.
        return quote!({
            let _ = #runtime::detached!(&|| ());
            #runtime::begin();
            #body
        });
    }
    let body = renamed(body, &own);
    quote!({
        let #copy = #runtime::detached!(#this);
        #runtime::begin();
        let #own = #copy.get(#this);
        #body
    })
}

fn has_items(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => has_items(group.stream()),
        TokenTree::Ident(name) => ["impl", "trait", "macro_rules"]
            .iter()
            .any(|item| name == item),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Replaces `self` by a variable, except at the beginning of a path.
fn renamed(tokens: TokenStream, own: &Ident) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut renamed = TokenStream::new();
    while let Some(token) = tokens.next() {
        let starts_a_path =
            matches!(tokens.peek(), Some(TokenTree::Punct(next)) if is_joint_colon(next));
        renamed.extend([match token {
            TokenTree::Group(group) => {
                let stream = self::renamed(group.stream(), own);
                let mut renamed = Group::new(group.delimiter(), stream);
                renamed.set_span(group.span());
                TokenTree::Group(renamed)
            }
            TokenTree::Ident(name) if name == "self" && !starts_a_path => {
                let span = own.span().located_at(name.span());
                TokenTree::Ident(Ident::new(&own.to_string(), span))
            }
            other => other,
        }]);
    }
    renamed
}

fn is_joint_colon(punct: &Punct) -> bool {
    punct.as_char() == ':' && punct.spacing() == proc_macro2::Spacing::Joint
}
