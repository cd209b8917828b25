//! Parses the annotated item: a struct, an impl block, a method or a free function.
//!
//! Bodies stay token streams. They are moved as they are, so a body that does not parse yet (the user
//! is typing) still expands, and rustc reports it where it stands.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::Visibility;
use syn::parse::{Parse, ParseStream, Parser, discouraged::Speculative};
use syn::{
    Attribute, Error, FnArg, Generics, ItemImpl, ItemStruct, Result, Signature, Token, Type,
};

use crate::scan;

/// The item that has the attribute.
pub(crate) enum Target {
    Struct(Struct),
    Impl(Impl),
    Function(Function),
}

/// A struct, and its tokens as they were written.
pub(crate) struct Struct {
    pub(crate) item: ItemStruct,
    pub(crate) tokens: TokenStream,
}

/// A function with a body: free, or a method.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: Group,
}

/// An impl block.
pub(crate) struct Impl {
    /// From the attributes to `where`.
    pub(crate) header: TokenStream,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) generics: Generics,
    pub(crate) self_type: Type,
    pub(crate) of_trait: Option<syn::Path>,
    pub(crate) inner_attributes: Vec<Attribute>,
    pub(crate) members: Vec<Member>,
}

/// An item of an impl block.
pub(crate) enum Member {
    Method(Box<Function>),
    /// A constant, a type, a macro call, or a method that does not parse.
    Other(TokenStream),
}

/// Parses the item.
pub(crate) fn parse(tokens: TokenStream) -> Result<Target> {
    syn::parse2(tokens)
}

impl Function {
    /// `true` for a function with any form of `self`.
    pub(crate) fn has_receiver(&self) -> bool {
        self.signature.receiver().is_some()
    }

    /// `true` if the function can only stand in an impl block: it mentions `self` or `Self`.
    pub(crate) fn is_associated(&self) -> bool {
        let signature = &self.signature;
        self.has_receiver()
            || scan::mentions(quote::quote!(#signature), "Self")
            || scan::mentions(self.body.stream(), "Self")
    }

    /// The token `self`, as the body means it: a macro may have made the function.
    pub(crate) fn this(&self) -> Ident {
        let span = self.signature.receiver().map(|this| this.self_token.span);
        Ident::new("self", span.unwrap_or_else(Span::call_site))
    }

    /// The parameters except `self`.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &syn::PatType> {
        self.signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(typed),
                FnArg::Receiver(_) => None,
            })
    }
}

impl Impl {
    /// The methods among the members.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &Function> {
        self.members.iter().filter_map(|member| match member {
            Member::Method(method) => Some(method.as_ref()),
            Member::Other(_) => None,
        })
    }

    /// The last name of the type, `Norm` of `norms::Norm<D>`.
    pub(crate) fn type_name(&self) -> Option<&Ident> {
        type_name(&self.self_type)
    }
}

/// Returns the last name of a type, `Norm` of `norms::Norm<D>`.
pub(crate) fn type_name(of: &Type) -> Option<&Ident> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| &last.ident),
        _ => None,
    }
}

impl Parse for Target {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ahead = input.fork();
        Attribute::parse_outer(&ahead)?;
        ahead.parse::<Visibility>()?;

        if ahead.peek(Token![struct]) {
            let tokens = input.fork().parse()?;
            return Ok(Self::Struct(Struct {
                item: input.parse()?,
                tokens,
            }));
        }
        if ahead.peek(Token![impl]) || ahead.peek(Token![unsafe]) && ahead.peek2(Token![impl]) {
            return input.parse().map(Self::Impl);
        }
        if ahead.fork().parse::<Signature>().is_ok() {
            return input.parse().map(Self::Function);
        }
        if ahead.peek(Token![fn]) {
            // Let syn say what is wrong with the signature.
            ahead.parse::<Signature>()?;
        }
        let message = match ahead.peek(Token![trait]) {
            true => {
                "a trait has no fields that a kernel could read; annotate the impl blocks of its types"
            }
            false => {
                "`#[fused_kernel]` stands on a struct with named fields, an impl block, a method or \
                 a free function"
            }
        };
        Err(ahead.error(message))
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = Attribute::parse_outer(input)?;
        let visibility = input.parse()?;
        let signature: Signature = input.parse()?;
        let body = match input.parse::<TokenTree>() {
            Ok(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
            _ => {
                let message = "the function needs a body: it becomes the reference that the \
                               kernel is verified against";
                return Err(Error::new_spanned(signature, message));
            }
        };
        Ok(Self {
            attributes,
            visibility,
            signature,
            body,
        })
    }
}

impl Parse for Impl {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let tokens: TokenStream = input.parse()?;
        let mut header: Vec<TokenTree> = tokens.into_iter().collect();
        let body = match header.pop() {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
            _ => return Err(input.error("expected the block's body in braces")),
        };
        let header: TokenStream = header.into_iter().collect();
        let empty: ItemImpl = syn::parse2(quote::quote!(#header {}))?;
        let (inner_attributes, members) = parse_members.parse2(body.stream())?;
        Ok(Self {
            header,
            attributes: empty.attrs,
            generics: empty.generics,
            self_type: *empty.self_ty,
            of_trait: empty.trait_.map(|(_, path, _)| path),
            inner_attributes,
            members,
        })
    }
}

fn parse_members(input: ParseStream<'_>) -> Result<(Vec<Attribute>, Vec<Member>)> {
    let inner_attributes = Attribute::parse_inner(input)?;
    let mut members = Vec::new();
    while !input.is_empty() {
        members.push(input.parse()?);
    }
    Ok((inner_attributes, members))
}

impl Parse for Member {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ahead = input.fork();
        if let Ok(method) = ahead.parse() {
            input.advance_to(&ahead);
            return Ok(Self::Method(Box::new(method)));
        }
        let mut tokens = TokenStream::new();
        while !input.is_empty() {
            let token: TokenTree = input.parse()?;
            let last = match &token {
                TokenTree::Punct(punct) => punct.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                _ => false,
            };
            tokens.extend([token]);
            if last {
                break;
            }
        }
        Ok(Self::Other(tokens))
    }
}

/// The type and constant parameters as call arguments, `::<D, T>`; empty without parameters.
/// Lifetimes stay inferred.
pub(crate) fn turbofish(generics: &Generics) -> TokenStream {
    let names: Vec<_> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            syn::GenericParam::Type(parameter) => Some(&parameter.ident),
            syn::GenericParam::Const(parameter) => Some(&parameter.ident),
            syn::GenericParam::Lifetime(_) => None,
        })
        .collect();
    match names.is_empty() {
        true => TokenStream::new(),
        false => quote::quote!(::<#(#names),*>),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn tells_the_kinds_apart() {
        assert!(matches!(
            parse(quote!(
                #[a]
                pub struct S<T> {
                    x: T,
                }
            )),
            Ok(Target::Struct(_))
        ));
        assert!(matches!(
            parse(quote!(
                impl<T> S<T> {}
            )),
            Ok(Target::Impl(_))
        ));
        assert!(matches!(
            parse(quote!(
                pub(crate) fn f() {}
            )),
            Ok(Target::Function(_))
        ));
        for other in [
            quote!(
                enum E {}
            ),
            quote!(
                mod m {}
            ),
            quote!(
                const A: u8 = 1;
            ),
        ] {
            let error = parse(other).err().unwrap();
            assert!(error.to_string().contains("stands on a struct"), "{error}");
        }
    }

    #[test]
    fn a_body_that_does_not_parse_is_kept() {
        let Ok(Target::Function(function)) = parse(quote!(fn f(x: u8) { let y = })) else {
            panic!("the function parses")
        };
        assert_eq!(
            function.body.stream().to_string(),
            quote!(let y =).to_string()
        );
    }

    #[test]
    fn an_impl_block_keeps_everything() {
        let block = quote! {
            impl<T: Clone> S<T> where T: Copy {
                const N: usize = { 3 };
                type A = u8;
                some_macro! { x }
                #[inline] pub fn half(&self) { self. }
                pub fn forward(&self) {}
            }
        };
        let Ok(Target::Impl(block)) = parse(block) else {
            panic!("the block parses")
        };
        let methods: Vec<_> = block
            .methods()
            .map(|m| m.signature.ident.to_string())
            .collect();
        assert_eq!(methods, ["half", "forward"]);
        let others: String = block
            .members
            .iter()
            .map(|member| match member {
                Member::Other(tokens) => tokens.to_string(),
                Member::Method(_) => String::new(),
            })
            .collect();
        assert!(
            others.contains("const N") && others.contains("some_macro"),
            "{others}"
        );
    }
}
