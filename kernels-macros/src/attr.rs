//! Parses the attribute: a kernel's id, then `name = value` pairs.
//!
//! What the names and values mean is not known here; that is the business of [`crate::check`].

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, LitStr, Result, Token};

use crate::errors::Errors;

/// The text between the brackets of `#[fused_kernel(..)]`.
pub(crate) struct Attribute {
    pub(crate) kernel: LitStr,
    pub(crate) arguments: Vec<Argument>,
}

/// One `name = value`.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) value: TokenStream,
}

/// Parses the attribute; reports every malformed argument.
pub(crate) fn parse(tokens: TokenStream) -> Result<Attribute> {
    let mut errors = Errors::default();
    let mut parts = split_at_commas(tokens).into_iter();

    let kernel = match parts.next() {
        Some(first) => errors.keep(parse_kernel(first)),
        None => {
            errors.at_span(
                Span::call_site(),
                "name the kernel: `#[fused_kernel(\"npu_fused_rmsnorm\")]`",
            );
            None
        }
    };

    let mut arguments: Vec<Argument> = Vec::new();
    for part in parts {
        let Some(argument) = errors.keep(parse_argument.parse2(part)) else {
            continue;
        };
        match arguments
            .iter()
            .any(|earlier| earlier.name == argument.name)
        {
            true => errors.at(
                &argument.name,
                format!("`{}` is given twice", argument.name),
            ),
            false => arguments.push(argument),
        }
    }
    errors.finish(kernel.map(|kernel| Attribute { kernel, arguments }))
}

impl Argument {
    /// The value as the name of a field, parameter or method.
    pub(crate) fn as_name(&self) -> Result<Ident> {
        let name = &self.name;
        if let Ok(ident) = Ident::parse_any.parse2(self.value.clone())
            && ident != "self"
        {
            return Ok(ident);
        }
        let tokens: Vec<TokenTree> = self.value.clone().into_iter().collect();
        let bare = match tokens.as_slice() {
            [TokenTree::Literal(_)] => {
                let text = syn::parse2::<LitStr>(self.value.clone()).map(|text| text.value());
                text.ok()
                    .filter(|text| syn::parse_str::<Ident>(text).is_ok())
            }
            [
                TokenTree::Ident(this),
                TokenTree::Punct(dot),
                TokenTree::Ident(field),
            ] if this == "self" && dot.as_char() == '.' => Some(field.to_string()),
            _ => None,
        };
        let message = match bare {
            Some(bare) => format!("write the bare name: `{name} = {bare}`"),
            None => format!("`{name}` takes a name, as in `{name} = my_{name}`"),
        };
        Err(Error::new_spanned(&self.value, message))
    }

    /// The value as it is written, without blanks.
    pub(crate) fn as_text(&self) -> String {
        self.value
            .clone()
            .into_iter()
            .map(|token| token.to_string())
            .collect()
    }
}

fn parse_kernel(tokens: TokenStream) -> Result<LitStr> {
    syn::parse2::<LitStr>(tokens.clone()).map_err(|_| {
        let message = "the kernel's id comes first, as a string: \
                       `#[fused_kernel(\"npu_fused_rmsnorm\", ..)]`";
        Error::new_spanned(tokens, message)
    })
}

fn parse_argument(input: ParseStream<'_>) -> Result<Argument> {
    let expected = "expected `name = value`, as in `eps = variance_epsilon`";
    if !input.peek(syn::Ident::peek_any) {
        return Err(input.error(expected));
    }
    let name = Ident::parse_any(input)?;
    if !input.peek(Token![=]) {
        return Err(Error::new(name.span(), expected));
    }
    let equals: Token![=] = input.parse()?;
    let value: TokenStream = input.parse()?;
    if value.is_empty() {
        return Err(Error::new_spanned(equals, format!("`{name}` has no value")));
    }
    Ok(Argument { name, value })
}

/// The parts between the commas; a comma at the end adds none.
fn split_at_commas(tokens: TokenStream) -> Vec<TokenStream> {
    let mut parts = Vec::new();
    let mut part = TokenStream::new();
    for token in ungrouped(tokens) {
        match &token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                parts.push(std::mem::take(&mut part));
            }
            _ => token.to_tokens(&mut part),
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// Opens the invisible groups that a surrounding `macro_rules!` puts around its fragments.
fn ungrouped(tokens: TokenStream) -> Vec<TokenTree> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                ungrouped(group.stream())
            }
            other => vec![other],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;
    use quote::quote;

    fn errors(tokens: TokenStream) -> Vec<String> {
        messages(parse(tokens).err())
    }

    #[test]
    fn reads_id_and_arguments() {
        let attribute = parse(quote!(
            "npu_fused_rmsnorm",
            weight = gamma,
            offset = 1,
            crate = a::b,
        ))
        .unwrap();
        assert_eq!(attribute.kernel.value(), "npu_fused_rmsnorm");
        let written: Vec<_> = attribute
            .arguments
            .iter()
            .map(|a| (a.name.to_string(), a.as_text()))
            .collect();
        let expected = [("weight", "gamma"), ("offset", "1"), ("crate", "a::b")]
            .map(|(a, b)| (a.into(), b.into()));
        assert_eq!(written, expected);
        assert_eq!(attribute.arguments[0].as_name().unwrap(), "gamma");
    }

    #[test]
    fn reports_all_malformed_arguments() {
        let found = errors(quote!("npu_fused_rmsnorm", weight, eps =, 3, eps = a, eps = b));
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found[1].contains("`eps` has no value"));
        assert!(found[3].contains("given twice"));
    }

    #[test]
    fn the_id_is_a_string_and_comes_first() {
        assert!(errors(quote!())[0].contains("name the kernel"));
        assert!(errors(quote!(weight = w))[0].contains("comes first"));
        assert!(errors(quote!(npu_fused_rope))[0].contains("as a string"));
    }

    #[test]
    fn a_name_is_bare() {
        let attribute = parse(quote!("k", a = "gamma", b = self.gamma, c = 1e-6)).unwrap();
        let message = |i: usize| attribute.arguments[i].as_name().unwrap_err().to_string();
        assert_eq!(message(0), "write the bare name: `a = gamma`");
        assert_eq!(message(1), "write the bare name: `b = gamma`");
        assert_eq!(message(2), "`c` takes a name, as in `c = my_c`");
    }
}
