//! The semantics key of a site: a choice for every setting of its contract.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use super::{Choice, Condition, Contract, Setting, When};

/// The choices that were read. Tokens and JSON come from the same choices, so they cannot differ.
pub(crate) struct Key {
    contract: &'static Contract,
    /// In the contract's order; nothing for a setting whose value is in error.
    choices: Vec<(&'static Setting, Option<&'static Choice>)>,
}

impl Key {
    /// The key with these choices, one for each setting of the contract.
    pub(crate) fn new(
        contract: &'static Contract,
        choices: Vec<(&'static Setting, Option<&'static Choice>)>,
    ) -> Self {
        Self { contract, choices }
    }

    /// Returns true if a condition holds, `None` if its setting is in error. An absent condition holds.
    pub(crate) fn holds(&self, condition: Option<Condition>) -> Option<bool> {
        let Some(condition) = condition else {
            return Some(true);
        };
        let choice = self.choice(condition.setting)?;
        Some(condition.values.contains(&choice))
    }

    /// Returns true if the settings bring an operand, `None` if it depends on a setting in error.
    pub(crate) fn brings(&self, when: When) -> Option<bool> {
        let mut all = Some(true);
        for condition in when.conditions() {
            match self.holds(Some(*condition)) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => all = None,
            }
        }
        all
    }

    /// The value of a setting as it is written in the attribute; nothing if it is in error.
    pub(crate) fn choice(&self, setting: &str) -> Option<&'static str> {
        let found = self.choices.iter().find(|(other, _)| other.name == setting);
        found.and_then(|(_, choice)| choice.map(|choice| choice.written))
    }

    /// `true` if every setting has a value.
    pub(crate) fn is_complete(&self) -> bool {
        self.choices.iter().all(|(_, choice)| choice.is_some())
    }

    /// The key as a `SemanticsKey`, its names reached through `path::`.
    pub(crate) fn tokens(&self, path: &TokenStream) -> TokenStream {
        let variant = format_ident!("{}", self.contract.key);
        let value = self.value(path);
        quote!(#path::SemanticsKey::#variant(#value))
    }

    /// The key as one line of JSON.
    pub(crate) fn json(&self) -> String {
        let settings = self.chosen().map(|(name, choice)| (name, choice.json));
        // Parts that share a key are alike in JSON.
        let is_told = self
            .contract
            .variants()
            .any(|other| other.key != self.contract.key);
        let part = self.contract.variant.iter().copied();
        let part = part.filter(|(name, _)| is_told && *name == "part");
        let fields: Vec<_> = std::iter::once(("op", self.contract.op))
            .chain(part)
            .chain(settings)
            .map(|(name, value)| format!("\"{name}\":\"{value}\""))
            .collect();
        format!("{{{}}}", fields.join(","))
    }

    /// The settings as they would be written in the attribute.
    pub(crate) fn written(&self) -> String {
        let settings = self.chosen().map(|(name, choice)| (name, choice.written));
        let all = self.contract.variant.iter().copied().chain(settings);
        let written = all.map(|(name, value)| format!("`{name} = {value}`"));
        written.collect::<Vec<_>>().join(", ")
    }

    fn chosen(&self) -> impl Iterator<Item = (&'static str, &'static Choice)> {
        let choices = self.choices.iter();
        choices.filter_map(|(setting, choice)| choice.map(|choice| (setting.name, choice)))
    }

    /// The key's own struct, its names reached through `path::`.
    pub(crate) fn value(&self, path: &TokenStream) -> TokenStream {
        let key = format_ident!("{}Key", self.contract.key);
        let choices = self.choices.iter();
        let fields = choices.filter_map(|(setting, choice)| {
            let name = Ident::new(setting.name, Span::call_site());
            let enum_ = format_ident!("{}", setting.type_name);
            let variant = format_ident!("{}", (*choice)?.variant);
            Some(quote!(#name: #path::#enum_::#variant))
        });
        quote!(#path::#key { #(#fields),* })
    }
}
