//! Finds the operands: in a struct's fields ([`fields`]), or in a function's parameters and the
//! fields that its body reads ([`values`]).

mod fields;
mod left;
mod unread;
mod values;
mod wrapped;

pub(super) use fields::bind as to_fields;
pub(super) use values::bind as to_function;
pub(super) use values::{Parameter, given, has_parameters_for, parameters, takes_too_few_tensors};

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{Expr, ExprLit, ExprPath, ExprUnary, Lit, UnOp};

use crate::attr::{Argument, Attribute};
use crate::contract::{Binding, Contract, ForeignField, Key, Operand, Place, Role, Shape};
use crate::errors::Errors;
use crate::near::list;

/// The attribute of a built-in kernel, in which operands are looked up.
pub(super) struct Wanted<'a> {
    pub(super) contract: &'static Contract,
    pub(super) shape: &'static Shape,
    pub(super) key: &'a Key,
    pub(super) attribute: &'a Attribute,
    /// The condition; what it mentions is accounted for.
    pub(super) when: Option<&'a TokenStream>,
}

impl Wanted<'_> {
    fn operands(&self) -> impl Iterator<Item = &'static Operand> {
        self.shape.operands_of(self.key)
    }

    /// The kind of field or parameter that shows another computation, under these settings.
    fn foreign(&self, name: &Ident) -> Option<&'static ForeignField> {
        let fields = self.contract.foreign_fields.iter();
        let mut foreign = fields.filter(|field| match field.unless {
            Some(condition) => self.key.holds(Some(condition)) == Some(false),
            None => true,
        });
        foreign.find(|field| field.names.iter().any(|other| name == other))
    }

    /// ``, which `clamp = limit` needs`` for an operand that a setting brings.
    fn because(&self, operand: &Operand) -> String {
        let brought = operand.when.conditions().iter().find_map(|condition| {
            let written = self.attribute.get(condition.setting)?;
            Some(format!(
                ", which `{} = {}` needs",
                condition.setting,
                written.as_text()
            ))
        });
        brought.unwrap_or_default()
    }

    /// The parameters that the kernel may take, for messages: `` `x`, `weight` and `eps` ``.
    pub(super) fn takes(&self, first: Option<&'static str>) -> String {
        let operands = self.operands();
        let operands = operands.filter(|operand| operand.role.may_be_parameter());
        let names = operands.map(|operand| operand.name);
        list(first.into_iter().chain(names), "and")
    }
}

/// A field of each element of the list: the macro does not see it, so a name that is not given is
/// the usual one, and rustc says whether there is such a field.
fn of_element(wanted: &Wanted<'_>, operand: &Operand) -> syn::Result<Place> {
    let name = match wanted.attribute.get(operand.name) {
        Some(argument) => argument.as_name()?,
        None => Ident::new(operand.usual[0], Span::call_site()),
    };
    Ok(Place::OfElement(name))
}

/// The value of an argument that says a number itself, `eps = 1e-5`, or the path of a constant, `eps = EPS` or
/// `eps = Self::EPS`. A single name is a constant if it is written as constants are, in capitals.
fn constant(operand: &Operand, argument: &Argument) -> Option<TokenStream> {
    if !operand.role.may_be_constant() {
        return None;
    }
    let number = |literal: TokenStream| match operand.role {
        Role::Count => literal,
        Role::Integer => quote!((#literal as i64)),
        _ => quote!((#literal as f64)),
    };
    match syn::parse2::<Expr>(argument.value.clone()).ok()? {
        Expr::Lit(ExprLit {
            lit: literal @ (Lit::Float(_) | Lit::Int(_)),
            ..
        }) => Some(number(quote!(#literal))),
        Expr::Unary(ExprUnary {
            op: op @ UnOp::Neg(_),
            expr,
            ..
        }) if operand.role == Role::Integer && matches!(*expr, Expr::Lit(_)) => {
            Some(number(quote!(#op #expr)))
        }
        Expr::Path(ExprPath {
            qself: None, path, ..
        }) => {
            let is_constant = path.segments.len() > 1
                || path
                    .get_ident()
                    .is_some_and(|name| is_capitals(&name.to_string()));
            is_constant.then(|| quote!(#path))
        }
        _ => None,
    }
}

/// The end of a message about a name that is not found, where a constant may stand.
fn or_constant(operand: &Operand, name: &Ident) -> String {
    match operand.role.may_be_constant() {
        true => format!(
            "\na constant is written in capitals, or with its path: `{} = self::{name}`",
            operand.name
        ),
        false => String::new(),
    }
}

fn is_capitals(name: &str) -> bool {
    name.contains(|c: char| c.is_uppercase()) && !name.contains(|c: char| c.is_lowercase())
}

/// Two operands cannot be the same value.
fn refuse_shared(bindings: &[Binding], errors: &mut Errors) {
    for (i, binding) in bindings.iter().enumerate() {
        let Some(name) = binding.place.name() else {
            continue;
        };
        let mut earlier = bindings[..i].iter();
        if let Some(earlier) = earlier.find(|earlier| earlier.place.is(&binding.place)) {
            let (a, b) = (earlier.operand.name, binding.operand.name);
            errors.at(name, format!("`{name}` is bound to both `{a}` and `{b}`"));
        }
    }
}

/// A message about an operand under the name that the user gave it.
fn about(operand: &Operand, name: &Ident, message: &str) -> String {
    match name == operand.name {
        true => format!("`{name}`: {message}"),
        false => format!("`{name}`, the kernel's `{}`: {message}", operand.name),
    }
}

/// A message about several candidates for one operand.
fn ambiguous(what: &str, found: &[Ident]) -> syn::Error {
    let all = list(found.iter().map(ToString::to_string), "and");
    let second = &found[1];
    let message = format!("{all} could all be `{what}`\nsay which one it is: `{what} = {second}`");
    syn::Error::new(second.span(), message)
}
