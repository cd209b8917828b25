//! Numbers that are checked when they are read.

use crate::argument::{Argument, wrong};
use crate::call::{Error, refused};
use kernels_abi::{Any, types};

/// A number in a range.
pub(crate) trait Number: Sized {
    /// The range in words.
    const RANGE: &'static str;

    /// Takes a number that is in the range.
    fn take(given: f64) -> Option<Self>;
}

fn checked<N: Number>(given: f64) -> Result<N, Error> {
    let refuse = || refused(format!("{} is expected, and not {given}", N::RANGE));
    N::take(given).map_or_else(refuse, Ok)
}

impl<N: Number> Argument for N {
    const KIND: &'static str = "float";
    type C = f64;

    unsafe fn of_c(given: f64) -> Result<Self, Error> {
        checked(given)
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        match given.type_index {
            // SAFETY: the type says which value it is.
            types::FLOAT => checked(unsafe { given.value.float }),
            // SAFETY: as above.
            types::INT => checked(unsafe { given.value.integer } as f64),
            other => wrong("a float", other),
        }
    }
}

/// A number that may be absent. In C, NaN stands for that.
impl<N: Number> Argument for Option<N> {
    const KIND: &'static str = "float?";
    type C = f64;

    unsafe fn of_c(given: f64) -> Result<Self, Error> {
        match given.is_nan() {
            true => Ok(None),
            false => checked(given).map(Some),
        }
    }

    unsafe fn of_any(given: &Any) -> Result<Self, Error> {
        match given.type_index {
            types::NONE => Ok(None),
            // SAFETY: the caller's.
            _ => unsafe { N::of_any(given) }.map(Some),
        }
    }
}

/// Declares types of numbers, each with its range.
macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $Name:ident, $range:literal: $holds:expr;)+) => {
        $($(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) struct $Name(pub(crate) f64);

        impl Number for $Name {
            const RANGE: &'static str = $range;

            fn take(given: f64) -> Option<Self> {
                let holds: fn(f64) -> bool = $holds;
                holds(given).then_some(Self(given))
            }
        })+
    };
}

// Kernels compute in f32.
numbers! {
    /// A factor or an addend.
    Finite, "a finite number of f32": |x| (x as f32).is_finite();
    /// The number that is added before a root is taken, or to one.
    Epsilon, "a finite number of f32 from 0 on": |x| x >= 0.0 && (x as f32).is_finite();
    /// A limit: a soft cap, which is divided by, or that of a clamp.
    Limit, "a number above 0 in the normal range of f32": |x| x > 0.0 && (x as f32).is_normal();
    /// A part of a distribution.
    Part, "a number from 0 to 1": |x| (0.0..=1.0).contains(&x);
    /// The part of a moment that a step keeps.
    Beta, "a number from 0 to below 1": |x| (0.0..1.0).contains(&x);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_abi::Value;

    fn float(value: f64) -> Any {
        Any {
            type_index: types::FLOAT,
            small_length: 0,
            value: Value { float: value },
        }
    }

    #[test]
    fn only_nan_of_c_stands_for_no_number() {
        // SAFETY: numbers have no requirements.
        let of_c = |x: f64| unsafe { Option::<Limit>::of_c(x) };
        // SAFETY: the value is what its type says.
        let of_any = |x: f64| unsafe { Option::<Limit>::of_any(&float(x)) };
        assert_eq!(of_c(f64::NAN), Ok(None));
        assert!(of_any(f64::NAN).is_err());
        assert_eq!(
            [of_c(30.0), of_any(30.0)],
            [const { Ok(Some(Limit(30.0))) }; 2]
        );
        for wrong in [0.0, -0.0, -1.0, f64::INFINITY, 1e-300, 1e300] {
            assert!(of_c(wrong).is_err() && of_any(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(
            checked::<Beta>(1.0).unwrap_err().message,
            "a number from 0 to below 1 is expected, and not 1"
        );
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e39] {
            assert!(checked::<Finite>(wrong).is_err());
            assert!(checked::<Epsilon>(wrong).is_err());
            assert!(checked::<Part>(wrong).is_err());
            assert!(checked::<Beta>(wrong).is_err());
        }
        assert!(checked::<Finite>(-1.0).is_ok() && checked::<Epsilon>(-1.0).is_err());
        assert!(checked::<Epsilon>(0.0).is_ok() && checked::<Part>(1.0).is_ok());
    }
}
