//! Chooses the contract of an id that has several: arguments such as `part = block` say which.

use syn::Error;

use crate::attr::Attribute;
use crate::contract::Contract;
use crate::near::{did_you_mean, list};

/// The contract that the attribute means, `first` being the default of its id.
pub(crate) fn choose(
    first: &'static Contract,
    attribute: &Attribute,
) -> syn::Result<&'static Contract> {
    let mut left: Vec<&'static Contract> = first.variants().collect();
    for at in 0.. {
        // Those that are left agree in everything before.
        let Some((name, default)) = left[0].variant.get(at).copied() else {
            break;
        };
        let value_of = |contract: &Contract| contract.variant.get(at).map(|(_, value)| *value);
        let argument = attribute.get(name).filter(|argument| !argument.is_broken());
        let wanted = match argument {
            None => default,
            Some(argument) => {
                let text = argument.as_text();
                let mut values: Vec<&'static str> =
                    left.iter().copied().filter_map(value_of).collect();
                values.dedup();
                match values.iter().find(|value| **value == text) {
                    Some(value) => *value,
                    None => {
                        let message = unknown(name, &text, &values);
                        return Err(Error::new_spanned(&argument.value, message));
                    }
                }
            }
        };
        left.retain(|contract| value_of(contract) == Some(wanted));
    }
    Ok(left[0])
}

fn unknown(name: &str, text: &str, values: &[&str]) -> String {
    let bare = text.trim_matches('"');
    if values.contains(&bare) {
        return format!("write the value without quotes: `{name} = {bare}`");
    }
    let near = did_you_mean(text, values.iter().copied());
    let all = list(values, "or");
    format!("`{name}` cannot be `{text}`{near}\nit takes {all}")
}
