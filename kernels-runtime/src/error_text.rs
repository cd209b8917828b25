//! `Debug` for errors that prints the same as `Display`, because a program whose `main` returns an error shows its
//! `Debug`. `cann-sys` has the same code, but a build without NPUs has no `cann-sys`.

use std::error::Error;
use std::fmt;

/// Writes the error's text, followed by the causes that the text does not contain.
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

/// Implements `Debug` of errors as their `Display`, followed by the causes that it does not contain.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug_as_display {
    ($($error:ty),+ $(,)?) => {
        $(impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::__private::write_with_causes(self, f)
            }
        })+
    };
}

crate::__debug_as_display!(
    crate::InitError,
    crate::apply::ApplyError,
    crate::dispatch::PlanCheckError,
    crate::dispatch::PlanDifference,
    crate::dispatch::PlanError,
    crate::live::SamplingError,
    crate::live::VerifyError,
    crate::mapping::KernelizeError,
    crate::mapping::MappingError,
    crate::ops::moe::router::RoutingError,
    crate::policy::PolicyError,
    crate::registry::RegistryError,
    crate::registry::RegistryProblem,
    crate::registry::SiteRecordError,
    crate::registry::section::SectionError,
    crate::tune::TuneError,
);

#[cfg(feature = "remote")]
crate::__debug_as_display!(
    crate::remote::ConnectError,
    crate::remote::InvalidAddress,
    crate::remote::LoadError,
    crate::remote::wire::Malformed,
);

#[cfg(feature = "packages")]
crate::__debug_as_display!(crate::packages::Error);

#[cfg(feature = "npu")]
crate::__debug_as_display!(crate::npu::NpuError, crate::npu::Refused);

#[cfg(test)]
mod tests {
    use crate::policy::{Policy, PolicyError};
    use thiserror::Error;

    #[derive(Error)]
    #[error("the outer one")]
    struct Outer(#[source] Told);

    #[derive(Error)]
    #[error("told with its cause: {0}")]
    struct Told(#[source] std::num::ParseIntError);

    crate::__debug_as_display!(Outer, Told);

    #[test]
    fn causes_are_told_once() {
        let number = "x".parse::<u8>().unwrap_err();
        let told = Told(number.clone());
        assert_eq!(format!("{told:?}"), told.to_string());
        let outer = format!("{:?}", Outer(told));
        assert_eq!(
            outer,
            format!("the outer one\ncaused by: told with its cause: {number}")
        );
    }

    #[test]
    fn a_main_that_returns_an_error_shows_its_sentence() {
        let source = "al".parse::<Policy>().unwrap_err();
        let error = crate::InitError::from(PolicyError::Environment {
            value: "al".to_owned(),
            source: Box::new(source),
        });
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(
            error
                .to_string()
                .starts_with("the environment variable BURN_KERNELS is `al`: `al` is")
        );
    }
}
