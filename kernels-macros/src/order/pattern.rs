//! Variables: what a pattern binds.

use syn::Pat;
use syn::ext::IdentExt;

use super::body::Walk;
use super::value::Value;

impl Walk<'_> {
    pub(super) fn local(&mut self, local: &syn::Local) {
        let Some(init) = &local.init else {
            return;
        };
        let value = self.expr(&init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            let diverges = self.apart(|walk| walk.expr(otherwise));
            let goes_on = self.apart(|_| Value::Plain);
            self.join([goes_on, diverges]);
        }
        if let Pat::Type(_) = &local.pat {
            self.convert(&value);
        }
        self.bind(&local.pat, &value);
    }

    /// Names of a pattern: the fields of `self`, the parts of a tuple, else all of the value.
    pub(super) fn bind(&mut self, pattern: &Pat, value: &Value) {
        match (pattern, value) {
            (Pat::Ident(name), _) => {
                self.names
                    .push((name.ident.unraw().to_string(), value.clone()));
                if let Some((_, inner)) = &name.subpat {
                    self.bind(inner, value);
                }
            }
            (Pat::Type(typed), _) => self.bind(&typed.pat, value),
            (Pat::Paren(inner), _) => self.bind(&inner.pat, value),
            (Pat::Reference(inner), _) => self.bind(&inner.pat, value),
            (Pat::Struct(pattern), _) => {
                for field in &pattern.fields {
                    let value = self.member(value.clone(), &field.member);
                    self.bind(&field.pat, &value);
                }
            }
            (Pat::Tuple(pattern), Value::Tuple(values)) if !has_rest(&pattern.elems) => {
                for (pattern, value) in pattern.elems.iter().zip(values) {
                    self.bind(pattern, value);
                }
            }
            (Pat::Tuple(pattern), _) => self.bind_each(&pattern.elems, value),
            (Pat::TupleStruct(pattern), _) => self.bind_each(&pattern.elems, value),
            (Pat::Slice(pattern), _) => self.bind_each(&pattern.elems, value),
            (Pat::Or(pattern), _) => self.bind_each(&pattern.cases, value),
            (Pat::Wild(_) | Pat::Lit(_) | Pat::Path(_) | Pat::Range(_) | Pat::Rest(_), _) => {}
            _ => self.forget(value),
        }
    }

    fn bind_each<'p>(&mut self, patterns: impl IntoIterator<Item = &'p Pat>, value: &Value) {
        for pattern in patterns {
            self.bind(pattern, value);
        }
    }
}

fn has_rest<'p>(patterns: impl IntoIterator<Item = &'p Pat>) -> bool {
    let mut patterns = patterns.into_iter();
    patterns.any(|pattern| matches!(pattern, Pat::Rest(_)))
}
