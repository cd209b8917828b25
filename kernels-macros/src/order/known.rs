//! The names of functions and methods that tell when they use their arguments.

use proc_macro2::Ident;
use syn::Expr;
use syn::ext::IdentExt;

/// Methods that hand on what they are called on, and use nothing of it.
const HANDS_ON: &[&str] = &[
    "as_deref",
    "as_ref",
    "as_slice",
    "borrow",
    "clone",
    "cloned",
    "copied",
    "enumerate",
    "expect",
    "first",
    "get",
    "into_iter",
    "is_empty",
    "is_none",
    "is_some",
    "iter",
    "last",
    "len",
    "rev",
    "unwrap",
    "zip",
];

/// Methods that use a layer then and there. Another one may give something that uses it later.
const USE: &[&str] = &["forward", "val"];

/// Functions that hand on their arguments, by their last two names.
const KEEPS: &[[&str; 2]] = &[
    ["Arc", "new"],
    ["Box", "new"],
    ["Clone", "clone"],
    ["Rc", "new"],
];

/// Returns true if a method only returns its receiver.
pub(super) fn hands_on(method: &Ident) -> bool {
    HANDS_ON.iter().any(|name| method == name)
}

/// Returns true if a method uses a layer at the time of the call.
pub(super) fn uses(method: &Ident) -> bool {
    USE.iter().any(|name| method == name)
}

/// `Some(..)` and other constructors, and functions that only hand on.
pub(super) fn keeps(function: &Expr) -> bool {
    let [of, last] = last_names(function);
    last.starts_with(char::is_uppercase) || KEEPS.iter().any(|known| *known == [&of, &last])
}

/// A function of a type, such as `Adapter::new`: what it makes may use its arguments later.
pub(super) fn makes(function: &Expr) -> bool {
    let [of, last] = last_names(function);
    of.starts_with(char::is_uppercase) && !USE.contains(&last.as_str())
}

/// The last two names of a path, of which the first may be empty.
fn last_names(function: &Expr) -> [String; 2] {
    let Expr::Path(path) = function else {
        return Default::default();
    };
    let mut names = path.path.segments.iter().rev();
    let mut next = || names.next().map(|part| part.ident.unraw().to_string());
    let last = next().unwrap_or_default();
    [next().unwrap_or_default(), last]
}
