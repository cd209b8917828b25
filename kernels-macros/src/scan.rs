//! Facts of a body that need no parser: half typed code has none of these as
//! expressions, but all of them as tokens.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// The fields that a body reads, each once, at its first place: `self.field`, and those of
/// `let Self { field, .. } = self`.
pub(crate) fn fields_read(body: TokenStream) -> Vec<Ident> {
    let mut found = Vec::new();
    collect_fields(body, &mut found);
    let mut unique: Vec<Ident> = Vec::new();
    for field in found {
        if !unique.contains(&field) {
            unique.push(field);
        }
    }
    unique
}

fn collect_fields(body: TokenStream, found: &mut Vec<Ident>) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    for i in 0..tokens.len() {
        found.extend(field_at(&tokens[i..]).cloned());
        match pattern_at(&tokens[i..]) {
            Some(fields) => found.extend(pattern_fields(fields)),
            None => {
                if let TokenTree::Group(group) = &tokens[i] {
                    collect_fields(group.stream(), found);
                }
            }
        }
    }
}

/// `self.field`, but not `self.method(..)`.
fn field_at(tokens: &[TokenTree]) -> Option<&Ident> {
    let [
        TokenTree::Ident(this),
        TokenTree::Punct(dot),
        TokenTree::Ident(field),
        after @ ..,
    ] = tokens
    else {
        return None;
    };
    let is_field = this == "self" && dot.as_char() == '.' && !is_call(after);
    is_field.then_some(field)
}

/// After a name: `(`, or `::` of a turbofish, means that it is called.
fn is_call(after: &[TokenTree]) -> bool {
    match after {
        [TokenTree::Group(group), ..] => group.delimiter() == Delimiter::Parenthesis,
        [TokenTree::Punct(first), TokenTree::Punct(second), ..] => {
            first.as_char() == ':' && second.as_char() == ':'
        }
        _ => false,
    }
}

/// The braces of a pattern that takes `self` apart, `{ .. } = self` or `{ .. } = &self`.
fn pattern_at(tokens: &[TokenTree]) -> Option<&Group> {
    let [
        TokenTree::Group(fields),
        TokenTree::Punct(equals),
        after @ ..,
    ] = tokens
    else {
        return None;
    };
    let is_reference =
        |token: &&TokenTree| matches!(token, TokenTree::Punct(p) if "&*".contains(p.as_char()));
    let is_self = match &after[after.iter().take_while(is_reference).count()..] {
        [TokenTree::Ident(_), TokenTree::Punct(dot), ..] if dot.as_char() == '.' => false,
        [TokenTree::Ident(this), ..] => this == "self",
        _ => false,
    };
    let found = fields.delimiter() == Delimiter::Brace && equals.as_char() == '=' && is_self;
    found.then_some(fields)
}

/// The names of a struct pattern's fields: the first of each part, after `ref` and `mut`.
fn pattern_fields(pattern: &Group) -> Vec<Ident> {
    let mut fields = Vec::new();
    let mut at_start = true;
    for token in pattern.stream() {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => at_start = true,
            TokenTree::Ident(word) if word == "ref" || word == "mut" => {}
            TokenTree::Ident(field) if at_start => {
                fields.push(field);
                at_start = false;
            }
            TokenTree::Group(_) => {}
            _ => at_start = false,
        }
    }
    fields
}

/// The functions and methods that a body calls by name, with every place.
pub(crate) fn calls(body: TokenStream) -> Vec<Ident> {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(calls(group.stream())),
            TokenTree::Ident(name) if is_call_of_name(&tokens[i + 1..]) => {
                found.push(name.clone());
            }
            _ => {}
        }
    }
    found
}

/// `(`, or a turbofish and `(`; a path goes on after `::`.
fn is_call_of_name(after: &[TokenTree]) -> bool {
    match after {
        [TokenTree::Group(group), ..] => group.delimiter() == Delimiter::Parenthesis,
        [
            TokenTree::Punct(a),
            TokenTree::Punct(b),
            TokenTree::Punct(open),
            ..,
        ] => a.as_char() == ':' && b.as_char() == ':' && open.as_char() == '<',
        _ => false,
    }
}

/// `true` if the name stands anywhere for itself, and not as a field or method after a dot.
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    let mut dots = 0;
    for token in tokens {
        let found = match &token {
            TokenTree::Ident(ident) => dots != 1 && ident == name,
            TokenTree::Group(group) => mentions(group.stream(), name),
            _ => false,
        };
        if found {
            return true;
        }
        // Two dots are a range.
        dots = match &token {
            TokenTree::Punct(dot) if dot.as_char() == '.' => dots + 1,
            _ => 0,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn names(idents: Vec<Ident>) -> Vec<String> {
        idents.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn finds_fields_but_not_methods() {
        let body = quote! {
            let w = self.gamma.val();
            let y = call!(self.eps, self.helper(x), self.helper::<2>(x));
            let z: f64 = match x { _ if self.flag => self.a, _ => 0.0 };
            self.gamma.clone() * other.weight
        };
        assert_eq!(names(fields_read(body)), ["gamma", "eps", "flag", "a"]);
    }

    #[test]
    fn finds_fields_that_a_pattern_takes() {
        let body = quote! {
            let Self { weight, eps: tiny, ref bias, inner: Inner { deep, .. }, .. } = self;
            let Norm { gamma } = *self;
            let Other { foreign } = other;
            let Inner { deep } = &self.scale;
        };
        assert_eq!(
            names(fields_read(body)),
            ["weight", "eps", "bias", "inner", "gamma", "scale"]
        );
    }

    #[test]
    fn finds_calls() {
        let body = quote! {
            let y = activation::silu(x).gelu() + relu::<2>(x);
            if sigmoid { tanh(y) } else { Gelu::new().forward(y) }
        };
        let expected = ["silu", "gelu", "relu", "tanh", "new", "forward"];
        assert_eq!(names(calls(body)), expected);
    }

    #[test]
    fn a_name_after_a_dot_is_another() {
        assert!(mentions(quote!(a + f(fast)), "fast"));
        assert!(!mentions(quote!(self.fast), "fast"));
        assert!(mentions(quote!(0..fast), "fast"));
        assert!(mentions(quote!(self.fast), "self"));
    }
}
