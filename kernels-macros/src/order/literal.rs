//! Calls of macros: those of the standard library that evaluate their arguments in order are
//! followed; of others it is known whether they mention an operand at all.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, Token};

use super::body::Walk;
use super::value::Value;

/// Macros that evaluate all of their arguments, in order.
const EVALUATE: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "dbg",
    "eprintln",
    "format",
    "println",
    "vec",
];

impl Walk<'_> {
    pub(super) fn macro_call(&mut self, call: &syn::Macro) -> Value {
        if !self.mentions(call.tokens.clone()) {
            return Value::Plain;
        }
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated;
        let name = call.path.segments.last().map(|name| &name.ident);
        let is_known = name.is_some_and(|name| EVALUATE.iter().any(|known| name == known));
        match arguments.parse2(call.tokens.clone()) {
            Ok(arguments) if is_known => {
                let values = arguments.iter().map(|argument| self.expr(argument));
                let value = Value::holding(values.collect());
                if name.is_some_and(|name| name == "vec") {
                    return value;
                }
                self.use_value(&value);
            }
            _ => self.lose_sight(),
        }
        Value::Plain
    }

    /// Returns true if the tokens name an operand, something that leads to one, or `self` as a whole.
    fn mentions(&self, tokens: TokenStream) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        (0..tokens.len()).any(|i| match &tokens[i..] {
            [TokenTree::Group(group), ..] => self.mentions(group.stream()),
            [
                TokenTree::Ident(this),
                TokenTree::Punct(dot),
                TokenTree::Ident(field),
                after @ ..,
            ] if this == "self" && dot.as_char() == '.' => {
                let is_method = matches!(after, [TokenTree::Group(arguments), ..]
                    if arguments.delimiter() == Delimiter::Parenthesis);
                is_method || self.is_operand(field)
            }
            [TokenTree::Ident(name), ..] => self.variable(name) != Value::Plain,
            _ => false,
        })
    }
}
