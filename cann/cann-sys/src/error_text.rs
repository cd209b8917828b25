//! `Debug` of errors prints what `Display` prints, because a program whose `main` returns an error shows its `Debug`.

use std::error::Error;
use std::fmt;

/// Writes the error's text, and the causes that it does not contain.
#[doc(hidden)]
pub fn write_with_causes(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    f.write_str(&said)?;
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            write!(f, "\ncaused by: {text}")?;
            said.push_str(&text);
        }
        source = cause.source();
    }
    Ok(())
}

/// Implements `Debug` of errors as their `Display`, with the causes that it does not contain.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug_as_display {
    ($($error:ty),+ $(,)?) => {
        $(impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::write_with_causes(self, f)
            }
        })+
    };
}

crate::__debug_as_display!(crate::LoadError, crate::MissingSymbol);
