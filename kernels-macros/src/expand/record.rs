//! The site's declaration: its static, and its record in the built file.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::check::{BuiltIn, Custom, Kernel, Site};
use crate::origin::Origin;

/// The name and form in a site's record.
pub(super) struct Label<'a> {
    /// A variant of the runtime's `Form`.
    pub(super) form: &'static str,
    /// The function with its type.
    pub(super) item: String,
    pub(super) origin: &'a Origin,
}

/// The path of an item inside an annotated method, through which the running program finds a type that is unknown here.
fn path_of(runtime: &TokenStream, label: &Label<'_>) -> TokenStream {
    match label.form {
        "Method" if !label.item.contains("::") => {
            quote!(::core::option::Option::Some(#runtime::PathInside(|| {
                fn here() {}
                ::core::any::type_name_of_val(&here)
            })))
        }
        _ => quote!(::core::option::Option::None),
    }
}

/// Declares `SITE`.
pub(super) fn declare(site: &Site, label: &Label<'_>) -> TokenStream {
    match &site.kernel {
        Kernel::BuiltIn(kernel) => built_in(site, kernel, label),
        Kernel::Custom(kernel) => custom(site, kernel, label),
    }
}

/// The record as JSON, all of it text but for the module's path: what the compiler would have to
/// compute for every site would cost every user's build.
fn built_in(site: &Site, kernel: &BuiltIn, label: &Label<'_>) -> TokenStream {
    let Label { form, item, origin } = label;
    let runtime = &site.runtime;
    let (id, key) = (kernel.contract.id, kernel.key.tokens(runtime));
    let Origin {
        package,
        version,
        file,
        line,
    } = origin;
    let (layer, condition) = (optional(layer_of(site)), optional(condition_of(site)));
    let [layer_json, condition_json] = [layer_of(site), condition_of(site)]
        .map(|text| text.map_or_else(|| "null".to_owned(), |text| json(&text)));
    let [package_json, version_json, item_json, file_json] =
        [package, version, item, file].map(|text| json(text));
    let form_json = json(&form.to_lowercase());
    let key_json = kernel.key.json();
    let before = format!(
        r#"{{"schema":3,"record":"site","kernel":"{id}","crate":{package_json},"crate_version":{version_json},"module":""#
    );
    let after = format!(
        r#"","form":{form_json},"item":{item_json},"file":{file_json},"line":{line},"key":{key_json},"layer":{layer_json},"condition":{condition_json}}}"#
    );
    let form = format_ident!("{form}");
    let path = path_of(runtime, label);
    quote! {
        #runtime::declare_site! {
            static SITE = #runtime::SiteSpec {
                kernel: #id,
                item: #item,
                path: #path,
                module: ::core::module_path!(),
                krate: #package,
                crate_version: #version,
                file: #file,
                line: #line,
                form: #runtime::Form::#form,
                key: #key,
                layer: #layer,
                condition: #condition
            },
            json: ::core::concat!(#before, ::core::module_path!(), #after)
        }
    }
}

/// A kernel of another crate: its id and key are constants there.
fn custom(site: &Site, Custom { path, .. }: &Custom, label: &Label<'_>) -> TokenStream {
    let Label { form, item, .. } = label;
    let runtime = &site.runtime;
    let (layer, condition) = (optional(layer_of(site)), optional(condition_of(site)));
    let form = format_ident!("{form}");
    let inside = path_of(runtime, label);
    quote! {
        #runtime::declare_site! {
            static SITE = {
                kernel: #path::ID,
                item: #item,
                path: #inside,
                form: Form::#form,
                key: SemanticsKey::Custom(#path::KEY),
                key_json: "",
                layer: #layer,
                condition: #condition
            }
        }
    }
}

fn layer_of(site: &Site) -> Option<String> {
    site.layer.as_ref().map(|layer| layer.value())
}

/// The condition in one line, as the compiler prints its tokens.
fn condition_of(site: &Site) -> Option<String> {
    let text = site.when.as_ref()?.to_string();
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn optional(text: Option<String>) -> TokenStream {
    match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    }
}

/// A string in JSON.
fn json(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => json.push_str(&format!("\\u{:04x}", c as u32)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(json(r#"C:\a "b""#), r#""C:\\a \"b\"""#);
        assert_eq!(json("a\nµ"), "\"a\\u000aµ\"");
    }
}
