//! The context from which a contract writes a call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{Key, Operand};
use crate::order::FirstUse;

/// An operand and the place where it was found.
pub(crate) struct Binding {
    pub(crate) operand: &'static Operand,
    pub(crate) place: Place,
}

/// A field of `self`, a parameter, a part of one, or a constant.
pub(crate) enum Place {
    Field(Ident),
    Parameter {
        name: Ident,
        by_reference: bool,
    },
    /// A field of each element of the list.
    OfElement(Ident),
    /// An expression that is the same for every call: a literal, or the path of a constant.
    Constant(TokenStream),
}

impl Place {
    /// `true` if both are one field, or one parameter.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let kind = std::mem::discriminant;
        self.name().is_some() && kind(self) == kind(other) && self.name() == other.name()
    }

    /// The name, if it is a field.
    pub(crate) fn field(&self) -> Option<&Ident> {
        match self {
            Self::Field(name) => Some(name),
            Self::Parameter { .. } | Self::OfElement(_) | Self::Constant(_) => None,
        }
    }

    /// The field's or parameter's name.
    pub(crate) fn name(&self) -> Option<&Ident> {
        match self {
            Self::Field(name) | Self::Parameter { name, .. } | Self::OfElement(name) => Some(name),
            Self::Constant(_) => None,
        }
    }
}

/// Everything that stands in a call.
pub(crate) struct CallContext<'a> {
    /// The path of the runtime's `__private` module.
    pub(crate) runtime: &'a TokenStream,
    pub(crate) key: &'a Key,
    pub(crate) bindings: &'a [Binding],
    /// The order in which the operands that hold parameters are used first.
    pub(crate) first_use: &'a FirstUse,
    /// The token `self`.
    pub(crate) this: &'a Ident,
    /// The parameter that stands for every rank of the tensors that flow through, in a generated `forward`.
    pub(crate) open_rank: Option<Ident>,
    /// The call of the site, `At::new(&SITE)`.
    pub(crate) at: TokenStream,
    /// The closure that runs the reference on the tensors that flow through.
    pub(crate) reference: TokenStream,
}

impl CallContext<'_> {
    /// The call of a function of the runtime for this site: with the site, these operands, and the reference.
    pub(super) fn site(&self, function: &str, operands: &TokenStream) -> TokenStream {
        let (runtime, at, reference) = (self.runtime, &self.at, &self.reference);
        let function = quote::format_ident!("{function}");
        quote!(#runtime::#function(#at, #operands, #reference))
    }

    /// The operand by value; it is moved.
    pub(crate) fn value(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Field(name) => self.field(name),
            Place::Parameter { name, .. } | Place::OfElement(name) => quote!(#name),
            Place::Constant(value) => value.clone(),
        }
    }

    /// A reference that lasts for the call: of a parameter by value it is one to a clone, since the
    /// reference takes the parameter itself.
    pub(crate) fn lent(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Parameter {
                name,
                by_reference: false,
            } => {
                let clone = clone(&quote!(&#name));
                quote!(&#clone)
            }
            _ => self.borrow(operand),
        }
    }

    /// `true` if the settings bring the operand, or it is there.
    pub(crate) fn has(&self, operand: &str) -> bool {
        self.find(operand).is_some()
    }

    /// The operand by reference.
    pub(crate) fn borrow(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Field(name) => {
                let field = self.field(name);
                quote_spanned!(field_span(self.this, name)=> &#field)
            }
            Place::Parameter {
                name,
                by_reference: true,
            } => quote!(#name),
            Place::Parameter { name, .. } | Place::OfElement(name) => quote!(&#name),
            Place::Constant(value) => quote!(&#value),
        }
    }

    /// The operand for a callee that takes owned or borrowed values. A parameter by value is
    /// cloned, since the reference takes it too; a tensor's clone shares its memory.
    pub(crate) fn shared(&self, operand: &str) -> TokenStream {
        match self.place(operand) {
            Place::Parameter {
                name,
                by_reference: false,
            } => clone(&quote!(&#name)),
            _ => self.borrow(operand),
        }
    }

    /// The layer's `forward`, reported where the layer's name stands.
    pub(crate) fn forward(&self, layer: &str, arguments: TokenStream) -> TokenStream {
        let value = self.value(layer);
        let span = match self.place(layer) {
            Place::Field(name) => field_span(self.this, name),
            _ => proc_macro2::Span::call_site(),
        };
        let forward = Ident::new("forward", span);
        let arguments = quote_spanned!(span=> (#arguments));
        quote_spanned!(span=> #value.#forward #arguments)
    }

    /// The layer's `forward` as [`CallContext::forward`] writes it, for a closure that live verification calls: it then runs
    /// on a copy of the layer.
    pub(crate) fn forward_copied(&self, layer: &str, arguments: TokenStream) -> TokenStream {
        let runtime = self.runtime;
        let lent = self.borrow(layer);
        let span = match self.place(layer) {
            Place::Field(name) => field_span(self.this, name),
            _ => Span::call_site(),
        };
        let copy = Ident::new("copy", Span::mixed_site());
        let forward = Ident::new("forward", span);
        let call = quote_spanned!(span=> (*#copy.get(#lent)).#forward(#arguments));
        quote!({
            let #copy = #runtime::detached!(#lent);
            #runtime::begin();
            #call
        })
    }

    /// The `forward` of a layer of one tensor, as the function `forward` writes it. In a generated `forward`, which is
    /// for tensors of every rank, a layer of one rank is an error that says so.
    pub(crate) fn forward_of_any_rank(
        &self,
        forward: fn(&Self, &str, TokenStream) -> TokenStream,
        layer: &str,
        x: TokenStream,
    ) -> TokenStream {
        let Some(rank) = &self.open_rank else {
            return forward(self, layer, x);
        };
        let runtime = self.runtime;
        let result = forward(self, layer, quote!(#runtime::layer_input(#x)));
        quote!(#runtime::layer_output::<#rank, _>(#result))
    }

    /// A call of a method of one of the runtime's traits on the operand.
    pub(crate) fn read(&self, operand: &str, trait_: &str, method: &str) -> TokenStream {
        let runtime = self.runtime;
        let [trait_, method] = [trait_, method].map(|name| quote::format_ident!("{name}"));
        let operand = self.borrow(operand);
        quote!(#runtime::#trait_::#method(#operand))
    }

    /// Reads an operand as [`CallContext::read`] does, in an `Option`: `None` if the settings don't bring it.
    pub(crate) fn read_optional(&self, operand: &str, trait_: &str, method: &str) -> TokenStream {
        match self.find(operand) {
            Some(_) => {
                let value = self.read(operand, trait_, method);
                quote!(::core::option::Option::Some(#value))
            }
            None => quote!(::core::option::Option::None),
        }
    }

    /// Reads an operand as [`CallContext::read_optional`] does, in a function that the reference path doesn't call,
    /// so that it reads no field. A parameter is read before, since the reference takes it.
    pub(crate) fn read_lazily(&self, operand: &str, trait_: &str, method: &str) -> TokenStream {
        let value = self.read_optional(operand, trait_, method);
        match self.find(operand) {
            Some(Place::Parameter { .. }) => quote!(&{
                let value = ::core::cell::Cell::new(#value);
                move || value.take()
            }),
            _ => quote!(&|| #value),
        }
    }

    /// Reads an operand as [`CallContext::read_lazily`] does, for a closure that live verification calls: it then reads a
    /// copy of a field.
    pub(crate) fn read_copied(&self, operand: &str, trait_: &str, method: &str) -> TokenStream {
        let Some(Place::Field(_)) = self.find(operand) else {
            return self.read_lazily(operand, trait_, method);
        };
        let runtime = self.runtime;
        let lent = self.borrow(operand);
        let copy = Ident::new("copy", Span::mixed_site());
        let [trait_, method] = [trait_, method].map(|name| quote::format_ident!("{name}"));
        quote!(&|| {
            let #copy = #runtime::detached!(#lent);
            #runtime::begin();
            ::core::option::Option::Some(#runtime::#trait_::#method(#copy.get(#lent)))
        })
    }

    /// The key as a value of its own struct.
    pub(crate) fn key(&self) -> TokenStream {
        self.key.value(self.runtime)
    }

    fn find(&self, operand: &str) -> Option<&Place> {
        let found = self
            .bindings
            .iter()
            .find(|binding| binding.operand.name == operand);
        found.map(|binding| &binding.place)
    }

    fn place(&self, operand: &str) -> &Place {
        self.find(operand)
            .expect("a contract reads only the operands that its settings bring")
    }

    /// `self.name`, reported where the name stands.
    fn field(&self, name: &Ident) -> TokenStream {
        field(self.this, name)
    }
}

/// `self.name`, reported where the name stands, with the `self` of the function.
pub(crate) fn field(this: &Ident, name: &Ident) -> TokenStream {
    let span = field_span(this, name);
    let this = Ident::new("self", span);
    quote_spanned!(span=> #this.#name)
}

/// `Clone::clone(..)` of a reference.
pub(crate) fn clone(reference: &TokenStream) -> TokenStream {
    quote!(::core::clone::Clone::clone(#reference))
}

/// The place of the name with the hygiene of `self`.
fn field_span(this: &Ident, name: &Ident) -> proc_macro2::Span {
    name.span().resolved_at(this.span())
}
