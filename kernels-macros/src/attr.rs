//! Parses the attribute: a kernel, then `name = value` pairs.
//!
//! This module doesn't know the meaning of names and values; [`crate::check`] does. The
//! one exception is `when`, whose value is an expression and may hold commas of its own.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Lit, LitStr, Path, Result, Token};

use crate::errors::Errors;

/// The text between the brackets of `#[fused_kernel(..)]`.
pub(crate) struct Attribute {
    pub(crate) kernel: Kernel,
    pub(crate) arguments: Vec<Argument>,
}

/// The kernel that the attribute names.
pub(crate) enum Kernel {
    /// One of this crate's, by its id.
    Id(LitStr),
    /// One of another crate's, by the path of its module.
    Path(Path),
}

/// One `name = value`.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    /// Empty if it did not parse. The error is reported; nothing more is said about the argument.
    pub(crate) value: TokenStream,
}

const FIRST: &str = "the kernel comes first: `#[fused_kernel(\"npu_fused_rmsnorm\", ..)]`";
const PAIR: &str = "expected `name = value`, as in `eps = variance_epsilon`";

/// Parses the attribute; reports every malformed part, and keeps the others.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Option<Attribute> {
    let parsed = (|input: ParseStream<'_>| {
        if input.is_empty() {
            let message = "name the kernel: `#[fused_kernel(\"npu_fused_rmsnorm\")]`";
            errors.at_span(Span::call_site(), message);
            return Ok(None);
        }
        let kernel = parse_kernel(input, errors);
        let arguments = parse_arguments(input, errors);
        Ok(kernel.map(|kernel| Attribute { kernel, arguments }))
    })
    .parse2(tokens);
    errors.keep(parsed).flatten()
}

impl Attribute {
    /// The argument of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }
}

impl Argument {
    /// `true` if its value did not parse.
    pub(crate) fn is_broken(&self) -> bool {
        self.value.is_empty()
    }

    /// The value as the name of a field, parameter or method.
    pub(crate) fn as_name(&self) -> Result<Ident> {
        let name = &self.name;
        if let Ok(written) = Ident::parse_any.parse2(self.value.clone())
            && let Some(usable) = raw_if_keyword(written)
        {
            return Ok(usable);
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

/// A keyword can only name a field or a method in its raw form, `r#type`.
fn raw_if_keyword(name: Ident) -> Option<Ident> {
    if syn::parse2::<Ident>(name.to_token_stream()).is_ok() {
        return Some(name);
    }
    let text = name.to_string();
    let never_raw = ["self", "Self", "super", "crate", "_"].contains(&text.as_str());
    (!never_raw).then(|| Ident::new_raw(&text, name.span()))
}

fn parse_kernel(input: ParseStream<'_>, errors: &mut Errors) -> Option<Kernel> {
    let kernel = if input.peek(LitStr) {
        errors.keep(input.parse()).map(Kernel::Id)
    } else if starts_argument(input) {
        errors.push(input.error(FIRST));
        return None;
    } else if input.peek(Ident::peek_any) || input.peek(Token![::]) {
        errors
            .keep(input.call(Path::parse_mod_style))
            .map(Kernel::Path)
    } else {
        let message = match input.peek(Lit) {
            true => "the kernel's id is a string, as in `\"npu_fused_rmsnorm\"`",
            false => FIRST,
        };
        errors.push(input.error(message));
        None
    };
    if kernel.is_none() {
        tokens_of_part(input);
    }
    end_part(input, errors);
    kernel
}

fn parse_arguments(input: ParseStream<'_>, errors: &mut Errors) -> Vec<Argument> {
    let mut arguments: Vec<Argument> = Vec::new();
    while !input.is_empty() {
        if let Some(argument) = parse_argument(input, errors) {
            match arguments.iter().any(|other| other.name == argument.name) {
                true => errors.at(
                    &argument.name,
                    format!("`{}` is given twice", argument.name),
                ),
                false => arguments.push(argument),
            }
        }
        end_part(input, errors);
    }
    arguments
}

fn parse_argument(input: ParseStream<'_>, errors: &mut Errors) -> Option<Argument> {
    if !input.peek(Ident::peek_any) {
        errors.push(input.error(PAIR));
        tokens_of_part(input);
        return None;
    }
    let name = errors.keep(Ident::parse_any(input))?;
    let broken = |name| {
        Some(Argument {
            name,
            value: TokenStream::new(),
        })
    };
    if name == "ignore" {
        return Some(Argument {
            value: parse_ignored(input, &name, errors),
            name,
        });
    }
    if !input.peek(Token![=]) || input.peek(Token![==]) {
        errors.at(&name, PAIR);
        tokens_of_part(input);
        return broken(name);
    }
    let equals: Token![=] = errors.keep(input.parse())?;
    if input.is_empty() || input.peek(Token![,]) {
        errors.at(equals, format!("`{name}` has no value"));
        return broken(name);
    }
    let value = match name == "when" {
        true => parse_condition(input, errors),
        false => ungrouped(tokens_of_part(input)).into_iter().collect(),
    };
    Some(Argument { name, value })
}

/// The fields between the parentheses of `ignore(..)`.
fn parse_ignored(input: ParseStream<'_>, name: &Ident, errors: &mut Errors) -> TokenStream {
    let part = tokens_of_part(input).into_iter().next();
    let fields = match part {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            group.stream()
        }
        _ => TokenStream::new(),
    };
    if fields.is_empty() {
        errors.at(name, "`ignore` names fields, as in `ignore(dropout)`");
    }
    fields
}

/// The expression after `when =`; nothing if it does not parse.
fn parse_condition(input: ParseStream<'_>, errors: &mut Errors) -> TokenStream {
    let example = "`when` takes a condition, as in `when = self.activation == Activation::Silu`";
    let ahead = input.fork();
    match ahead.parse::<Expr>() {
        Ok(Expr::Assign(assign)) => {
            input.advance_to(&ahead);
            errors.at(
                assign.eq_token,
                format!("{example}; to compare, write `==`"),
            );
            TokenStream::new()
        }
        Ok(condition) => {
            input.advance_to(&ahead);
            condition.into_token_stream()
        }
        Err(error) => {
            errors.at(tokens_of_part(input), format!("{example}: {error}"));
            TokenStream::new()
        }
    }
}

/// Passes the comma after a part.
fn end_part(input: ParseStream<'_>, errors: &mut Errors) {
    if input.is_empty() {
        return;
    }
    if input.parse::<Token![,]>().is_ok() {
        return;
    }
    match starts_argument(input) {
        true => errors.push(input.error("a comma is missing before this argument")),
        false => {
            errors.push(input.error("expected a comma"));
            tokens_of_part(input);
            let _ = input.parse::<Token![,]>();
        }
    }
}

/// `true` in front of `name =`.
fn starts_argument(input: ParseStream<'_>) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])
}

/// The tokens up to the next comma. A `name =` on the way is the next argument, whose comma is
/// missing.
fn tokens_of_part(input: ParseStream<'_>) -> TokenStream {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        if !tokens.is_empty() && starts_argument(input) {
            break;
        }
        match input.parse::<TokenTree>() {
            Ok(token) => tokens.extend([token]),
            Err(_) => break,
        }
    }
    tokens
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

    fn parsed(tokens: TokenStream) -> (Option<Attribute>, Vec<String>) {
        let mut errors = Errors::default();
        let attribute = parse(tokens, &mut errors);
        (attribute, messages(errors.finish(None::<()>).err()))
    }

    fn written(attribute: &Attribute) -> Vec<(String, String)> {
        let pairs = attribute.arguments.iter();
        pairs
            .map(|argument| (argument.name.to_string(), argument.as_text()))
            .collect()
    }

    #[track_caller]
    fn attribute(tokens: TokenStream) -> Attribute {
        let mut errors = Errors::default();
        let attribute = parse(tokens, &mut errors);
        errors
            .finish(attribute)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn refused(tokens: TokenStream, expected: &[&str]) -> Option<Attribute> {
        let (attribute, found) = parsed(tokens);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (message, part) in found.iter().zip(expected) {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        attribute
    }

    #[test]
    fn reads_id_and_arguments() {
        let attribute = attribute(quote!(
            "npu_fused_rmsnorm",
            weight = gamma,
            offset = 1,
            crate = a::b,
        ));
        assert!(matches!(&attribute.kernel, Kernel::Id(id) if id.value() == "npu_fused_rmsnorm"));
        let expected = [("weight", "gamma"), ("offset", "1"), ("crate", "a::b")];
        let expected = expected.map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(written(&attribute), expected);
        assert_eq!(attribute.arguments[0].as_name().unwrap(), "gamma");
    }

    #[test]
    fn a_kernel_of_another_crate_is_a_path() {
        for path in [
            quote!(acme::soft_cap),
            quote!(::acme::soft_cap),
            quote!(crate::soft_cap),
            quote!(soft_cap),
        ] {
            let attribute = attribute(quote!(#path, cap = limit));
            let Kernel::Path(found) = &attribute.kernel else {
                panic!("{path} is not a path")
            };
            assert_eq!(quote!(#found).to_string(), path.to_string());
            assert_eq!(attribute.arguments.len(), 1);
        }
    }

    #[test]
    fn a_condition_is_any_expression() {
        let attribute = attribute(quote!(
            "k",
            when = self.heads::<A, B>(x) == Act::<u8, 2>::Silu && matches!(a, B | C),
            layer = "Norm"
        ));
        let [condition, layer] = &attribute.arguments[..] else {
            panic!("{:?}", written(&attribute))
        };
        let expected = quote!(self.heads::<A, B>(x) == Act::<u8, 2>::Silu && matches!(a, B | C));
        assert_eq!(condition.value.to_string(), expected.to_string());
        assert_eq!(layer.as_text(), "\"Norm\"");
    }

    #[test]
    fn a_condition_keeps_the_groups_of_a_macro() {
        let either = proc_macro2::Group::new(Delimiter::None, quote!(a || b));
        let attribute = attribute(quote!("k", when = #either && c));
        let syn::Expr::Binary(and) = syn::parse2(attribute.arguments[0].value.clone()).unwrap()
        else {
            panic!("not `&&`")
        };
        assert!(matches!(and.op, syn::BinOp::And(_)));
    }

    #[test]
    fn reports_all_malformed_parts_and_keeps_the_others() {
        let attribute = refused(
            quote!("k", weight, eps =, 3, , gate = g, gate = h, when = self., up = u),
            &[
                "expected `name = value`",
                "`eps` has no value",
                "expected `name = value`",
                "expected `name = value`",
                "`gate` is given twice",
                "`when` takes a condition",
            ],
        );
        let attribute = attribute.unwrap();
        let broken: Vec<_> = attribute
            .arguments
            .iter()
            .filter(|argument| argument.is_broken())
            .map(|argument| argument.name.to_string())
            .collect();
        assert_eq!(broken, ["weight", "eps", "when"]);
        assert_eq!(attribute.get("up").unwrap().as_text(), "u");
    }

    #[test]
    fn a_missing_comma_is_one_error() {
        for tokens in [
            quote!("k" offset = 1, rounding = gemma),
            quote!("k", offset = 1 rounding = gemma),
        ] {
            let attribute = refused(tokens, &["a comma is missing before"]).unwrap();
            let expected =
                [("offset", "1"), ("rounding", "gemma")].map(|(a, b)| (a.into(), b.into()));
            assert_eq!(written(&attribute), expected);
        }
        refused(
            quote!("k", when = a rounding = gemma),
            &["a comma is missing before"],
        );
        refused(quote!("k" "l", a = b), &["expected a comma"]);
    }

    #[test]
    fn an_assignment_is_no_condition() {
        refused(quote!("k", when = a = b), &["to compare, write `==`"]);
    }

    #[test]
    fn the_kernel_comes_first() {
        refused(quote!(), &["name the kernel"]);
        refused(quote!(weight = w, eps =), &["comes first", "no value"]);
        refused(quote!(3, a = b), &["is a string"]);
        refused(quote!(, a = b), &["comes first"]);
    }

    #[test]
    fn a_name_is_bare() {
        let attribute = attribute(quote!(
            "k",
            a = "gamma",
            b = self.gamma,
            c = 1e-6,
            d = type,
            e = r#type,
            f = self
        ));
        let name = |i: usize| attribute.arguments[i].as_name();
        let message = |i: usize| name(i).unwrap_err().to_string();
        assert_eq!(message(0), "write the bare name: `a = gamma`");
        assert_eq!(message(1), "write the bare name: `b = gamma`");
        assert_eq!(message(2), "`c` takes a name, as in `c = my_c`");
        assert_eq!(name(3).unwrap(), "r#type");
        assert_eq!(name(4).unwrap(), "r#type");
        assert_eq!(message(5), "`f` takes a name, as in `f = my_f`");
    }
}
