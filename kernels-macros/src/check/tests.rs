//! Whole items through parse and check: what is accepted, and what is refused with which words.

mod errors;
mod fields;
mod methods;
mod mixtures;
mod settings;

use super::*;
use crate::testing::{messages, origin};
use quote::quote;

/// Every message of the item's errors.
fn errors(attribute: TokenStream, item: TokenStream) -> Vec<String> {
    messages(crate::try_run(attribute, item, &origin()).err())
}

/// The item is refused for exactly these reasons, each given by a part of its message.
#[track_caller]
fn refused(attribute: TokenStream, item: TokenStream, expected: &[&str]) {
    let found = errors(attribute, item);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (message, part) in found.iter().zip(expected) {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[track_caller]
fn accepted(attribute: TokenStream, item: TokenStream) {
    assert_eq!(errors(attribute, item), [""; 0]);
}

fn norm() -> TokenStream {
    quote!(
        struct Norm {
            weight: Param<Tensor<1>>,
            eps: f64,
        }
    )
}

fn mlp() -> TokenStream {
    quote!(
        struct M {
            w1: Linear,
            w2: Linear,
            w3: Linear,
        }
    )
}

fn rope() -> TokenStream {
    quote!(
        struct R {
            cos: Tensor<2>,
            sin: Tensor<2>,
        }
    )
}
